"""The published scalings as fitted exponents, closed forms over decades, and deciding costs."""

import numpy as np
import pytest

from phasetheory.copytask import Setting
from phasetheory.copytask.scaling import COSTS, regime_map, scaling
from phasetheory.errors import InputError


def fits(curve):
    return {fit.name: fit for fit in curve.fits}


def test_onset_is_V_squared_where_the_logarithms_decide():
    onset, copying = scaling(
        "linear", "V", (16, 4096), "tree", 25, Setting(L=10**6, var_g=1e16)
    ).curves
    assert fits(copying)["exponent"].exponent == pytest.approx(2, abs=1e-2)
    fit = fits(onset)["exponent"]
    assert fit.interval[0] <= 2 <= fit.interval[1]
    assert fit.exponent == pytest.approx(2, abs=1e-4)
    assert set(onset.decides) == {"logarithms"}
    np.testing.assert_allclose(onset.found.P, onset.closed["logarithms"], rtol=5e-3)


@pytest.mark.parametrize(
    ("over", "between", "setting", "onset_exponent", "exponent"),
    [
        ("L", (256, 10**6), Setting(V=16), 1.0, 1.5),
        ("V", (16, 4096), Setting(L=10**4), 1.0, 0.5),
        ("var_g", (0.01, 100.0), Setting(L=10**4, V=100), -0.5, -0.5),
        ("var_w", (0.01, 100.0), Setting(L=10**4, V=100), -0.5, -0.5),
    ],
)
def test_linear_exponents_where_the_priors_decide(over, between, setting, onset_exponent, exponent):
    report = scaling("linear", over, between, "map", 20, setting)
    onset, copying = report.curves
    assert report.status == "complete"
    for curve, expected in ((onset, onset_exponent), (copying, exponent)):
        fit = fits(curve)["exponent"]
        assert fit.exponent == pytest.approx(expected, abs=2e-3)
        assert fit.interval[1] - fit.interval[0] < 5e-3
        np.testing.assert_allclose(curve.found.P, curve.closed["prior"], rtol=5e-3)
        assert set(curve.decides) == {"prior of attention"}
        # both priors cost the same: it is their product that counts
        assert curve.shares[-1] == pytest.approx([0.5, 0.5, 0], abs=0.02)


def test_softmax_is_L_times_the_square_of_a_logarithm():
    report = scaling("softmax", "L", (1024, 10**9), "map", 25, Setting(V=1000))
    (curve,) = report.curves
    assert set(curve.found.order) == {"first"}
    found = fits(curve)
    assert found["exponent beside h(h+1)"].exponent == pytest.approx(1, abs=2e-3)
    low, high = found["exponent of h beside L"].interval
    assert low < 2 < high and high - low < 0.2
    # the bare power is no asymptotic one: it still falls
    assert found["exponent"].exponent > 1.05
    assert curve.closed["prior"][-1] == pytest.approx(curve.found.P[-1], rel=0.01)
    assert curve.found.P[-1] < 0.5 * curve.closed["naive"][-1]
    assert np.all(np.diff(curve.found.P / curve.closed["naive"]) < 0)
    assert any("naive" in note for note in report.notes)


def test_softmax_log_cost():
    """At large V the log cost decides. The closed form with it is good until then and too high
    beyond, where a smaller h is cheaper."""
    (curve,) = scaling("softmax", "V", (30, 600), "tree", 8, Setting(L=3000)).curves
    P = curve.found.P
    better, worse = (abs(np.log(P / curve.closed[n])) for n in ("with logarithms", "prior"))
    assert (better[:-3] < 0.1).all() and (better < worse)[-3:].all()
    assert curve.decides[0] == "prior of attention" and curve.decides[-1] == "logarithms"


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_kappa_exactly(attention):
    for curve in scaling(attention, "kappa", (1e-3, 1e3), points=7).curves:
        fit = fits(curve)["exponent"]
        assert fit.exponent == pytest.approx(1, abs=1e-10)
        assert fit.interval[1] - fit.interval[0] < 1e-9


def test_prior_of_W_costs_half_at_the_onset():
    """There W and the attention grow from zero together; also with the logarithms."""
    onset, _ = scaling("linear", "L", (8, 4096), points=12).curves
    assert onset.shares[:, 1] == pytest.approx(0.5, abs=1e-10)
    assert onset.shares.sum(axis=1) == pytest.approx(1)


def test_regimes():
    """The closed boundary of pooling parts the regimes of the onset, but for a strip beside it
    where copying is the softer direction (V above 0.63 L)."""
    regimes = regime_map("linear", Setting(), L_range=(8, 4096), V_range=(2, 512), points=16)
    logs = regimes.decides == COSTS[2]
    clear = abs(regimes.boundary) > 0.7
    assert logs.any() and not logs.all()
    assert ((regimes.boundary < 0) == logs)[clear].all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("softmax", "P", (1, 2)), "not 'P'"),
        (("softmax", "L", (1, 100)), "at least 2"),
        (("softmax", "L", (100, 10)), "0 < LO < HI"),
        (("softmax", "L", (2, 1e10)), "at most 10"),
        (("softmax", "L", (2, 4)), "only 3 whole numbers"),
        (("softmax", "kappa", (-1.0, 1.0)), "0 < LO < HI"),
        (("softmax", "L", (2, 100), "tree", 3), "at least 6 points"),
        (("softmax", "L", (2, 100), "loop"), "level"),
    ],
)
def test_bad_input(arguments, says):
    with pytest.raises(InputError, match=says):
        scaling(*arguments)
