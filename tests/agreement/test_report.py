"""Levels of theory at the measured points, and rows judged by them."""

import numpy as np
import pytest

from phasetheory.agreement import agreement, measure, theory_levels
from phasetheory.agreement import theory as module
from phasetheory.agreement.measured import Dropped, Measurement, Row
from phasetheory.agreement.theory import compared_level, predictions, theory_range
from phasetheory.agreement.values import Value
from phasetheory.copytask import Setting

SETTING = Setting(L=32, V=4, var_g=4.0)


@pytest.fixture(scope="module")
def levels():
    """Softmax attention at its map level, where two minima exist at P = 130."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEVELS", ("map",))
        return theory_levels("softmax", SETTING, (130, 10_000))


def test_range_holds_all_P():
    low, high = theory_range("softmax", SETTING, (2, 10**6))
    assert low < 2 and high > 10**6


def test_minima_equilibrium_first(levels):
    first, second = predictions(levels[0], 130)
    assert first.stable and not second.stable
    assert first.means["a"] == pytest.approx(0.2742, abs=1e-4)
    assert second.means["a"] == pytest.approx(0.047, abs=1e-3)
    assert first.action < second.action and first.variances == {}
    assert first.observables["test_loss"] == first.observables["test_loss_mean"]
    assert len(predictions(levels[0], 10_000)) == 1


def row(P, dropped=(), **values):
    found = {name: Value(mean, 1e-4, 1e-4, 1e-4) for name, mean in values.items()}
    return Row(P, "lowest", found, 2, dropped=dropped)


def test_rows_and_dropped_runs(levels):
    m = Measurement("softmax", SETTING, (130, 10_000), method="adam")
    runs = tuple(
        Dropped(130, 0, i, "prior", -16.0, 5.0, 0.0, converged, {"a": a, "a_G": a - 0.03})
        for i, (a, converged) in enumerate([(0.0468, True), (0.0468, False), (0.15, True)])
    )
    result = agreement(m, levels, [row(130, runs, a=0.275), row(10_000, a=0.5)], 0.05)
    assert result.level == "map"
    good, bad = result.rows
    assert good.verdict == "agrees within tolerance" and bad.verdict == "disagrees"
    assert result.failed
    phases = [d.phase for d in result.dropped]
    assert phases[0] is not None and phases[1:] == [None, None]
    low = agreement(m, levels, [row(130, a=0.047)], 0.05)
    assert low.rows[0].verdict == "metastable" and not low.failed


def test_level_of_the_comparison(levels):
    assert compared_level("adam", levels) == "map"
    assert compared_level("hmc", levels) is None
    m = Measurement("softmax", SETTING, (130,), chains=8, datasets=1, cyclic=False)
    result = agreement(m, levels, [row(130, a=0.3, q=2.0)], 0.05)
    assert result.level is None and result.rows[0].verdict == "not compared"
    assert not result.failed
    text = " ".join(result.notes)
    assert "not compared" in text and "ring" in text and "one data set" in text


def test_levels_that_do_not_cover_a_setting_say_why():
    found = theory_levels("softmax", Setting(L=8, V=4, head_dimension=2), (10,))
    assert all(level.report is None and level.note for level in found)


@pytest.mark.slow
def test_disordered_phase_of_linear_attention():
    """Where nothing is learnt, measured networks show the folded Gaussian that the susceptibility
    of the level meanfield predicts: means and variances."""
    setting = Setting(L=12, V=4)
    m = Measurement("linear", setting, (25,), chains=8, draws=1000, datasets=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEVELS", ("meanfield",))
        levels = theory_levels("linear", setting, m.P)
    rows = [r for found in measure(m) for r in found]
    result = agreement(m, levels, rows, 0.05)
    (theory,) = predictions(levels[0], 25)
    assert theory.means["alpha"] > 0.05  # not the zero of the minimum
    for judged in result.rows:
        assert judged.verdict in ("agrees", "agrees within tolerance")
        for name in ("alpha", "c_G"):
            measured = judged.row.values[name]
            assert measured.variance is not None
            assert np.sqrt(measured.variance) == pytest.approx(
                np.sqrt(theory.variances[name]), rel=0.06
            )
