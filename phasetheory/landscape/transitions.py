"""Transitions of the global minimum: where branches cross or grow out of each other, and how."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.optimize import brentq

from phasetheory.landscape.branches import Branch, solve
from phasetheory.landscape.kernels import EPS, Chart
from phasetheory.landscape.model import Order
from phasetheory.landscape.search import in_batches

#: relative size of the quartic coefficient below which it counts as zero, resp. as not resolved
QUARTIC_ZERO = 1e-8
QUARTIC_RESOLVED = 1e-7
#: smallest jump, in units of the spread of the minima, that is told from none
JUMP_RESOLVED = 1e-6


@dataclass(frozen=True)
class Event:
    """A change of the global minimum from branch `low` to branch `high` at t, scaled coordinates.

    `quartic` is set for continuous transitions only.
    """

    t: float
    error: float
    low: int
    high: int
    y_low: np.ndarray
    y_high: np.ndarray
    slope_change: float
    order: Order
    quartic: float | None = None


@dataclass(frozen=True)
class Envelope:
    """The global minimum: (branch, from t, to t) pieces, the events between them, and problems."""

    pieces: tuple[tuple[int, float, float], ...]
    events: tuple[Event, ...]
    problems: tuple[tuple[float, str], ...]


def action_at(branch: Branch, t: np.ndarray) -> np.ndarray:
    """Action along a branch by Hermite interpolation of its nodes, with their exact slopes."""
    t = np.clip(t, branch.t[0], branch.t[-1])
    if branch.t.size == 1:
        return np.full_like(t, branch.action[0])
    i = np.clip(np.searchsorted(branch.t, t) - 1, 0, branch.t.size - 2)
    h = branch.t[i + 1] - branch.t[i]
    s = (t - branch.t[i]) / h
    return (
        branch.action[i]
        + s**2 * (3 - 2 * s) * (branch.action[i + 1] - branch.action[i])
        + s * (1 - s) * h * ((1 - s) * branch.slope[i] - s * branch.slope[i + 1])
    )


def lowest_action(branches: list[Branch], t: np.ndarray) -> np.ndarray:
    """The global minimum of the action over the branches, +inf where none is known."""
    lowest = np.full(np.shape(t), np.inf)
    for branch in branches:
        inside = (t >= branch.ends[0].t) & (t <= branch.ends[1].t)
        lowest = np.where(inside, np.minimum(lowest, action_at(branch, t)), lowest)
    return lowest


def envelope(kern, chart: Chart, branches: list[Branch]) -> Envelope:
    """Walk along the global minimum from the low to the high end of the range."""
    problems: list[tuple[float, str]] = []
    pieces: list[tuple[int, float, float]] = []
    events: list[Event] = []
    t = 0.0
    current = _lowest(branches, t)
    if current is None:
        return Envelope((), (), ((0.0, "no minimum was found at the start of the range"),))
    while len(events) < 10 * len(branches) + 10:
        crossing = _next_crossing(kern, chart, branches, current, t)
        end = branches[current].ends[1]
        if crossing is not None and crossing.t < end.t:
            pieces.append((current, t, crossing.t))
            events.append(crossing)
            current, t = crossing.high, crossing.t
            continue
        pieces.append((current, t, end.t))
        if end.kind == "range":
            break
        successor = _successor(branches, current)
        if successor is None:
            lowest = _lowest(branches, min(end.t + 1e-6, 1.0), excluded=current)
            problems.append((end.t, f"the global minimum ends here ({end.kind}) with no successor"))
            if lowest is None:
                break
            current, t = lowest, min(end.t + 1e-6, 1.0)
            continue
        events.append(_continuous(kern, chart, branches, current, successor))
        current, t = successor, end.t
    for i, lo, hi in pieces:
        for j, other in enumerate(branches):
            a, b = max(lo, other.ends[0].t), min(hi, other.ends[1].t)
            if j == i or b - a < 1e-6:
                continue
            grid = np.linspace(a, b, 65)[1:-1]
            mine, its = action_at(branches[i], grid), action_at(other, grid)
            # between nodes the interpolation is good to much better than this
            below = its < mine - 1e-6 * (1e-3 + np.abs(mine - its).max())
            if below.any():
                problems.append(
                    (grid[below][0], "a lower minimum appears here without crossing the lowest one")
                )
                break
    return Envelope(tuple(pieces), tuple(events), tuple(problems))


def _lowest(branches, t, excluded=None) -> int | None:
    """The branch of lowest action at t; of equal ones, the one that is lower just after."""
    known = [i for i, b in enumerate(branches) if b.covers(t) and i != excluded]
    if not known:
        return None
    action = {i: float(action_at(branches[i], np.array(t))) for i in known}
    least = min(action.values())
    equal = [i for i in known if action[i] <= least + 64 * EPS * (1 + abs(least))]
    return min(equal, key=lambda i: float(np.interp(t, branches[i].t, branches[i].slope)))


def _next_crossing(kern, chart, branches, i, t_from) -> Event | None:
    """The first place after t_from where another branch goes below branch i."""
    mine = branches[i]
    best: Event | None = None
    for j, other in enumerate(branches):
        a, b = max(t_from, other.ends[0].t), min(mine.ends[1].t, other.ends[1].t)
        if best is not None:
            b = min(b, best.t)
        if j == i or a >= b:
            continue
        nodes = np.concatenate([mine.t, other.t, np.linspace(a, b, 65), [a, b]])
        grid = np.unique(nodes[(nodes >= a) & (nodes <= b)])
        gap = action_at(mine, grid) - action_at(other, grid)
        rising = np.flatnonzero((gap[:-1] <= 0) & (gap[1:] > 0))
        for k in rising:
            around = (grid[max(k - 1, 0)], grid[k], grid[k + 1], grid[min(k + 2, grid.size - 1)])
            event = _coexistence(kern, chart, branches, i, j, *around)
            if event is not None and event.t > t_from + 1e-13:
                best = event
                break
    return best


def _coexistence(kern, chart, branches, i, j, before, a, b, after) -> Event | None:
    """Equal action of two branches in [a, b], or just outside, solved on exact minima."""

    def states(t):
        return [solve(kern, chart, branches[k].interpolate(t)[0], t) for k in (i, j)]

    def gap(t):
        mine, other = states(t)
        return float(mine["action"] - other["action"])

    # where the crossing falls on a node, round-off may put it on the other side
    a, b = (a if gap(a) <= 0 else before), (b if gap(b) > 0 else after)
    if gap(a) > 0 or gap(b) <= 0:
        return None
    t: float = brentq(gap, a, b, xtol=1e-16, rtol=4 * EPS)  # pyright: ignore
    mine, other = states(t)
    slope_change = float(other["slope"] - mine["slope"])
    noise = 8 * EPS * (1 + abs(float(mine["action"])))
    error = noise / max(abs(slope_change), 1e-300) + 4 * EPS
    jump = float(np.linalg.norm(other["y"] - mine["y"]))
    resolved = jump > JUMP_RESOLVED and abs(slope_change) > 100 * noise
    return Event(
        t=t,
        error=min(error, 1.0),
        low=i,
        high=j,
        y_low=mine["y"],
        y_high=other["y"],
        slope_change=slope_change,
        order="first" if resolved else "undetermined",
    )


def _successor(branches: list[Branch], i: int) -> int | None:
    """The branch that continues the global minimum beyond the end of branch i, continuously.

    Action and slope agree at a continuous transition, for every copy of the phases.
    """
    end = branches[i].ends[1]
    best = None
    for j, other in enumerate(branches):
        if j == i or not other.covers(end.t, margin=1e-7) or other.ends[1].t <= end.t + 1e-7:
            continue
        t = np.array(max(end.t, other.t[0]))
        here = np.array(min(end.t, branches[i].t[-1]))
        off = abs(float(action_at(other, t) - action_at(branches[i], here)))
        slope = np.interp(t, other.t, other.slope)
        mismatch = abs(slope - branches[i].slope[-1])
        size = 1e-3 * max(abs(slope), abs(branches[i].slope[-1]), 1e-6)
        if off <= 1e-6 * max(abs(slope), 1e-3) + 64 * EPS * (1 + abs(branches[i].action[-1])) and (
            mismatch <= size + 1e-3
        ):
            best = min(best, (mismatch, j)) if best else (mismatch, j)
    return best[1] if best else None


def _continuous(kern, chart, branches, i, j) -> Event:
    """The continuous transition from the end of branch i to the start of branch j."""
    sides = [(branches[i].ends[1], branches[i], -1), (branches[j].ends[0], branches[j], 0)]
    end = sides[0][0]
    starts_here = abs(branches[j].ends[0].t - end.t) <= 1e-7
    if not starts_here:
        sides = sides[:1]
    # on the branch that stays smooth (the symmetric one) the end is exact to the last digit
    at, smooth, node = min(sides, key=lambda side: float(np.linalg.norm(side[1].y_dot[side[2]])))
    y = smooth.y[node] + (at.t - smooth.t[node]) * smooth.y_dot[node]
    order, quartic = landau(kern, chart, y, at.t, float(smooth.eigenvalues.max()))
    return Event(
        t=at.t,
        error=at.error,
        low=i,
        high=j,
        y_low=y,
        y_high=y,
        slope_change=0.0,
        order=order,
        quartic=quartic,
    )


def landau(kern, chart: Chart, y, t: float, stiffness: float) -> tuple[Order, float]:
    """Order of a continuous transition at (y, t) from the quartic form of the soft directions.

    Soft are the directions whose eigenvalue vanishes beside `stiffness`; the others are eliminated:
    along a soft v the reduced coefficient is ``S_vvvv - 3 c H^+ c`` with ``c = d/dy (v.H.v)`` on
    the stiff directions (Landau theory; the Lyapunov-Schmidt reduction). It is measured against the
    size of ``S_vvvv`` over the spread of the minima, which makes it free of units.
    """

    def derivatives(y, v):
        return {k: np.asarray(x) for k, x in kern.landau(y, v, t, chart).items()}

    w, directions = np.linalg.eigh(derivatives(y, np.ones_like(y))["hessian"])
    soft = w <= max(w[0], 1e-6 * stiffness)
    basis, stiff = directions[:, soft], directions[:, ~soft]
    worst, natural = np.inf, 0.0
    for v in _sphere(basis):
        c = derivatives(y, v)
        along = stiff.T @ c["coupling"]
        relief = 3 * float(along @ (along / w[~soft])) if along.size else 0.0
        reach = _reach(np.asarray(chart.box), y, v)
        line = y + np.linspace(0.05, 1.0, 16)[:, None] * reach * v
        fourth = np.array([derivatives(point, v)["fourth"] for point in line])
        size = abs(relief) + np.nanmax(np.abs(np.append(fourth, c["fourth"])))
        natural = max(natural, float(size))
        worst = min(worst, float(c["fourth"]) - relief)
    if natural == 0:
        return "undetermined", 0.0
    quartic = worst / natural
    if abs(quartic) <= QUARTIC_ZERO:
        return "tricritical", quartic
    if quartic < QUARTIC_RESOLVED:
        return "undetermined", quartic
    return "second", quartic


def _sphere(basis: np.ndarray) -> np.ndarray:
    """Unit vectors spread over the span of an orthonormal basis (n, k), up to sign."""
    k = basis.shape[1]
    if k == 1:
        return basis.T
    if k == 2:
        angle = np.pi * np.arange(48) / 48
        return np.stack([np.cos(angle), np.sin(angle)], axis=1) @ basis.T
    normal = np.random.default_rng(0).normal(size=(256, k))
    normal = np.concatenate([np.eye(k), normal, np.array(np.sign(normal[:64]))])
    return normal / np.linalg.norm(normal, axis=1, keepdims=True) @ basis.T


def _reach(box: np.ndarray, y: np.ndarray, v: np.ndarray) -> float:
    """How far along v to look: the spread of the minima (one), less where the box is nearer."""
    with np.errstate(divide="ignore"):
        room = np.where(v > 0, (box[:, 1] - y) / v, np.where(v < 0, (box[:, 0] - y) / v, np.inf))
    return float(min(1.0, 0.9 * room.min()))


def barrier(kern, chart: Chart, event: Event, branches: list[Branch], copies) -> float | None:
    """Height of the lowest pass between the two phases of a first-order event.

    Saddles of index one are sought around the paths between all minima present; each is followed
    down on both sides. The pass is the lowest set of saddles that joins the two phases, if need be
    by way of other minima.

    Args:
        copies: function that gives the (K, n) images of a point under the symmetries.

    Returns:
        The height in units of the scaled action, or None where no such saddles were found.
    """
    t = event.t
    present = [i for i, b in enumerate(branches) if b.covers(t)]
    minima = {i: solve(kern, chart, branches[i].interpolate(t)[0], t) for i in present}
    starts = [
        start
        for i, j in combinations(present, 2)
        for start in _path_tops(kern, chart, t, copies(minima[i]["y"]), copies(minima[j]["y"]))
    ]
    box = np.asarray(chart.box)
    y = np.clip(np.array(starts), box[:, 0], box[:, 1])
    out = in_batches(kern.saddle, chart, y, t)
    w = out["eigenvalues"]
    good = np.flatnonzero(out["converged"] & (w[:, 0] < 0) & (w[:, 1:] > 0).all(axis=1))
    if not good.size:
        return None
    shift = 1e-3 * np.linalg.norm(event.y_high - event.y_low)
    feet = []
    for sign in (1, -1):
        aside = out["y"][good] + sign * shift * out["soft"][good]
        feet.append(in_batches(kern.polish, chart, aside, t)["y"])
    joined = {i: {i} for i in present}
    for k in np.argsort(out["action"][good], kind="stable"):
        ends = [_which(minima, solve(kern, chart, foot[k], t)) for foot in feet]
        if ends[0] is None or ends[1] is None:
            continue
        union = joined[ends[0]] | joined[ends[1]]
        for i in union:
            joined[i] = union
        if event.high in joined[event.low]:
            base = float(minima[event.low]["action"])
            return max(float(out["action"][good][k]) - base, 0.0)
    return None


def _path_tops(kern, chart: Chart, t: float, low, high) -> list[np.ndarray]:
    """The highest points of straight paths between copies of two minima, and points around them."""
    pairs = [(a, b) for a in low[:8] for b in high[:8]]
    pairs.sort(key=lambda pair: float(np.linalg.norm(pair[0] - pair[1])))
    starts = []
    for a, b in pairs[:2]:
        path = a + np.linspace(0, 1, 130)[1:-1, None] * (b - a)
        top = path[int(np.argmax(in_batches(kern.value, chart, path, t)["value"]))]
        side = np.random.default_rng(0).normal(size=(15, a.size)) * np.linalg.norm(b - a)
        starts += [top, *(top + np.repeat([0.01, 0.05, 0.2], 5)[:, None] * side)]
    return starts


def _which(minima: dict, state) -> int | None:
    """The phase of a minimum: phases may have equal action here, so their slopes count as well."""
    off = {
        i: abs(float(state["action"] - m["action"])) + abs(float(state["slope"] - m["slope"]))
        for i, m in minima.items()
    }
    best = min(off, key=lambda i: off[i])
    size = 1e-6 * (1 + abs(float(minima[best]["slope"])) + abs(float(minima[best]["action"])))
    return best if off[best] <= size else None
