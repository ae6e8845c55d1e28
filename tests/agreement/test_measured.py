"""Rows of measured values: chains, sweeps, budgets, trained networks."""

import json

import numpy as np
import pytest

from phasetheory.agreement.measured import Measurement, measure, sampled_rows, trained_row
from phasetheory.copytask import Setting
from phasetheory.errors import InputError
from phasetheory.networks import Chains, Minima

SMALL = {
    "attention": "softmax",
    "setting": Setting(L=6, V=3),
    "chains": 4,
    "warmup": 50,
    "draws": 50,
    "datasets": 2,
}


def rows_of(measurement, **more):
    return [row for found in measure(measurement, **more) for row in found]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"P": ()}, "ascending"),
        ({"P": (3, 2)}, "ascending"),
        ({"P": (2, 2)}, "ascending"),
        ({"P": (0, 2)}, "not 0"),
        ({"P": (1, 10**9)}, "10\\^8"),
        ({"method": "gibbs"}, "not 'gibbs'"),
        ({"datasets": 0}, "datasets must be"),
        ({"chains": 3}, "shared evenly"),
        ({"chains": 0}, "shared evenly"),
        ({"chains": 2}, "at least 2, not 1"),
        ({"chains": 10, "method": "sgld"}, "even number"),
        ({"chains": 4, "method": "langevin", "hysteresis": True}, "even number"),
        ({"chains": 5, "hysteresis": True}, "up and down"),
        ({"starts": ("prior", "prior")}, "once"),
        ({"starts": ("hot",)}, "not 'hot'"),
        ({"starts": ()}, "shared evenly|division|starts"),
        ({"method": "adam", "hysteresis": True}, "hysteresis needs a sampler"),
        ({"draws": 70}, "multiple of 50"),
        ({"warmup": 0}, "multiple of 50"),
        ({"seed": -1}, "seed must be 0"),
        ({"setting": Setting(L=4096, V=16)}, "smaller L or V"),
        ({"P": (1, 10**8)}, "100000000 sequences of length 6 need 4.47 GiB"),
    ],
    ids=str,
)
def test_bad_measurements(changes, says):
    with pytest.raises(InputError, match=says):
        Measurement(**{"P": (10,), **SMALL, **changes})


def test_seeds_are_distinct_and_data_sets_nested():
    m = Measurement(**SMALL, P=(10, 20))
    assert len(set(m.data_seeds)) == 2
    assert len({m.plan("", P, k).seed for P in m.P for k in range(2)}) == 4
    raw = Measurement(**{**SMALL, "chains": 8}, P=(10,), method="sgld")
    small, large = (raw.data_set(P, 0) for P in (10, 20))
    assert (np.asarray(large.sequences)[:10] == np.asarray(small.sequences)).all()


def test_settings_hold_all_that_numbers_depend_on():
    m = Measurement(**SMALL, P=(10, 20))
    assert json.loads(json.dumps(m.settings())) == m.settings()
    assert "P" not in m.settings() and "draws" not in m.settings()
    swept = Measurement(**SMALL, P=(10, 20), hysteresis=True).settings()
    assert swept["P"] == [10, 20] and swept["draws"] == 50


def fake(values, starts, complete=True):
    """Chains that recorded the given values of a and q, shape (chains, draws)."""
    ones = np.ones(len(values))
    observables = {"a": values, "q": values + 1.0}
    return Chains(observables, starts, 0.1 * ones, 0.8 * ones, complete, 1.0, None)


def test_starts_that_agree_are_taken_together():
    m = Measurement(**{**SMALL, "draws": 500}, P=(10,))
    starts = ("prior", "prior", "copy", "copy")
    rng = np.random.default_rng(0)
    runs = [fake(rng.normal(size=(4, 500)), starts) for _ in range(2)]
    (row,) = sampled_rows(m, 10, "", runs)
    assert row.start == "all" and row.datasets == 2 and row.draws == 500
    assert row.step == pytest.approx(0.1) and row.acceptance == pytest.approx(0.8)
    apart = [fake(run.observables["a"] + [[0], [0], [3], [3]], starts) for run in runs]
    one, two = sampled_rows(m, 10, "", apart)
    assert (one.start, two.start) == ("prior", "copy")
    assert one.values["a"].mean == pytest.approx(0, abs=0.1)
    assert two.values["a"].mean == pytest.approx(3, abs=0.1)
    assert not one.values["a"].trouble and not two.values["a"].trouble


def test_runs_that_were_stopped():
    m = Measurement(**{**SMALL, "draws": 500}, P=(10,))
    starts = ("prior", "prior", "copy", "copy")
    half = fake(np.random.default_rng(0).normal(size=(4, 100)), starts, complete=False)
    nothing = fake(np.zeros((4, 0)), starts, complete=False)
    for row in sampled_rows(m, 10, "", [half, nothing]):
        assert row.trouble == "budget spent after 0 of 500 draws"
        assert row.datasets == 1 and row.values["a"].between_error is None
    for row in sampled_rows(m, 10, "", [nothing, nothing]):
        assert row.values == {} and row.trouble


def test_trained_row_keeps_the_lowest_minimum_and_lists_the_others():
    m = Measurement(**SMALL, P=(10,), method="adam")

    def minima(a, energy, slope=(0.0, 0.0, 1.0)):
        energy, slope = np.array(energy, float), np.array(slope)
        lowest = (slope < 1e-3) & (energy == energy[slope < 1e-3].min(initial=np.inf))
        starts = ("prior", "copy", "copy")
        return Minima({"a": np.array(a)}, starts, energy, slope, slope < 1e-3, lowest, True, 1.0)

    runs = [minima([0.1, 0.4, 0.9], [-1.0, -3.0, -9.0]), minima([0.1, 0.5, 0.9], [-1, -4, -9])]
    row = trained_row(m, 10, runs)
    assert row.start == "lowest" and not row.trouble
    assert row.values["a"].mean == pytest.approx(0.45)
    assert row.values["energy"].mean == pytest.approx(-3.5)
    assert [(d.dataset, d.run, d.converged) for d in row.dropped] == [
        (0, 0, True),
        (0, 2, False),
        (1, 0, True),
        (1, 2, False),
    ]
    assert row.dropped[0].above == pytest.approx(2.0)
    row = trained_row(m, 10, [runs[0], minima([0.1, 0.2, 0.3], [0, 0, 0], (1.0, 2.0, 3.0))])
    assert row.datasets == 1 and "in 1 of 2 data sets no run came to a minimum" in row.trouble


def test_budget_is_shared_and_said():
    for row in rows_of(Measurement(**SMALL, P=(10, 20)), budget=1e-9):
        assert row.trouble.startswith("budget spent")


@pytest.mark.parametrize(
    "method",
    [
        "hmc",
        pytest.param("langevin", marks=pytest.mark.slow),
        pytest.param("sgld", marks=pytest.mark.slow),
    ],
)
def test_sweeps_go_on_from_the_chains_before(method):
    small = {**SMALL, "chains": 8, "datasets": 1}
    m = Measurement(**small, P=(10, 40), method=method, hysteresis=True)
    rows = rows_of(m)
    assert [(row.P, row.start) for row in rows] == [
        (10, "up"),
        (40, "up"),
        (40, "down"),
        (10, "down"),
    ]
    again = rows_of(m)
    assert [r.values for r in rows] == [r.values for r in again]
    if method != "hmc":
        assert all(row.values["a"].bias is not None for row in rows)
    alone = rows_of(Measurement(**small, P=(40,), method=method, hysteresis=True))
    assert alone[0].values != rows[1].values


@pytest.mark.parametrize(
    "more",
    [{"hysteresis": True}, pytest.param({"method": "adam"}, marks=pytest.mark.slow)],
    ids=str,
)
def test_checkpoints_give_the_same_numbers(more, tmp_path):
    m = Measurement(**{**SMALL, "chains": 8, "datasets": 1}, P=(10, 40), **more)
    straight = rows_of(m)

    class Stop(Exception):
        pass

    for stop in (0.2, 0.4, 0.6, 0.8):

        def progress(share, stop=stop):
            if share > stop:
                raise Stop

        with pytest.raises(Stop):
            rows_of(m, checkpoint=lambda name: tmp_path / f"{name}.npz", progress=progress)
    shares = []
    rows = rows_of(m, checkpoint=lambda name: tmp_path / f"{name}.npz", progress=shares.append)
    assert [r.values for r in rows] == [r.values for r in straight]
    assert shares[-1] == 1.0 and shares == sorted(shares)
