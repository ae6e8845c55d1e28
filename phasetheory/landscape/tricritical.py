"""Where a second-order line turns into a first-order one: the quartic coefficient vanishes.

Where a phase loses stability to one that grows out of it, the reduced quartic coefficient decides
the order. It exists on both sides of the tricritical point, also where the transition happens
elsewhere, at equal actions, so its root in a second parameter is bracketed and found.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from phasetheory.errors import ActionError, InputError
from phasetheory.landscape.model import Landscape
from phasetheory.landscape.phases import find_phases
from phasetheory.landscape.transitions import landau


@dataclass(frozen=True)
class TricriticalPoint:
    """The end of a second-order line.

    Attributes:
        parameter, parameter_error: value of the second parameter, and a bound on its numerical
            error.
        control, control_error: value of the control, likewise.
        order_parameters: shape (m,).
    """

    parameter: float
    parameter_error: float
    control: float
    control_error: float
    order_parameters: np.ndarray


def tricritical_point(
    family: Callable[[float], Landscape], bracket: tuple[float, float], tolerance: float = 1e-9
) -> TricriticalPoint:
    """Locate a tricritical point in a second parameter.

    Args:
        family: the landscape at a value of the second parameter.
        bracket: two values of it, the transition at one of them of second order and at the other
            of first order, with one phase that loses stability in the range.
        tolerance: of the location, as a share of the bracket.

    Raises:
        InputError: if the bracket is not ascending and finite, or if the quartic coefficient has
            one sign at its ends.
        ActionError: if no phase, or more than one, loses stability continuously at some value.
    """
    low, high = (float(p) for p in bracket)
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"the bracket must be two ascending numbers, not {low:g} and {high:g}")
    points: dict[float, tuple[float, float, float, np.ndarray]] = {}

    def quartic(p: float) -> float:
        if p not in points:
            points[p] = _bifurcation(family(p), p)
        return points[p][0]

    if quartic(low) * quartic(high) > 0:
        sign = "positive (second order)" if quartic(low) > 0 else "negative (first order)"
        raise InputError(f"the quartic coefficient is {sign} both at {low:g} and at {high:g}")
    width = tolerance * (high - low)
    root = float(np.asarray(brentq(quartic, low, high, xtol=width)))
    value, control, error, order = (
        points[root] if root in points else _bifurcation(family(root), root)
    )
    near = min((p for p in points if p != root), key=lambda p: abs(p - root))
    slope = (points[near][0] - value) / (near - root)
    parameter_error = width + (abs(value / slope) if slope else 0.0)
    rate = abs((points[near][1] - control) / (near - root))
    return TricriticalPoint(root, parameter_error, control, error + rate * parameter_error, order)


def _bifurcation(landscape: Landscape, p: float) -> tuple[float, float, float, np.ndarray]:
    """(quartic coefficient, control, its error, order parameters) where a phase bifurcates.

    The phase is the one that stays smooth: its coordinates move least with the control.
    """
    report = find_phases(landscape)
    solution = report.solution
    found = []
    for branch in solution.branches:
        for end, node in zip(branch.ends, (0, -1), strict=True):
            if end.kind == "bifurcation":
                found.append((float(np.linalg.norm(branch.y_dot[node])), end, branch, node))
    if not found:
        raise ActionError(f"no phase loses stability continuously at {p:.6g}")
    _, end, branch, node = min(found, key=lambda item: item[0])
    y = branch.y[node] + (end.t - branch.t[node]) * branch.y_dot[node]
    _, quartic = landau(solution.kern, solution.chart, y, end.t, float(branch.eigenvalues.max()))
    error = float(abs(solution.control_rate(end.t)) * end.error)
    return quartic, float(solution.control(end.t)), error, solution.observe(y, end.t)[0]
