"""The phase finder beside the textbook cases: bad actions, states, slopes."""

import numpy as np
import pytest

from phasetheory.errors import ActionError, InputError
from phasetheory.landscape import (
    find_phases,
    landscape_from_expression,
    lowest_minima,
    states_at,
)


def simple(expression, bounds=(-3, 3), control_range=(0.2, 2.0), **options):
    return landscape_from_expression(
        expression, ["x"], "T", {"x": bounds}, control_range, **options
    )


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("x**3 + T*x", "widen the bounds"),
        ("-x**2 + T*x", "widen the bounds"),
        ("(T-1)*x**2/2 + x**4/4 - 3*x**5", "lowest on the edge"),
        ("(T-1)*x**2/2 + x**4/4 + sqrt(x + 1)", "not finite"),
        ("(T-1)*x**2 + log(x)", "not finite"),
        ("(T-1)*x**2/2 + x**4/4 + exp(900*x)", "not finite"),
    ],
)
def test_unusable_actions(expression, says):
    with pytest.raises(ActionError, match=says):
        find_phases(simple(expression))


def test_states_against_direct_minimisation():
    """All minima at one control, the lowest first, against the roots of the gradient."""
    report = find_phases(simple("(T-1)*x**2/2 + x**4/4 - x/10"))
    states = states_at(report, 0.4)
    roots = np.roots([1, 0, 0.4 - 1, -0.1])
    minima = sorted(r.real for r in roots if 3 * r.real**2 + 0.4 - 1 > 0)
    assert sorted(s.order_parameters[0] for s in states) == pytest.approx(minima, rel=1e-12)
    assert states[0].action < states[1].action
    with pytest.raises(InputError, match="outside the range"):
        states_at(report, 3.0)


def test_branches_are_minima_with_exact_slopes():
    """Along every branch the gradient vanishes and dS/dT is the slope of the action."""
    report = find_phases(simple("(T-1)*x**2/2 - x**4/4 + x**6/6", control_range=(0.5, 2.0)))
    for phase in report.phases:
        x, T = phase.coordinates[:, 0], phase.control
        assert np.abs((T - 1) * x - x**3 + x**5).max() < 1e-12
        assert (phase.stiffness > 0).all()
    jump = report.transitions[0]
    # dS/dT = x^2/2 on a branch
    assert jump.slope_change == pytest.approx(-(jump.low[0] ** 2) / 2, rel=1e-9)


def test_a_direction_without_action():
    """Where the action never changes along a direction, a line of minima is one phase."""
    flat = landscape_from_expression(
        "(T-1)*(x+y)**2/2 + (x+y)**4/4", ["x", "y"], "T", {"x": (-3, 3), "y": (-3, 3)}, (0.2, 2.0)
    )
    report = find_phases(flat)
    assert [(t.order, round(t.control, 8)) for t in report.transitions] == [("second", 1.0)]
    assert {p.multiplicity for p in report.phases} == {"continuous"}


TWO = {"x": (-2, 2), "y": (-2, 2)}


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("y**2 + (T-0.5)*x**2 + x**4", TWO),
        ("y**2 + (T-0.5)*x**2 + x**4", TWO | {"y": (-300, 300)}),
        ("1e5*y**2 + (T-0.5)*x**2 + x**4", TWO),
        ("1e6*(y-x)**2 + (T-0.5)*x**2 + x**4", TWO),
        ("1e5*(y-x**2)**2 + (T-0.5)*x**2 + x**4", TWO | {"y": (-2, 5)}),
        ("y**2 + 1e6 + (T-0.5)*x**2 + x**4", TWO),
        ("y**2 + 1e6*T + (T-0.5)*x**2 + x**4", TWO),
    ],
)
def test_stiff_directions_and_offsets_hide_nothing(expression, bounds):
    """A second-order point at T = 1/2, whatever the stiffness beside it or the constant below."""
    report = find_phases(landscape_from_expression(expression, ["x", "y"], "T", bounds, (0.0, 1.0)))
    assert [t.order for t in report.transitions] == ["second"], report.problems
    assert report.transitions[0].control == pytest.approx(0.5, abs=1e-6)
    assert abs(report.transitions[0].control - 0.5) <= report.transitions[0].control_error
    assert report.status == "complete"


@pytest.mark.parametrize(
    ("expression", "names", "control_range", "copies"),
    [
        ("(x-1)**6 - 2*(x-1)**4 + T*(x-1)**2", ["x"], (0.5, 1.5), {1, 2}),
        ("(x-1)**4 - T*(x-1)**2", ["x"], (0.5, 1.5), {2}),
        ("-(x**3-3*x*y**2) + (x**2+y**2)**2 + T*(x**2+y**2)", ["x", "y"], (-0.5, 0.5), {1, 3}),
    ],
)
def test_copies_under_other_symmetries(expression, names, control_range, copies):
    """Reflections about another point, and rotations by a third of a turn."""
    bounds = dict.fromkeys(names, (-2.0, 4.0))
    report = find_phases(landscape_from_expression(expression, names, "T", bounds, control_range))
    assert {p.multiplicity for p in report.phases} == copies


def test_equal_actions_at_the_start_of_the_range():
    """Two minima tie at T = 0; the one that is lower after it counts, and so does the crossing."""
    report = find_phases(simple("x**2*(x-1)**2 + T*(0.3-T)*x**2*(3-2*x)", (-1, 2), (0.0, 0.5)))
    assert report.status == "complete", report.problems
    assert [(t.order, round(t.control, 9)) for t in report.transitions] == [("first", 0.3)]


def test_transitions_too_close_to_tell_are_not_called_complete():
    """Two second-order points 2e-6 apart: found, or said to be not."""
    report = find_phases(simple("((T-0.5)**2 - 1e-12)*x**2 + x**4", (-2, 2), (0.0, 1.0)))
    located = [t.control for t in report.transitions if t.order == "second"]
    assert located == pytest.approx([0.5 - 1e-6, 0.5 + 1e-6], abs=1e-9) or (
        report.status == "incomplete" or not report.transitions
    )


def test_a_corner_where_the_action_is_not_finite():
    with pytest.raises(ActionError, match="not finite everywhere"):
        find_phases(simple("(x-T)**2 + sqrt(x + 2.9999999)"))


def test_round_off_is_no_crossover():
    """The minimum of (x - T)^2 is 0 for every T."""
    report = find_phases(simple("(x - T)**2 + 0*x**4 + x*0"))
    assert [c for c in report.crossovers if c.order_parameter is None] == []


def test_lowest_minima_are_those_of_the_phases():
    found = simple("x**4/4 - x**2/2 - T*x", control_range=(-0.3, 0.3))
    controls = np.linspace(-0.25, 0.25, 12)
    x, action = lowest_minima(found, controls)
    report = find_phases(found)
    for place, value, u in zip(x, action, controls, strict=True):
        lowest = states_at(report, u)[0]
        assert value == pytest.approx(lowest.action, abs=1e-9)
        assert place == pytest.approx(lowest.coordinates, abs=1e-6)
