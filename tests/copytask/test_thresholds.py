"""Batched thresholds against the phase finder, which uses none of their structure."""

import numpy as np
import pytest

from phasetheory.copytask import Setting, landscape
from phasetheory.copytask.thresholds import thresholds
from phasetheory.errors import InputError
from phasetheory.landscape import find_phases

SETTINGS = [
    Setting(L=8, V=3),
    Setting(L=16, V=4),
    Setting(L=64, V=4),
    Setting(L=64, V=16),
    Setting(L=32, V=4, var_g=4.0),
    Setting(L=300, V=7, var_g=9.0, var_w=0.5, kappa=2.0),
    Setting(L=1024, V=32),
    Setting(L=64, V=16, var_g=0.25, kappa=3.0),
    Setting(L=10**6, V=100),
    # around the end of the first-order line at V = 4
    Setting(L=18, V=4),
    Setting(L=19, V=4),
    Setting(L=20, V=4),
]


@pytest.mark.parametrize("level", ["tree", "map"])
def test_onset(level):
    found = thresholds("linear", SETTINGS, level)
    assert set(found.order) == {"second"}
    for setting, P in zip(SETTINGS, found.P, strict=True):
        (transition,) = find_phases(landscape("linear", setting, level)).transitions
        np.testing.assert_allclose(P, transition.control, rtol=1e-9)


@pytest.mark.parametrize("level", ["tree", "map"])
def test_softmax(level):
    found = thresholds("softmax", SETTINGS, level)
    for i, setting in enumerate(SETTINGS):
        report = find_phases(landscape("softmax", setting, level))
        if found.order[i] == "first":
            (transition,) = report.transitions
            assert transition.order == "first"
            assert found.P[i] == pytest.approx(transition.control, rel=1e-9)
            for spinodal, place in zip(found.spinodals[i], transition.spinodals, strict=True):
                # None: beyond the range of P that the finder was given
                assert place is None or spinodal == pytest.approx(place, rel=1e-7)
            assert found.low[i, 0] == pytest.approx(transition.low[0], rel=1e-6)
            assert found.high[i, 0] == pytest.approx(transition.high[0], rel=1e-6)
        else:
            assert found.order[i] == "crossover" and not report.transitions
            (place,) = (c.control for c in report.crossovers if c.order_parameter == "a")
            assert found.P[i] == pytest.approx(place, rel=1e-5)
    assert (found.error / found.P < 1e-7).all()
    assert {"first", "crossover"} == set(found.order)


def test_copying_crossover_of_linear_attention():
    settings = [SETTINGS[k] for k in (1, 3, 5, 6)]
    found = thresholds("linear", settings, "tree", "copying")
    for setting, P in zip(settings, found.P, strict=True):
        crossovers = find_phases(landscape("linear", setting)).crossovers
        (place,) = (c.control for c in crossovers if c.order_parameter == "c_G")
        np.testing.assert_allclose(P, place, rtol=1e-5)


@pytest.mark.parametrize(
    ("attention", "quantity"),
    [("linear", "onset"), ("linear", "copying"), ("softmax", "copying")],
)
def test_kappa_is_the_unit_of_P(attention, quantity):
    """kappa enters as P/kappa only; what changes is the unit."""
    kappas = (1e-3, 1.0, 7.0, 1e5)
    found = thresholds(attention, [Setting(L=100, V=9, kappa=k) for k in kappas], "tree", quantity)
    assert found.P / kappas == pytest.approx(found.P[1], rel=1e-12)
    assert found.high == pytest.approx(np.broadcast_to(found.high[1], found.high.shape), rel=1e-9)


def test_first_order_line_ends_where_its_spinodals_meet():
    """Towards the end point the window closes, and the crossover carries on at the same P."""
    variances = np.geomspace(0.5, 2.0, 32)
    found = thresholds("softmax", [Setting(L=19, V=4, var_g=float(v)) for v in variances])
    first = found.order == "first"
    assert first.any() and not first.all() and np.all(np.diff(first.astype(int)) >= 0)
    windows = np.log(found.spinodals[first, 1] / found.spinodals[first, 0])
    assert (windows > 0).all() and windows[0] < 1e-3 and windows[0] == windows.min()
    steps = np.diff(np.log(found.P))
    assert np.abs(np.diff(steps)).max() < 0.005  # no break at the end point


def test_level_without_a_batched_solver():
    found = thresholds("linear", [Setting(L=16, V=4)], "meanfield")
    (transition,) = find_phases(landscape("linear", Setting(L=16, V=4), "meanfield")).transitions
    assert found.order[0] == transition.order and found.P[0] == transition.control


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("relu", [Setting()]), "attention is"),
        (("softmax", [Setting()], "loop"), "level"),
        (("softmax", [Setting()], "tree", "onset"), "threshold copying"),
        (("softmax", []), "at least one setting"),
    ],
)
def test_bad_input(arguments, says):
    with pytest.raises(InputError, match=says):
        thresholds(*arguments)
