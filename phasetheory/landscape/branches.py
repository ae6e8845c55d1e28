"""Following a minimum through the range of the control, to where it ends.

Natural-parameter continuation with a Newton corrector (Deuflhard's contraction test decides whether
a step stayed on its branch). The distance to a loss of stability follows from the eigenvalues ``w``
of the Hessian and their slopes along the branch: ``d = w/|dw/dt|`` is p times the distance, with
p = 2 at a spinodal (w ~ distance^1/2) and p = 1 where the branch bifurcates (w ~ distance). Steps
shrink with that distance, so both ends are approached geometrically and never solved at the
singular point itself.
"""

from dataclasses import dataclass

import numpy as np

from phasetheory.landscape.kernels import EPS, Chart
from phasetheory.landscape.model import EndKind

LARGEST_STEP = 1 / 96
#: share of the range to a loss of stability at which a branch ends, if the exponent p is clear by
#: then; nearer, round-off grows. If it is not clear (a weak first-order transition has a spinodal
#: next to a bifurcation), the branch is followed down to the second distance.
END_DISTANCE = 1e-7
SMALLEST_END_DISTANCE = 1e-9
#: largest Newton correction of one step, in units of the spread of the minima
LARGEST_CORRECTION = 0.01
SMALLEST_STEP = 1e-14


@dataclass(frozen=True)
class End:
    """Where a branch ends, in scaled coordinates. `soft`: the direction that lost stability."""

    t: float
    y: np.ndarray
    kind: EndKind
    error: float
    soft: np.ndarray


@dataclass(frozen=True)
class Branch:
    """A followed minimum in scaled coordinates; arrays over N nodes in ascending t."""

    t: np.ndarray
    y: np.ndarray
    y_dot: np.ndarray
    action: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    eigenvalues: np.ndarray
    modes: np.ndarray
    ends: tuple[End, End]

    def covers(self, t: float, margin: float = 0.0) -> bool:
        return self.ends[0].t - margin <= t <= self.ends[1].t + margin

    def interpolate(self, t) -> np.ndarray:
        """Cubic Hermite interpolation of y at t (scalar or (K,)), clamped to the nodes."""
        t = np.clip(np.atleast_1d(t), self.t[0], self.t[-1])
        if self.t.size == 1:
            return np.repeat(self.y, t.size, axis=0)
        i = np.clip(np.searchsorted(self.t, t) - 1, 0, self.t.size - 2)
        h = self.t[i + 1] - self.t[i]
        s = ((t - self.t[i]) / h)[:, None]
        h = h[:, None]
        return (
            (1 + 2 * s) * (1 - s) ** 2 * self.y[i]
            + s * (1 - s) ** 2 * h * self.y_dot[i]
            + s**2 * (3 - 2 * s) * self.y[i + 1]
            + s**2 * (s - 1) * h * self.y_dot[i + 1]
        )


def solve(kern, chart: Chart, y, t: float) -> dict[str, np.ndarray]:
    """The critical point next to y at t, with its properties, as NumPy values."""
    return {name: np.asarray(v) for name, v in kern.critical(np.asarray(y), t, chart).items()}


def is_minimum(state) -> bool:
    w = state["eigenvalues"]
    finite = all(np.all(np.isfinite(state[k])) for k in ("y", "action", "eigenvalues", "y_dot"))
    return bool(finite and state["converged"] and w[0] > 0)


def follow(kern, chart: Chart, y, t: float) -> Branch | None:
    """The whole branch through the minimum at (y, t); None where there is no minimum."""
    start = solve(kern, chart, y, t)
    if not is_minimum(start):
        return None
    down, low = _march(kern, chart, start, t, -1)
    up, high = _march(kern, chart, start, t, +1)
    nodes = [*reversed(down), (t, start), *up]

    def column(name):
        return np.array([state[name] for _, state in nodes])

    return Branch(
        t=np.array([t for t, _ in nodes]),
        y=column("y"),
        y_dot=column("y_dot"),
        action=column("action"),
        slope=column("slope"),
        curvature=column("curvature"),
        eigenvalues=column("eigenvalues"),
        modes=column("modes"),
        ends=(low, high),
    )


def _march(kern, chart, state, t, direction):
    """Nodes beyond the start in one direction, and the end reached."""
    box = np.asarray(chart.box)
    nodes = []
    limit = 1.0 if direction > 0 else 0.0
    step, power, previous = LARGEST_STEP, 2.0, None
    while True:
        remaining = abs(limit - t)
        if remaining == 0:
            return nodes, End(limit, state["y"], "range", 0.0, state["modes"][:, 0])
        distance, noise, _ = _softening(state, direction)
        clean = noise < 0.01 * distance
        if previous is not None and clean and np.isfinite(distance) and np.isfinite(previous[1]):
            power = float(np.clip((previous[1] - distance) / previous[0], 0.9, 2.2))
        gap = distance / power
        clear = min(abs(power - 1), abs(power - 2)) < 0.03
        if gap <= (SMALLEST_END_DISTANCE if clean and not clear else END_DISTANCE):
            return nodes, _soft_end(state, t, direction, power)
        step = min(step, remaining, 0.7 * gap)
        while True:
            t_new = limit if step >= remaining else t + direction * step
            guess = state["y"] + (t_new - t) * state["y_dot"]
            new = solve(kern, chart, guess, t_new)
            inside = np.all((new["y"] >= box[:, 0]) & (new["y"] <= box[:, 1]))
            if inside and _stayed(state, new, t_new - t):
                break
            step /= 3
            if step < SMALLEST_STEP:
                near = np.any(
                    (state["y"] <= box[:, 0] + 1e-6 * (box[:, 1] - box[:, 0]))
                    | (state["y"] >= box[:, 1] - 1e-6 * (box[:, 1] - box[:, 0]))
                )
                if gap < 1e-6:  # round-off stops the approach: the extrapolation is what is known
                    return nodes, _soft_end(state, t, direction, power)
                kind = "bounds" if near else "lost"
                return nodes, End(t, state["y"], kind, 0.0, state["modes"][:, 0])
        previous = (abs(t_new - t), distance)
        t, state = t_new, new
        nodes.append((t, state))
        step = min(LARGEST_STEP, step * (2.0 if new["first"] < LARGEST_CORRECTION / 4 else 1.2))


def _stayed(old, new, dt: float) -> bool:
    if not is_minimum(new) or new["contraction"] > 0.25 or new["first"] > LARGEST_CORRECTION:
        return False
    w_old, w_new = old["eigenvalues"], new["eigenvalues"]
    off = np.abs(w_new - (w_old + dt * old["eigenvalues_dot"]))
    return bool(np.all(off <= 0.5 * np.maximum(w_old, w_new)))


def _softening(state, direction: int) -> tuple[float, float, int]:
    """The smallest w/|dw/dt| among the eigenvalues w that fall, its round-off, and its mode.

    The last Newton step tells by how much round-off shifts the minimum, and so w, whose derivative
    is of order one in the chart's units.
    """
    w, fall = state["eigenvalues"], -direction * state["eigenvalues_dot"]
    distances = np.where(fall > 0, w / np.where(fall > 0, fall, 1.0), np.inf)
    mode = int(np.argmin(distances))
    if not np.isfinite(distances[mode]):
        return np.inf, 0.0, 0
    return float(distances[mode]), float(state["last"] / fall[mode]), mode


def _soft_end(state, t, direction, power) -> End:
    distance, noise, mode = _softening(state, direction)
    nearest = 2 if power > 1.5 else 1
    gap = distance / nearest
    # the next order of w(distance) is sqrt(distance) smaller, and the exponent may not be clear
    error = gap * max(abs(power - nearest), np.sqrt(gap)) + 10 * noise + 4 * EPS
    # y approaches its end as distance^(1/2) on all branches but the smooth one, where y_dot is
    # finite and the correction vanishes
    y = state["y"] + direction * 2 * gap * state["y_dot"]
    kind = "spinodal" if nearest == 2 else "bifurcation"
    return End(float(t + direction * gap), y, kind, float(error), state["modes"][:, mode])
