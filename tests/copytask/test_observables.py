"""Observables by second routes, and the level meanfield against sampled networks."""

import numpy as np
import pytest

from phasetheory.copytask import Setting, landscape
from phasetheory.landscape import find_phases, states_at


def report(attention, level, P_range, **setting):
    return find_phases(landscape(attention, Setting(**setting), level, P_range))


def seen(report, P, name):
    state = states_at(report, P)[0]
    return float(state.observables[report.landscape.observables.index(name)])


CASES = [("linear", "tree"), ("linear", "meanfield"), ("softmax", "tree")]


@pytest.mark.parametrize(("attention", "level"), CASES)
def test_training_loss_two_ways(attention, level):
    """The derivative of the free energy is the loss of a sample on its data, whose means the theory
    knows: with P L much above V it equals the loss of that sample on fresh data."""
    found = report(attention, level, (20.0, 2000.0), L=16, V=4)
    for P in (40.0, 90.0, 300.0, 1500.0):
        train, test = seen(found, P, "train_loss"), seen(found, P, "test_loss")
        assert train == pytest.approx(test, rel=1e-10)
        assert 0 < seen(found, P, "test_loss_mean") <= test


@pytest.mark.parametrize(("attention", "level"), [*CASES, ("linear", "map"), ("softmax", "map")])
def test_losses_are_derivatives_of_the_free_energy(attention, level):
    """dF/dkappa and dF/dP of the minimised action, by finite differences, against the loss."""
    P, step = 300.0, 1e-4
    actions = {}
    for kappa in (1 - step, 1.0, 1 + step):
        found = report(attention, level, (200.0, 400.0), L=16, V=4, kappa=kappa)
        actions[kappa] = states_at(found, P)[0].action
        if kappa == 1.0:
            loss = seen(found, P, "train_loss")
            low, high = (states_at(found, P * (1 + s))[0].action for s in (-step, step))
    by_kappa = (actions[1 + step] - actions[1 - step]) / (2 * step)
    assert 1 - 2 / P * by_kappa == pytest.approx(loss, rel=1e-6)
    by_P = (high - low) / (2 * step * P)
    assert 1 + 2 * by_P == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize(
    ("attention", "level", "values"),
    [
        ("linear", "tree", {"ones": 3}),
        ("softmax", "tree", {"ones": 3}),
        ("softmax", "map", {"ones": 3}),
        ("linear", "map", {"head_dimension": 5}),
        ("softmax", "map", {"head_dimension": 20}),
    ],
)
def test_losses_of_sparse_targets_and_finite_heads(attention, level, values):
    """The derivative of the free energy is the loss on fresh data; without data it is the target's
    own square, s (V + s - 1)/V."""
    found = report(attention, level, (1e-6, 5000.0), L=16, V=4, **values)
    test = "test_loss" if level == "tree" else "test_loss_mean"
    for P in (40.0, 300.0, 1500.0):
        assert seen(found, P, "train_loss") == pytest.approx(seen(found, P, test), rel=1e-9)
    s = values.get("ones", 1)
    if level == "map":
        assert seen(found, 1e-6, test) == pytest.approx(s * (4 + s - 1) / 4, rel=1e-5)


def test_meanfield_reference_numbers():
    """The theory note's meanfield column (to 0.01), and the samples it was said to agree with."""
    found = report("linear", "meanfield", (20.0, 2000.0), L=16, V=4)
    for P, alpha, c_G, sampled in (
        (200, 0.204, 0.009, (0.194, 0.006)),
        (300, 0.245, 0.031, (0.250, 0.025)),
        (500, 0.284, 0.128, (0.302, 0.118)),
    ):
        mine = states_at(found, P)[0].order_parameters
        assert mine[0] == pytest.approx(alpha, abs=1e-3)
        assert mine[2] == pytest.approx(c_G, abs=1e-3)
        assert mine[1] == pytest.approx(mine[0] - mine[2], abs=1e-12)
        assert mine[0] == pytest.approx(sampled[0], abs=0.02)
        assert mine[2] == pytest.approx(sampled[1], abs=0.011)


def test_meanfield_without_data():
    """Without data the action vanishes and every entry of A has its prior variance."""
    found = report("linear", "meanfield", (1e-6, 1.0), L=16, V=4)
    (state,) = states_at(found, 1e-6)
    assert state.action == pytest.approx(0, abs=1e-6)
    assert state.order_parameters[3] == pytest.approx((16**2 - 2) / 16**2, rel=1e-6)


def test_susceptibility_diverges_at_the_second_order_point_only():
    """Linear: var c_1 grows as 1/(P_c - P). Softmax: finite on both sides of the jump."""
    linear = report("linear", "tree", (20.0, 2000.0), L=16, V=4)
    (onset,) = linear.transitions
    distances = np.array([1e-2, 1e-3, 1e-4])
    variances = [
        states_at(linear, onset.control * (1 - d))[0].susceptibility[0, 0] for d in distances
    ]
    assert np.diff(np.log(variances)) / np.diff(np.log(distances)) == pytest.approx(-1, abs=0.05)
    softmax = report("softmax", "tree", (200.0, 4000.0), L=64, V=4)
    (jump,) = softmax.transitions
    for side in (1 - 1e-6, 1 + 1e-6):
        variance = states_at(softmax, jump.control * side)[0].susceptibility[0, 0]
        assert 0 < variance < 1e-3


def test_susceptibility_of_softmax_directly():
    """var a = (da/dh)^2 / S''(h), with S'' by finite differences of the action."""
    found = report("softmax", "tree", (200.0, 4000.0), L=64, V=4)
    state = states_at(found, 1000.0)[0]
    a, _, h = state.order_parameters
    theta, action = np.array(list(found.landscape.parameters.values())), found.landscape.action
    step = 1e-3
    values = [float(action(np.array([h + s]), 1000.0, theta)) for s in (-step, 0.0, step)]
    curvature = (values[0] - 2 * values[1] + values[2]) / step**2
    assert state.susceptibility[0, 0] == pytest.approx((a * (1 - a)) ** 2 / curvature, rel=1e-5)
    assert state.susceptibility[2, 2] == pytest.approx(1 / curvature, rel=1e-5)
