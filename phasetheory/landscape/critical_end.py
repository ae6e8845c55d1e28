"""The end of a first-order line: where, along a second parameter, a transition becomes a crossover.

Along the curve of critical points of an action at a fixed second parameter p, the softest curvature
has a minimum; below zero there, the curve folds at two spinodals and the transition between them is
of first order, above it is a crossover. So the end of the line is the root in p of that minimum
(the cusp of the catastrophe). The minimum is a regular point of a square system on either side and
at the end itself, and is followed from the first-order side by Newton's method.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from phasetheory._jax import jit_small
from phasetheory.errors import ActionError, InputError
from phasetheory.landscape.defining import pieces
from phasetheory.landscape.kernels import Chart
from phasetheory.landscape.model import Landscape, PhaseReport, Transition
from phasetheory.landscape.phases import find_phases
from phasetheory.landscape.search import in_batches
from phasetheory.landscape.solution import Solution

#: smallest step in the second parameter, as a share of the bracket
SMALLEST_STEP = 1e-4
MOST_NEWTON_STEPS = 40
#: a point further from its extrapolation than this, in units of the spread of the minima, may
#: belong to another pair of spinodals
LARGEST_CORRECTION = 0.1


@dataclass(frozen=True)
class CriticalEnd:
    """The critical end point of a first-order line.

    Attributes:
        parameter, parameter_error: value of the second parameter, and a bound on its numerical
            error.
        control, control_error: value of the control, likewise.
        coordinates: of the action, shape (n,).
        order_parameters: shape (m,).
        evaluations: landscapes at which the minimum of the curvature was solved for.
    """

    parameter: float
    parameter_error: float
    control: float
    control_error: float
    coordinates: np.ndarray
    order_parameters: np.ndarray
    evaluations: int


def critical_end(
    family: Callable[[float], Landscape], bracket: tuple[float, float], tolerance: float = 1e-10
) -> CriticalEnd:
    """Locate the end of a first-order line in a second parameter.

    Args:
        family: the landscape at a value of the second parameter; all with the same variables,
            control and range.
        bracket: two values of the second parameter, with one first-order transition at one of
            them, its spinodals inside the range, and a crossover at the other.
        tolerance: of the location, as a share of the bracket.

    Raises:
        InputError: if the bracket is not ascending and finite, or if the order of the transition
            is not different at its ends; the sentence says what was found.
        ActionError: if the point cannot be followed from one end to the other.
    """
    low, high = (float(p) for p in bracket)
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(f"the bracket must be two ascending numbers, not {low:g} and {high:g}")
    first_order, crossover, solution, starts = _first_order_side(family, low, high)
    track = _Track(family, solution, starts)
    p = _cross(track, first_order, crossover)
    width = tolerance * (high - low)
    root = float(np.asarray(brentq(track.softness, track.last_negative, p, xtol=width)))
    value, z = track.softness(root), track.points[root]
    nearest = min((x for x in track.points if x != root), key=lambda x: abs(x - root))
    change = (track.values[nearest] - value) / (nearest - root)
    error = width + (abs(value / change) if change else 0.0)
    rate = (track.points[nearest][-1] - z[-1]) / (nearest - root)
    at_end = Solution(
        track.landscape(root), solution.kern, track.chart(root), [], [], solution.extent
    )
    return CriticalEnd(
        parameter=root,
        parameter_error=float(error),
        control=float(at_end.control(z[-1])),
        control_error=float(abs(at_end.control_rate(z[-1])) * (abs(rate) * error + 1e-14)),
        coordinates=z[:-1] * np.asarray(solution.chart.scale),
        order_parameters=at_end.observe(z[:-1], z[-1])[0],
        evaluations=len(track.points),
    )


def _first_order_side(family, low: float, high: float):
    """(the end of first order, the other end, its solution, saddles between its two phases)."""
    for here in (low, high):
        report = find_phases(family(here))
        found = [t for t in report.transitions if t.order == "first"]
        if len(found) > 1:
            raise InputError(
                f"at {here:g} there are {len(found)} first-order transitions in the range; "
                "give a narrower range of the control"
            )
        if found:
            break
    else:
        raise InputError(f"there is no first-order transition at {low:g} or at {high:g}")
    solution: Solution = report.solution
    if None in found[0].spinodals:
        raise InputError(f"at {here:g} a spinodal lies outside the range of the control; widen it")
    there = high if here == low else low
    place, low_y, high_y = coexisting(report, found[0])
    path = low_y + np.linspace(0.1, 0.9, 9)[:, None] * (high_y - low_y)
    out = in_batches(solution.kern.saddle, solution.chart, path, place)
    saddles = out["y"][out["converged"] & (out["eigenvalues"][:, 0] < 0)]
    return here, there, solution, [np.append(y, place) for y in saddles]


def coexisting(report: PhaseReport, transition: Transition) -> tuple[float, np.ndarray, np.ndarray]:
    """The two states at a first-order transition, in scaled coordinates: t, low (n,), high (n,).

    Of the copies of the high state under the symmetries, the one closest to the low state.
    """
    solution: Solution = report.solution
    ids = [phase.id for phase in report.phases]
    place = float(solution.t_of(transition.control))
    low, high = (
        solution.branches[ids.index(phase)].interpolate(place)[0]
        for phase in (transition.low_phase, transition.high_phase)
    )
    copies = np.array([g @ high for g in solution.group] or [high])
    return place, low, copies[np.argmin(np.linalg.norm(copies - low, axis=1))]


class _Track:
    """The minimum of the curvature along the critical curve, at the values of p met so far."""

    def __init__(self, family, solution: Solution, starts: list[np.ndarray]):
        self.family, self.solution, self.starts = family, solution, starts
        self.points: dict[float, np.ndarray] = {}
        self.values: dict[float, float] = {}
        self.landscapes: dict[float, Landscape] = {}
        self.last_negative = np.nan

    def landscape(self, p: float) -> Landscape:
        if p not in self.landscapes:
            self.landscapes = {p: self.family(p)}  # tables are large: one at a time
        return self.landscapes[p]

    def chart(self, p: float) -> Chart:
        return self.solution.chart._replace(theta=self.landscape(p).theta)

    def solve(self, p: float) -> float | None:
        """The minimum of the curvature at p, or None where Newton's method does not reach it."""
        if p in self.values:
            return self.values[p]
        landscape = self.landscape(p)
        log, chart = landscape.control_scale == "log", self.chart(p)
        for guess in [self._extrapolated(p)] if self.points else self.starts:
            found = _soft_point(landscape.action, log, chart, guess)
            near = not self.points or (
                found is not None and np.linalg.norm(found[0] - guess) < LARGEST_CORRECTION
            )
            if found is not None and near:
                self.points[p], self.values[p] = found
                return self.values[p]
        return None

    def softness(self, p: float) -> float:
        value = self.solve(p)
        if value is None:
            raise ActionError(f"the end of the first-order line was lost at {p:.6g}")
        return value

    def _extrapolated(self, p: float) -> np.ndarray:
        near = sorted(self.points, key=lambda x: abs(x - p))[:2]
        z = self.points[near[0]]
        if len(near) == 1:
            return z
        slope = (self.points[near[1]] - z) / (near[1] - near[0])
        return z + slope * (p - near[0])


def _cross(track: _Track, first_order: float, crossover: float) -> float:
    """The first p met from the first-order side at which there is a crossover."""
    if (value := track.solve(first_order)) is None or value >= 0:
        raise ActionError(f"no critical point between the spinodals was found at {first_order:g}")
    p, step, width = first_order, (crossover - first_order) / 4, abs(crossover - first_order)
    while True:
        track.last_negative = p
        if p == crossover:
            raise InputError(f"the transition is of first order from {first_order:g} to {p:g}")
        new = crossover if abs(crossover - p) <= abs(step) else p + step
        value = track.solve(new)
        if value is None:
            step /= 2
            if abs(step) < SMALLEST_STEP * width:
                raise ActionError(f"the end of the first-order line was lost at {p:.6g}")
        elif value > 0:
            return new
        else:
            p = new


def _soft_point(action, log: bool, chart: Chart, guess: np.ndarray):
    """Newton's method to the minimum of the softest curvature on the critical curve.

    Returns:
        (z, the curvature there in the chart's units) with z = (y, t), or None.
    """
    square = _square_system(action, log)
    z = np.asarray(guess, float)
    for _ in range(MOST_NEWTON_STEPS):
        H, force = (np.asarray(x) for x in square.hessian(z, chart))
        if not (np.isfinite(H).all() and np.isfinite(force).all()):
            return None
        eigenvalues, modes = np.linalg.eigh(H)
        tangent = np.linalg.svd(np.column_stack([H, force]))[2][-1]
        F, J, softness = (np.asarray(x) for x in square.newton(z, modes[:, 0], tangent, chart))
        if not (np.isfinite(F).all() and np.isfinite(J).all()):
            return None
        delta = np.linalg.lstsq(J, -F, rcond=None)[0]
        size = np.linalg.norm(delta)
        z = z + delta * min(1.0, 0.2 / max(size, 1e-300))
        if size < 1e-9:
            inside = -0.5 <= z[-1] <= 1.5 and (eigenvalues[1:] > 0).all()
            return (z, float(softness)) if inside else None
    return None


@lru_cache(maxsize=16)
def _square_system(action: Callable, log: bool):
    """Compiled pieces: grad S = 0, and the curvature extremal along the curve that solves it."""

    def S(z, chart):
        lo, hi = chart.control
        u = lo + (hi - lo) * z[-1]
        y = z[:-1] * chart.scale
        return action(y, jnp.exp(u) if log else u, chart.theta) / chart.unit

    found = pieces(S)

    def hessian(z, chart):
        full = found.hessian(z, chart)
        return full[:, :-1], full[:, -1]

    def system(z, soft, tangent, chart):
        H, force = hessian(z, chart)
        bordered = jnp.vstack([jnp.column_stack([H, force]), tangent])
        along = jnp.linalg.solve(bordered, jnp.zeros(tangent.size).at[-1].set(1.0))
        slope = jax.jvp(lambda z: found.softness(z, soft, chart), (z,), (along,))[1]
        return jnp.append(found.gradient(z, chart), slope)

    def newton(z, soft, tangent, chart):
        return (
            system(z, soft, tangent, chart),
            jax.jacfwd(system)(z, soft, tangent, chart),
            found.softness(z, soft, chart),
        )

    return SimpleNamespace(hessian=jit_small(hessian), newton=jit_small(newton))
