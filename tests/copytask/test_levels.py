"""The copy task at the levels map and tree: reference numbers, sizes, bad settings."""

import mpmath
import numpy as np
import pytest

from phasetheory.copytask import Setting, landscape
from phasetheory.errors import InputError
from phasetheory.landscape import find_phases, states_at


def report(attention, level="tree", P_range=None, **setting):
    return find_phases(landscape(attention, Setting(**setting), level, P_range))


def test_linear_onset_and_copying_crossover():
    """One second-order onset, then copying as a crossover and no transition."""
    tree = report("linear", L=16, V=4)
    assert [t.order for t in tree.transitions] == ["second"]
    assert tree.transitions[0].control == pytest.approx(73.5694241, rel=1e-8)
    assert tree.status == "complete"
    copying = [c for c in tree.crossovers if c.order_parameter == "c_G"]
    assert len(copying) == 1
    assert copying[0].control > tree.transitions[0].control
    onset = report("linear", "map", L=16, V=4).transitions[0]
    assert onset.control == pytest.approx(63.5511425, rel=1e-8)


def test_map_is_what_adam_finds():
    """Minima against networks trained with Adam (theory note, section 6), to its three digits."""
    linear = report("linear", "map", L=16, V=4)
    for P, alpha, c_G in ((50, 0, 0), (100, 0.155, 0.007), (300, 0.225, 0.117)):
        lowest = states_at(linear, P)[0]
        c_1, found_c_G, found_alpha = lowest.order_parameters
        assert found_alpha == pytest.approx(alpha, abs=1e-3)
        assert found_c_G == pytest.approx(c_G, abs=1e-3)
        assert c_1 == pytest.approx(found_alpha - found_c_G, abs=1e-12)
    small = report("softmax", "map", L=16, V=4)
    assert states_at(small, 130)[0].order_parameters[0] == pytest.approx(0.213, abs=1e-3)
    assert states_at(small, 130)[0].action == pytest.approx(-19.88, abs=6e-3)
    assert states_at(small, 500)[0].order_parameters[0] == pytest.approx(0.440, abs=1e-3)
    large = report("softmax", "map", L=32, V=4, var_g=4.0)
    states = states_at(large, 130)
    assert states[0].order_parameters[0] == pytest.approx(0.275, abs=1e-3)
    # Adam stays at 0.048 from small starts: a metastable state, here at 0.046
    assert 0.04 < states[1].order_parameters[0] < 0.05
    assert states_at(large, 160)[0].order_parameters[0] == pytest.approx(0.308, abs=1e-3)


def exact_softmax(L, V, low, high, P):
    """Coexistence of the softmax `tree` action, written out anew and solved in 30 digits.

    Returns P, the weights a of both minima, the barrier between them, and the two spinodals.
    """
    mpmath.mp.dps = 30
    L, V = mpmath.mpf(L), mpmath.mpf(V)

    def weight(h):
        return 1 / (1 + (L - 1) * mpmath.exp(-h))

    def S(h, P):
        a = weight(h)
        q = L * (a**2 + (1 - a) ** 2 / (L - 1))
        lam = P / (V * L)
        logs = V / 2 * (mpmath.log(1 + lam * L) + (V - 1) * mpmath.log(1 + lam * q))
        gain = lam * L**2 / (1 + lam * L) + (V - 1) * lam * (L * a) ** 2 / (1 + lam * q)
        return (L - 1) * h**2 / 2 + logs - P / (2 * V * L) * gain

    def slope(h, P):
        return mpmath.diff(lambda x: S(x, P), h)

    low, high, P = mpmath.findroot(
        lambda x, y, P: (slope(x, P), slope(y, P), S(x, P) - S(y, P)), (low, high, P)
    )
    top = mpmath.findroot(lambda h: slope(h, P), (low + high) / 2)
    return P, [float(weight(h)) for h in (low, high)], float(S(top, P) - S(low, P)), slope


def test_softmax_first_order_transition():
    """L = 64, V = 4: location, weights, barrier and spinodals, and the theory note's numbers."""
    (transition,) = report("softmax", L=64, V=4).transitions
    P, weights, barrier, slope = exact_softmax(64, 4, 0.17, 2.37, 873.2)
    assert transition.order == "first"
    assert transition.control == pytest.approx(float(P), rel=1e-11)
    assert abs(transition.control - float(P)) <= transition.control_error
    assert [transition.low[0], transition.high[0]] == pytest.approx(weights, rel=1e-9)
    assert transition.jump == pytest.approx(weights[1] - weights[0], rel=1e-9)
    assert transition.barrier == pytest.approx(barrier, rel=1e-8)

    def fold(h, P):
        return slope(h, P), mpmath.diff(lambda x: slope(x, P), h)

    exact = [float(mpmath.findroot(fold, start)[1]) for start in ((1.95, 755), (0.5, 1277))]
    assert transition.spinodals == pytest.approx(exact, rel=1e-8)
    assert float(P) == pytest.approx(873.197, abs=5e-4)
    assert exact == pytest.approx([754.882, 1277.6], abs=1e-3)


def test_larger_softmax():
    """L = 1024, V = 32 against the same action solved in 30 digits."""
    (transition,) = report("softmax", L=1024, V=32).transitions
    P, weights, barrier, _ = exact_softmax(1024, 32, 0.0132, 4.417, 29460)
    assert transition.order == "first"
    assert transition.control == pytest.approx(float(P), rel=1e-10)
    assert [transition.low[0], transition.high[0]] == pytest.approx(weights, rel=1e-8)
    assert transition.barrier == pytest.approx(barrier, rel=1e-8)


def test_small_softmax_is_a_crossover():
    found = report("softmax", L=16, V=4)
    assert not found.transitions
    assert {c.order_parameter for c in found.crossovers} >= {"a", "a_G"}
    assert found.status == "complete"


@pytest.mark.parametrize("attention", ["linear", "softmax"])
@pytest.mark.parametrize("level", ["tree", "map"])
@pytest.mark.parametrize("V", [4, 10_000])
def test_large_sizes(attention, level, V):
    """L = 10^6 and P up to 10^12: finite, complete, one transition."""
    found = report(attention, level, (1e3, 1e12), L=10**6, V=V)
    assert found.status == "complete", found.problems
    assert [t.order for t in found.transitions] == ["second" if attention == "linear" else "first"]
    for phase in found.phases:
        assert np.isfinite(phase.action).all()
        assert np.isfinite(phase.order_parameters).all()


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"L": 1}, "L must be at least 2"),
        ({"V": 1}, "V must be at least 2"),
        ({"L": 2.5}, "L must be a whole number"),
        ({"V": True}, "V must be a whole number"),
        ({"L": 10**12}, "L must be at most"),
        ({"kappa": 0.0}, "kappa must be a positive number"),
        ({"var_g": -1.0}, "var_g must be a positive number"),
        ({"var_w": float("nan")}, "var_w must be a positive number"),
        ({"var_w": float("inf")}, "var_w must be a positive number"),
        ({"ones": 0}, "ones must be at least 1"),
        ({"L": 8, "ones": 8}, "ones must be below L = 8, not 8: .* uniform pooling"),
        ({"ones": 1.5}, "ones must be a whole number"),
        ({"head_dimension": 0}, "head dimension must be at least 1"),
        ({"head_dimension": 2.5}, "head dimension must be a whole number"),
    ],
)
def test_bad_settings(setting, says):
    with pytest.raises(InputError, match=says):
        Setting(**setting)


def test_bad_level_attention_and_range():
    with pytest.raises(InputError, match="attention is linear or softmax"):
        landscape("cubic", Setting())
    with pytest.raises(InputError, match="level is tree or map or meanfield"):
        landscape("linear", Setting(), "loop")
    with pytest.raises(InputError, match="exists at the level map, not at tree"):
        landscape("linear", Setting(head_dimension=4), "tree")
    with pytest.raises(InputError, match="at least L - 1 = 63, not 62"):
        landscape("softmax", Setting(head_dimension=62), "map")
    with pytest.raises(InputError, match="goes with a target of one token"):
        landscape("linear", Setting(head_dimension=4, ones=2), "map")
    with pytest.raises(InputError, match="levels tree and map"):
        landscape("linear", Setting(ones=2), "meanfield")
    with pytest.raises(InputError, match="starts above 0"):
        landscape("linear", Setting(), "tree", (-1.0, 10.0))
