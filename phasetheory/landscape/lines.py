"""Lines in the plane of the control and a second parameter, where a transition or spinodal lies.

Each kind of line is the solution curve of a system of equations in the states, the control and the
second parameter (`defining`), followed by pseudo-arclength continuation (`continuation`). Where a
line of first order ends, the two states merge and its system turns singular; the follower stops
near and solves the system of the end itself: the cusp (gradient, soft curvature and third
derivative vanish), or, where one of the two is a symmetric state, the tricritical point (gradient,
soft curvature and reduced fourth derivative vanish).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from phasetheory._jax import jit_small
from phasetheory.errors import ActionError, InputError
from phasetheory.landscape.continuation import (
    LARGEST_STEP,
    SMALLEST_STEP,
    Root,
    fixed,
    newton,
    step,
    tangent,
)
from phasetheory.landscape.critical_end import coexisting
from phasetheory.landscape.defining import pieces
from phasetheory.landscape.kernels import Chart
from phasetheory.landscape.model import Landscape, PhaseReport, Scale
from phasetheory.landscape.phases import find_phases
from phasetheory.landscape.solution import Solution

LineKind = Literal["first-order", "spinodal", "second-order"]
EventKind = Literal["critical end", "tricritical", "border", "bounds", "closed", "unstable", "lost"]

KINDS: tuple[LineKind, ...] = ("first-order", "spinodal", "second-order")
#: shares of the second parameter's range at which lines are sought, until some are found
SOUGHT = (0.5, 0.25, 0.75, 0.05, 0.95)
MOST_POINTS = 2000
#: distance of the two states, as a share of the largest on the line, at which the end is solved for
MERGING = 0.1
SMALLEST_DISTANCE = 1e-3
#: largest share of the states' distance in one step, so that no step leads across the end
STEP_OF_DISTANCE = 0.3
#: symmetry-breaking field, in the chart's units, above which a state counts as not symmetric
LARGEST_FIELD = 1e-7
#: points closer than this, in units of the ranges and of the spread of the minima, are one
SAME = 1e-5


@dataclass(frozen=True)
class LineEvent:
    """A special point of a line, or where it ends.

    ``critical end``: the two states of a first-order transition merge, two spinodals meet;
    ``tricritical``: a line of second order goes over into one of first order; ``border``: the line
    leaves the range of the control or of the parameter; ``bounds``: a state leaves the box;
    ``closed``: the line returns to its start; ``unstable``: a state stops being a minimum in
    another direction; ``lost``: the line could not be followed further. A spinodal line that runs
    into a tricritical point meets its mirror image there, and is ``lost`` just before it.

    Attributes:
        parameter, parameter_error: the second parameter, and a bound on its numerical error.
        control, control_error: the control, likewise.
        coordinates: shape (q, n), as in `Line`.
        order_parameters: shape (q, m).
    """

    kind: EventKind
    parameter: float
    parameter_error: float
    control: float
    control_error: float
    coordinates: np.ndarray
    order_parameters: np.ndarray


@dataclass(frozen=True)
class Line:
    """A line in the plane of control and second parameter; K points from one end to the other.

    Attributes:
        kind: "first-order", "spinodal" or "second-order".
        parameter_name, control_name: of the two axes.
        parameter, control: shape (K,).
        coordinates: shape (K, q, n), with q = 2 coexisting states on a line of first order, else 1.
        order_parameters: shape (K, q, m).
        jump: shape (K,), Euclidean distance of the two states in the landscape's jump parameters;
            None where q = 1.
        ends: at the first and the last point.
        events: what lies between: the cusps of a spinodal line, in the order of the points.
    """

    kind: LineKind
    parameter_name: str
    control_name: str
    parameter: np.ndarray
    control: np.ndarray
    coordinates: np.ndarray
    order_parameters: np.ndarray
    jump: np.ndarray | None
    ends: tuple[LineEvent, LineEvent]
    events: tuple[LineEvent, ...]


def trace(
    landscape: Landscape,
    parameter: str,
    between: tuple[float, float],
    kind: LineKind,
    *,
    scale: Scale = "linear",
    starts: tuple[float, ...] | None = None,
) -> tuple[Line, ...]:
    """Follow the lines of a kind in the plane of the control and a second parameter.

    Args:
        landscape: its action depends on the second parameter smoothly, through `parameters`; its
            bounds and arrays hold for the whole range.
        parameter: name of the second parameter, one of the landscape's.
        between: lowest and highest value of it.
        kind: "first-order": two minima of equal action; "spinodal": a minimum and a saddle merge
            (where a symmetric minimum becomes unstable without one, there is no such line);
            "second-order": a symmetric minimum loses its stability, the quartic coefficient being
            positive.
        scale: whether steps are even in the parameter or in its logarithm.
        starts: values of the parameter at which all phases are sought (`find_phases`) and every
            transition or spinodal found starts a line; by default the first of five values, spread
            over the range, at which there is one. A line that crosses none of them is not found.

    Returns:
        The lines, each once. They are followed by their equations alone: whether a third minimum is
        lower on a part of a line (beyond a triple point) is not checked. Spinodals are those of
        all minima, also of metastable ones.

    Raises:
        InputError: if the parameter or its range cannot be used, or there is no such line at any of
            the starts.
        ActionError: if the action has a continuous symmetry, or the parameter breaks the symmetry
            on which a line of second order rests.
    """
    _check(landscape, parameter, between, kind, scale)
    plane = _Plane(landscape, parameter, between, scale)
    chosen = tuple(float(plane.value(s)) for s in SOUGHT) if starts is None else tuple(starts)
    for p in chosen:
        if not between[0] <= p <= between[1]:
            raise InputError(
                f"the start {parameter} = {p:g} is outside {between[0]:g} to {between[1]:g}"
            )
    lines: list[Line] = []
    for p in chosen:
        report = find_phases(plane.landscape_at(p))
        follower = _Follower(plane, report.solution, kind)
        for z in _start_points(report, plane, kind):
            root = follower.polish(z)
            if root is not None and not any(follower.lies_on(line, root.z) for line in lines):
                lines.append(follower.follow(root.z))
        if lines and starts is None:
            break
    if not lines:
        what = {"first-order": "first-order transition", "spinodal": "spinodal"}
        where = ", ".join(f"{p:g}" for p in sorted(chosen))
        raise InputError(
            f"there is no {what.get(kind, 'second-order transition')} within the range of "
            f"{landscape.control} at {parameter} = {where}"
        )
    return tuple(lines)


def _check(landscape: Landscape, parameter: str, between, kind: str, scale: str) -> None:
    if kind not in KINDS:
        raise InputError(
            f"the kind of line is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind!r}"
        )
    if parameter not in landscape.parameters:
        known = ", ".join(landscape.parameters) or "none"
        raise InputError(f"{parameter!r} is no parameter of the action (known: {known})")
    low, high = between
    if not (np.isfinite([low, high]).all() and low < high):
        raise InputError(
            f"the range of {parameter} must be two ascending numbers, not {low:g} and {high:g}"
        )
    if scale not in ("linear", "log"):
        raise InputError(f"the scale is 'linear' or 'log', not {scale!r}")
    if scale == "log" and low <= 0:
        raise InputError(f"a logarithmic range of {parameter} starts above 0, not at {low:g}")


class _LineChart(NamedTuple):
    """A chart, and the lowest and highest second parameter, (2,) (logarithms on such a scale)."""

    chart: Chart
    parameter: Any

    @property
    def scale(self):
        return self.chart.scale


class _Plane:
    """The second parameter of a landscape: its place in theta, and its scaled coordinate s."""

    def __init__(self, landscape: Landscape, parameter: str, between, scale: Scale):
        self.landscape, self.parameter, self.log = landscape, parameter, scale == "log"
        self.index = list(landscape.parameters).index(parameter)
        self.ends = np.log(between) if self.log else np.array(between, float)

    def landscape_at(self, p: float) -> Landscape:
        parameters = {**self.landscape.parameters, self.parameter: p}
        return replace(self.landscape, parameters=parameters)

    def value(self, s):
        """The parameter at s in [0, 1]."""
        inner = self.ends[0] + (self.ends[1] - self.ends[0]) * np.asarray(s)
        return np.exp(inner) if self.log else inner

    def s_of(self, p):
        """The inverse of `value`."""
        inner = np.log(p) if self.log else np.asarray(p)
        return (inner - self.ends[0]) / (self.ends[1] - self.ends[0])

    def rate(self, s):
        """d parameter / ds."""
        return (self.ends[1] - self.ends[0]) * (self.value(s) if self.log else 1.0)


def _start_points(report: PhaseReport, plane: _Plane, kind: LineKind) -> list[np.ndarray]:
    """Where lines of the kind cross the landscape of the report: (states, t, s)."""
    solution: Solution = report.solution
    if solution.chart.generators.shape[0]:
        raise ActionError(
            "the action has a continuous symmetry; lines are followed where minima are isolated"
        )
    s = float(plane.s_of(solution.landscape.parameters[plane.parameter]))
    if kind == "spinodal":
        ends = [end for branch in solution.branches for end in branch.ends]
        return [np.append(end.y, [end.t, s]) for end in ends if end.kind == "spinodal"]
    if kind == "first-order":
        pairs = [coexisting(report, x) for x in report.transitions if x.order == "first"]
        return [np.concatenate([low, high, [t, s]]) for t, low, high in pairs]
    found, ids = [], [phase.id for phase in report.phases]
    for x in report.transitions:
        if x.order == "second":
            low, high = (solution.branches[ids.index(i)] for i in (x.low_phase, x.high_phase))
            # the symmetric state stays smooth where the other one starts as a square root
            sides = ((low, -1, low.ends[1]), (high, 0, high.ends[0]))
            branch, node, end = min(sides, key=lambda o: float(np.linalg.norm(o[0].y_dot[o[1]])))
            y = branch.y[node] + (end.t - branch.t[node]) * branch.y_dot[node]
            found.append(np.append(y, [end.t, s, 0.0]))
    return found


class _Follower:
    """Follows the lines of one kind in the scaled coordinates of one solution.

    The unknowns z are the states y (q of them), t and s, and for a line of second order the field
    that would break the symmetry, which stays zero.
    """

    def __init__(self, plane: _Plane, solution: Solution, kind: LineKind):
        landscape = plane.landscape
        self.plane, self.solution = plane, solution
        self.kind: LineKind = kind
        self.chart = _LineChart(solution.chart, plane.ends)
        self.compiled = _systems(
            landscape.action, landscape.control_scale == "log", plane.index, plane.log
        )
        self.n = len(solution.chart.scale)
        self.states = 2 if kind == "first-order" else 1
        self.place = self.states * self.n  # of t; that of s is the next
        self.largest = 0.0  # distance of the two states on the line

    # the equations

    def modes(self, z, state: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues (n,) and modes (n, n) of the Hessian at a state."""
        x = np.append(self.state(z, state), z[self.place : self.place + 2])
        H = np.asarray(self.compiled.hessian(x, self.chart))
        if not np.isfinite(H).all():
            return np.full(self.n, np.nan), np.eye(self.n)
        return np.linalg.eigh(H)

    def state(self, z, state: int) -> np.ndarray:
        return z[state * self.n : (state + 1) * self.n]

    def equations(self, reference: np.ndarray, system: str | None = None):
        """The equations of the line, or of a special point, near a reference point."""
        name = system or self.kind
        if name == "first-order":
            border: Any = ()
        else:
            y = self.state(reference, 0)
            border = (self.soft(reference), y)
        function = getattr(self.compiled, name.replace(" ", "_").replace("-", "_"))

        def evaluate(z):
            F, J = function(z, border, self.chart)
            return np.asarray(F), np.asarray(J)

        return evaluate

    def soft(self, z) -> np.ndarray:
        """The softest mode, of either sign of its eigenvalue."""
        eigenvalues, modes = self.modes(z)
        return modes[:, np.argmin(np.abs(eigenvalues))]

    def polish(self, z) -> Root | None:
        """The point of the line next to z at the same s, if its states are minima, or nearly."""
        root = newton(fixed(self.equations(z), self.place + 1, float(z[self.place + 1])), z)
        if root is None or np.linalg.norm(root.z - z) > 0.1:
            return None
        self.check_symmetry(root.z)
        return root if self.stable(root.z) else None

    def check_symmetry(self, z) -> None:
        if self.kind == "second-order" and abs(z[-1]) > LARGEST_FIELD:
            raise ActionError(
                f"{self.plane.parameter} changes the symmetry on which the second-order "
                "transition rests: there is no line of them"
            )

    def stable(self, z) -> bool:
        """Whether the states are minima, leaving out the direction that is soft by definition."""
        first = 0 if self.kind == "first-order" else 1
        return all(bool((self.modes(z, k)[0][first:] > 0).all()) for k in range(self.states))

    def test(self, z) -> float:
        """What changes its sign at a special point: the third or reduced fourth derivative."""
        if self.kind == "first-order":
            return 1.0
        x = z[: self.place + 2]
        function = self.compiled.cubic if self.kind == "spinodal" else self.compiled.quartic
        return float(function(x, self.soft(z), self.chart))

    # following

    def follow(self, z) -> Line:
        """The line through z, both ways."""
        self.largest = 0.0
        first = tangent(self.equations(z), z, np.eye(z.size)[self.place + 1])
        up, up_events, end = self.march(z, first)
        if end[0] == "closed":
            down, down_events, start = [], [], end
        else:
            down, down_events, start = self.march(z, -first)
        nodes = np.array([*reversed(down), z, *up])
        x, order = self.observe(nodes)
        t, s = nodes[:, self.place], nodes[:, self.place + 1]
        jump = None
        if self.states == 2:
            names = self.plane.landscape.order_parameters
            chosen = [names.index(name) for name in self.plane.landscape.jump_parameters]
            jump = np.linalg.norm((order[:, 1] - order[:, 0])[:, chosen], axis=1)
        return Line(
            kind=self.kind,
            parameter_name=self.plane.parameter,
            control_name=self.plane.landscape.control,
            parameter=self.plane.value(s),
            control=self.solution.control(t),
            coordinates=x,
            order_parameters=order,
            jump=jump,
            ends=(self.event(*start), self.event(*end)),
            events=tuple(self.event(*found) for found in (*reversed(down_events), *up_events)),
        )

    def march(self, z, along) -> tuple[list, list, tuple[EventKind, Root]]:
        """Nodes beyond z in one direction, the events among them, and the end, as (kind, root)."""
        origin, nodes, events, length = z, [], [], LARGEST_STEP / 4
        test = self.test(z)
        while len(nodes) < MOST_POINTS:
            if self.states == 2:
                length = min(length, STEP_OF_DISTANCE * self.distance(z))
            found = step(self.equations(z), z, along, length)
            if found is None:
                length /= 2
                if length < SMALLEST_STEP:
                    break
                continue
            new, new_along = found
            self.check_symmetry(new)
            border = self.border(z, new)
            new_test = self.test(new)
            if test * new_test < 0:
                special = "cusp" if self.kind == "spinodal" else "tricritical"
                root = self.special(z + test / (test - new_test) * (new - z), special)
                if root is None:
                    if length > 64 * SMALLEST_STEP:  # approach it first
                        length /= 4
                        continue
                    break
                if self.inside(root.z) and (border is None or self.before(root, border[1], z)):
                    nodes.append(root.z)
                    if special == "tricritical":
                        return nodes, events, ("tricritical", root)
                    events.append(("critical end", root))
            if border is not None:
                nodes.append(border[1].z)
                return nodes, events, border
            if not self.stable(new):
                error = np.abs(new - z)
                return nodes, events, ("unstable", Root(z, error))
            if len(nodes) > 8 and self.passes(origin, z, new):
                nodes.append(origin)
                return nodes, events, ("closed", Root(origin, np.zeros(origin.size)))
            end = self.merged([origin, *nodes, new])
            nodes.append(new)
            if end is not None:
                if self.inside(end[1].z):
                    nodes.append(end[1].z)
                    return nodes, events, end
            elif self.states == 2 and self.distance(new) < SMALLEST_DISTANCE * self.largest:
                break
            z, along, test = new, new_along, new_test
            length = min(LARGEST_STEP, 1.5 * length)
        return nodes, events, ("lost", Root(z, np.full(z.size, length)))

    def distance(self, z) -> float:
        """Of the two states of a line of first order."""
        found = float(np.linalg.norm(self.state(z, 1) - self.state(z, 0)))
        self.largest = max(self.largest, found)
        return found

    def inside(self, z) -> bool:
        box = np.tile(np.asarray(self.solution.chart.box), (self.states, 1))
        y, place = z[: self.place], z[self.place : self.place + 2]
        return bool(
            ((y >= box[:, 0]) & (y <= box[:, 1])).all() and (np.abs(place - 0.5) <= 0.5).all()
        )

    def before(self, root: Root, other: Root, z) -> bool:
        return float(np.linalg.norm(root.z - z)) < float(np.linalg.norm(other.z - z))

    def border(self, z, new) -> tuple[EventKind, Root] | None:
        """Where the step from z to new leaves the ranges or the box: (kind, root), or None."""
        box = np.tile(np.asarray(self.solution.chart.box), (self.states, 1))
        limits = np.vstack([box, [[0.0, 1.0], [0.0, 1.0]]])
        crossed = []
        for i, (low, high) in enumerate(limits):
            limit = low if new[i] < low else high if new[i] > high else None
            if limit is not None:
                crossed.append(((limit - z[i]) / (new[i] - z[i]), i, float(limit)))
        if not crossed:
            return None
        share, i, limit = min(crossed)
        kind = "border" if i >= self.place else "bounds"
        root = newton(fixed(self.equations(z), i, limit), z + share * (new - z))
        if root is None or np.linalg.norm(root.z - z) > 2 * np.linalg.norm(new - z):
            return kind, Root(z, np.abs(new - z))
        return kind, root

    def special(self, guess, system: str) -> Root | None:
        """The special point next to the guess, solved twice, with the soft mode of the first."""
        root = newton(self.equations(guess, system), guess)
        if root is None or np.linalg.norm(root.z - guess) > LARGEST_STEP:
            return None
        return newton(self.equations(root.z, system), root.z)

    def passes(self, origin, z, new) -> bool:
        """Whether the step from z to new passes the origin."""
        way = new - z
        share = float((origin - z) @ way / (way @ way))
        near = np.linalg.norm(origin - z - share * way) < 0.1 * np.linalg.norm(way)
        return bool(0 <= share <= 1 and near)

    def merged(self, nodes) -> tuple[EventKind, Root] | None:
        """The end of a line of first order, once the states come close: (kind, root), or None."""
        if self.states == 1 or len(nodes) < 3:
            return None
        z, old = nodes[-1], nodes[-2]
        d, d_old = self.distance(z), self.distance(old)
        if d > MERGING * self.largest or d >= d_old:
            return None
        # towards the end, control and parameter go as d^2, the states as d
        place = slice(self.place, self.place + 2)
        way = z[place] + (z[place] - old[place]) * d**2 / (d_old**2 - d**2)
        first, second = (
            self.state(z, k) + (self.state(z, k) - self.state(old, k)) * d / (d_old - d)
            for k in (0, 1)
        )
        y = (first + second) / 2
        apart = self.state(z, 1) - self.state(z, 0)
        skew = float(apart @ (self.state(z, 0) + self.state(z, 1) - 2 * y)) / d**2
        symmetric = abs(skew) >= 0.5
        kind: LineKind = "second-order" if symmetric else "spinodal"
        aside = _Follower(self.plane, self.solution, kind)
        if symmetric:
            # the symmetric state is the one that stays; it is exact
            still = 0 if skew > 0 else 1
            guess = np.concatenate([self.state(z, still), way, [0.0]])
        else:
            guess = np.append(y, way)
        root = aside.special(guess, "tricritical" if symmetric else "cusp")
        if root is None or (symmetric and abs(root.z[-1]) > LARGEST_FIELD):
            return None
        twice = [np.concatenate([x[: self.n], x]) for x in (root.z, root.error)]
        size = 2 * self.n + 2
        return (
            "tricritical" if symmetric else "critical end",
            Root(twice[0][:size], twice[1][:size]),
        )

    # results

    def observe(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (K, q, n) and order parameters (K, q, m) of the nodes."""
        x = nodes[:, : self.place].reshape(len(nodes), self.states, self.n)
        x = x * np.asarray(self.solution.chart.scale)
        u, p = (
            self.solution.control(nodes[:, self.place]),
            self.plane.value(nodes[:, self.place + 1]),
        )
        if self.plane.landscape.observe is None:
            return x, x
        observe = _observe(self.plane.landscape.observe, self.plane.index)
        theta = self.plane.landscape.theta
        rows = np.arange(-(-len(x) // 256) * 256) % len(x)  # whole blocks: one compilation for all
        order = np.stack(
            [np.asarray(observe(x[rows, k], u[rows], p[rows], theta)) for k in range(self.states)],
            axis=1,
        )
        return x, order[: len(x)]

    def event(self, kind: EventKind, root: Root) -> LineEvent:
        t, s = root.z[self.place : self.place + 2]
        error = root.error[self.place : self.place + 2]
        x, order = self.observe(root.z[None])
        return LineEvent(
            kind=kind,
            parameter=float(self.plane.value(s)),
            parameter_error=float(abs(self.plane.rate(s)) * error[1]),
            control=float(self.solution.control(t)),
            control_error=float(abs(self.solution.control_rate(t)) * error[0]),
            coordinates=x[0],
            order_parameters=order[0],
        )

    def lies_on(self, line: Line, z) -> bool:
        """Whether a known line passes through z or through a copy of it under the symmetries."""
        place = self.place
        scale = np.asarray(self.solution.chart.scale)
        y = (line.coordinates / scale).reshape(len(line.control), -1)
        t, s = self.solution.t_of(line.control), self.plane.s_of(line.parameter)
        nodes = np.column_stack([y, t, s, *([np.zeros(len(t))] * (z.size - place - 2))])
        value = z[place + 1]
        for a, b in pairwise(nodes):
            if (a[place + 1] - value) * (b[place + 1] - value) > 0 or a[place + 1] == b[place + 1]:
                continue
            share = (value - a[place + 1]) / (b[place + 1] - a[place + 1])
            guess = a + share * (b - a)
            if abs(guess[place] - z[place]) > LARGEST_STEP:
                continue
            root = newton(fixed(self.equations(guess), place + 1, float(value)), guess)
            if root is not None and self.equal(root.z, z):
                return True
        return False

    def equal(self, z, other) -> bool:
        if abs(z[self.place] - other[self.place]) > SAME:
            return False
        mine = [self.state(z, k) for k in range(self.states)]
        its = [self.state(other, k) for k in range(self.states)]
        return any(
            all(np.linalg.norm(g @ a - b) <= SAME for a, b in zip(mine, theirs, strict=True))
            for g in (np.eye(self.n), *self.solution.group)
            for theirs in (its, its[::-1])
        )


@lru_cache(maxsize=16)
def _systems(action: Callable, log: bool, index: int, log_parameter: bool) -> SimpleNamespace:
    """The compiled systems of an action, each with its Jacobian; see `_Follower` for the unknowns.

    Args:
        log, log_parameter: whether the scales of control and second parameter are logarithmic.
        index: place of the second parameter in theta.
    """

    def S(z, line: _LineChart):
        """The scaled action at z = (y, t, s)."""
        chart, (lo, hi) = line.chart, line.chart.control
        u = lo + (hi - lo) * z[-2]
        p = line.parameter[0] + (line.parameter[1] - line.parameter[0]) * z[-1]
        theta = (
            *chart.theta[:index],
            jnp.exp(p) if log_parameter else p,
            *chart.theta[index + 1 :],
        )
        return action(z[:-2] * chart.scale, jnp.exp(u) if log else u, theta) / chart.unit

    part = pieces(S)

    def first_order(z, _, chart):
        n = len(chart.scale)
        a, b = jnp.append(z[:n], z[2 * n :]), z[n:]
        difference = (S(b, chart) - S(a, chart))[None]
        return jnp.concatenate([part.gradient(a, chart), part.gradient(b, chart), difference])

    def spinodal(z, border, chart):
        return jnp.append(part.gradient(z, chart), part.softness(z, border[0], chart))

    def cusp(z, border, chart):
        return jnp.append(spinodal(z, border, chart), part.cubic(z, border[0], chart))

    def second_order(z, border, chart):
        """With a field along the soft mode as an unknown and no motion along it, the equations are
        regular; a symmetric state solves them with a vanishing field."""
        soft, y = border
        x = z[:-1]
        return jnp.concatenate(
            [
                part.gradient(x, chart) + z[-1] * soft,
                jnp.stack([part.softness(x, soft, chart), soft @ (z[: soft.size] - y)]),
            ]
        )

    def tricritical(z, border, chart):
        return jnp.append(second_order(z, border, chart), part.quartic(z[:-1], border[0], chart))

    def with_jacobian(system):
        return jit_small(
            lambda z, border, chart: (
                system(z, border, chart),
                jax.jacfwd(system)(z, border, chart),
            )
        )

    systems = (first_order, spinodal, cusp, second_order, tricritical)
    return SimpleNamespace(
        **{system.__name__: with_jacobian(system) for system in systems},
        hessian=jit_small(lambda z, chart: part.hessian(z, chart)[:, :-2]),
        cubic=jit_small(part.cubic),
        quartic=jit_small(part.quartic),
    )


@lru_cache(maxsize=64)
def _observe(function: Callable, index: int) -> Callable:
    """The function at many states, controls and values of the second parameter."""

    def at(x, u, p, theta):
        return function(x, u, (*theta[:index], p, *theta[index + 1 :]))

    return jit_small(jax.vmap(at, (0, 0, 0, None)))
