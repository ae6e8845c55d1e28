"""Escape from metastable states: the pieces of Langer's formula, and the order of magnitude."""

import numpy as np
import pytest

from phasetheory.copytask import Setting
from phasetheory.copytask.escape import _effective, escape
from phasetheory.errors import InputError
from phasetheory.networks import CopyTask, Network
from phasetheory.networks.energy import data
from phasetheory.networks.passage import first_passages
from phasetheory.networks.task import expected_counts


def test_effective_mobility_of_two_coupled_linear_coordinates():
    """dx = -M H x dt + sqrt(2 M) dB has the effective mobility M."""
    M, H = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, -0.5], [-0.5, 1.0]])
    rng, step = np.random.default_rng(0), 0.02
    root = np.linalg.cholesky(2 * M * step)
    x = np.zeros((400, 2))
    series = []
    for k in range(12_000):
        x = x - step * x @ (M @ H).T + rng.normal(size=x.shape) @ root.T
        if k >= 2000 and k % 5 == 0:
            series.append(x)
    found = _effective(np.array(series), 5 * step)
    assert found == pytest.approx(M, abs=0.06)


@pytest.mark.slow
def test_the_barrier_at_coexistence_is_that_of_the_finder():
    setting = Setting(L=48, V=4, var_g=4.0)
    out, back = (
        escape(setting, 671.1829214, (400.0, 1200.0), from_low=low) for low in (True, False)
    )
    assert out.barrier == pytest.approx(3.5508091, rel=1e-5)
    assert back.barrier == pytest.approx(out.barrier, rel=1e-5)
    assert out.saddle == pytest.approx(back.saddle)
    assert out.time_error < 0.2 * out.time
    with pytest.raises(InputError, match="one state only"):
        escape(setting, 500.0, (400.0, 1200.0))


@pytest.mark.slow
def test_passages_depend_on_the_barrier():
    """Beyond the spinodal (P = 897) chains leave at once, below coexistence none does."""
    task, network = CopyTask(48, 4), Network("softmax", 48, 4, 4.0)
    gone, stays = (
        first_passages(network, data(task, expected_counts(task, P), 1.0), 0.25, 40.0, chains=8)
        for P in (1400.0, 600.0)
    )
    assert np.isfinite(gone.times).all()
    assert gone.mean < 20
    assert not np.isfinite(stays.times).any()
    assert stays.mean == np.inf
