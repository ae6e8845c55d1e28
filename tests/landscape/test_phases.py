"""The phase finder beside the textbook cases: bad actions, states, slopes."""

import numpy as np
import pytest

from phasetheory.errors import ActionError, InputError
from phasetheory.landscape import find_phases, landscape_from_expression, states_at


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
