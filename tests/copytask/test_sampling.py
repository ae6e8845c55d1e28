"""The level meanfield against exact sampling of the collapsed posterior at small L.

The data are at their mean, as in theory, and HMC is unbiased: what differs is the finite L alone.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from phasetheory.copytask import Setting, landscape
from phasetheory.landscape import find_phases
from phasetheory.landscape.phases import states_at
from phasetheory.networks import (
    CopyTask,
    Network,
    Plan,
    Problem,
    Sampler,
    estimate,
    sample_chains,
)
from phasetheory.networks.energy import data
from phasetheory.networks.task import expected_counts


def theory(attention, L, P, var_g=1.0):
    """Order parameters and their variances in equilibrium."""
    found = landscape(attention, Setting(L=L, V=4, var_g=var_g), "meanfield", (P / 1.5, P * 1.5))
    state = states_at(find_phases(found), P)[0]
    names = found.order_parameters
    variances = np.diagonal(state.susceptibility)
    return (
        dict(zip(names, state.order_parameters, strict=True)),
        dict(zip(names, variances, strict=True)),
    )


def sampled(attention, L, P, var_g=1.0, draws=1000):
    mean = data(CopyTask(L, 4), expected_counts(CopyTask(L, 4), P), 1.0)
    chains = sample_chains(
        Network(attention, L, 4, var_g),
        Problem(mean, mean, jnp.zeros((1, L), int)),
        Sampler(),
        Plan(draws=draws),
    )
    found = {name: estimate(values) for name, values in chains.observables.items()}
    assert all(found[name].converged for name in ("q", "test_loss"))
    return found


@pytest.mark.slow
def test_linear_theory_is_what_large_systems_tend_to():
    differences = {}
    for L in (4, 8, 16, 32):
        (expected, variance), found = (
            theory("linear", L, 31.25 * L),
            sampled("linear", L, 31.25 * L),
        )
        alpha = found["alpha"]
        differences[L] = expected["alpha"] - alpha.mean
        # the correction of finite size is seen, and falls at least as 1/L
        assert abs(differences[L]) < 0.1 / L
        assert found["c_G"].mean == pytest.approx(expected["c_G"], abs=0.06 / L)
        assert found["q"].mean == pytest.approx(expected["q"], rel=0.6 / L)
        if L >= 16:
            assert alpha.variance == pytest.approx(variance["alpha"], rel=0.05)
            assert found["c_G"].variance == pytest.approx(variance["c_G"], rel=0.15)
    assert differences[4] < -0.01
    assert abs(differences[32]) < abs(differences[4]) / 8


@pytest.mark.slow
@pytest.mark.parametrize("L, var_g, P", [(16, 1.0, 300.0), (16, 1.0, 500.0), (32, 4.0, 600.0)])
def test_row_wise_theory_against_samples(L, var_g, P):
    (expected, variance), found = theory("softmax", L, P, var_g), sampled("softmax", L, P, var_g)
    for name in ("a", "q"):
        error = found[name].error
        assert found[name].mean == pytest.approx(
            expected[name], abs=3 * error + 0.01 * expected[name]
        )
        assert found[name].variance == pytest.approx(variance[name], rel=0.2)
