"""The phase finder: all minima of a landscape, through its range, and their transitions."""

from dataclasses import replace
from typing import Literal

import numpy as np

from phasetheory.errors import ActionError, InputError
from phasetheory.landscape import search
from phasetheory.landscape.branches import Branch, follow, is_minimum, solve
from phasetheory.landscape.crossovers import find_crossovers
from phasetheory.landscape.kernels import BATCH, Chart, kernels, warm_up
from phasetheory.landscape.model import (
    BranchEnd,
    Landscape,
    Phase,
    PhaseReport,
    State,
    Transition,
)
from phasetheory.landscape.solution import Solution
from phasetheory.landscape.symmetry import generators, signed_permutations
from phasetheory.landscape.transitions import (
    Event,
    barrier,
    envelope,
    lowest_action,
)

#: descents of the first search, spread over box and range together
STARTS = 1024
MOST_BRANCHES = 64
#: error of a location, as a share of the range, that leaves the result incomplete
VAGUE_LOCATION = 1e-3
#: kinds of ends where a branch loses stability
SOFT = ("spinodal", "bifurcation")


def find_phases(landscape: Landscape) -> PhaseReport:
    """All phases of a landscape over its range, and every transition of the global minimum.

    Many descents, spread over box and range together, find minima; each is followed in both
    directions to where it ends (`branches`), and what lies beyond each end is searched again until
    nothing new appears. Copies of a phase under a symmetry of the action are one phase. Transitions
    are read from the lower envelope of the branches (`transitions`).

    Raises:
        InputError: if the landscape is inconsistent.
        ActionError: if the action is not finite somewhere in the box, or is lowest on its walls.
    """
    solution, walls = _solve(landscape)
    return _report(solution, walls)


def lowest_minima(
    landscape: Landscape, controls: np.ndarray, starts: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest minimum found at each control, all in batches and without following branches.

    Args:
        controls: shape (K,), within the range of the landscape.
        starts: descents for each control, spread over the box.

    Returns:
        Coordinates (K, n) and actions (K,); NaN where no descent ended at a minimum inside the box.
        Quick, and no proof that there is none lower: `find_phases` searches on.
    """
    solution = _unsolved(landscape)
    chart = solution.chart
    points = search.spread_points(starts * len(controls), len(chart.box))
    low, high = np.asarray(chart.box).T
    t = np.repeat(solution.t_of(np.asarray(controls, float)), starts)
    found = search.descend(solution.kern, chart, low + (high - low) * points, t)
    found = found.select(~found.on_bound)
    coordinates = np.full((len(controls), len(low)), np.nan)
    action = np.full(len(controls), np.nan)
    for k, place in enumerate(t[::starts]):
        (rows,) = np.nonzero(found.t == place)
        if rows.size:
            best = rows[np.argmin(found.action[rows])]
            coordinates[k] = found.y[best] * np.asarray(chart.scale)
            action[k] = found.action[best]
    return coordinates, action


def _unsolved(landscape: Landscape) -> Solution:
    """The landscape in scaled coordinates, before anything is found."""
    kern = kernels(landscape.action, landscape.control_scale == "log", landscape.descent)
    bounds = np.array(landscape.bounds, float)
    width = bounds[:, 1] - bounds[:, 0]
    inset = bounds + 1e-9 * width[:, None] * np.array([1.0, -1.0])  # walls may be singular
    control = np.array(landscape.control_range, float)
    n = len(bounds)
    chart = Chart(
        theta=landscape.theta,
        scale=width / 2,
        control=np.log(control) if landscape.control_scale == "log" else control,
        unit=np.array(1.0),
        box=inset / (width / 2)[:, None],
        generators=np.zeros((0, n, n + 1)),
    )
    return Solution(landscape, kern, chart, [], [], chart.box)


def _solve(landscape: Landscape) -> tuple[Solution, search.Found]:
    solution = _unsolved(landscape)
    kern, chart = solution.kern, solution.chart
    warm_up(kern, chart)

    def where(t):
        return f"{landscape.control} = {float(solution.control(t)):.6g}"

    search.check_finite(kern, chart, landscape.variables, where)
    found = search.descend(kern, chart, *search.starts_in_box(chart, STARTS))
    if found.on_bound.all():
        raise _no_minimum(solution, found)
    solution, found = _rescale(solution, found)
    inner = found.select(~found.on_bound)
    again = search.descend(
        kern, solution.chart, *search.starts_around(solution.chart, inner, STARTS)
    )
    solution, found = _rescale(solution, found.join(again))
    solution = _with_symmetries(solution, found)
    inner = found.y[~found.on_bound]
    solution = replace(solution, extent=np.stack([inner.min(axis=0), inner.max(axis=0)], axis=1))
    _explore(solution, found.select(~found.on_bound))
    return solution, found.select(found.on_bound)


def _rescale(solution: Solution, found: search.Found) -> tuple[Solution, search.Found]:
    """Scale each variable by the spread of the minima, and the action by their curvature.

    Widening the box or changing units then changes nothing that follows.
    """
    chart = solution.chart
    old = np.asarray(chart.scale)
    x = found.y * old
    inner = ~found.on_bound
    spread = np.ptp(x[inner], axis=0)
    box = np.asarray(chart.box) * old[:, None]
    width = box[:, 1] - box[:, 0]
    moving = spread > 1e-11 * width
    scale = np.where(moving, spread, width / 2)
    if moving.any() and not moving.all():
        # a variable in which the minima do not move is measured by its stiffness, not by its box
        bends = np.median(np.abs(np.diagonal(found.hessian[inner], axis1=1, axis2=2)), axis=0)
        bends = bends / old**2
        typical = np.median((bends * scale**2)[moving])
        natural = np.sqrt(typical / np.where(bends > 0, bends, np.inf))
        scale = np.where(moving | (natural <= 0), scale, np.minimum(natural, width / 2))
    chart = chart._replace(scale=scale, box=box / scale[:, None])
    y = x / scale
    hessian = found.hessian * np.multiply.outer(scale / old, scale / old)
    unit = float(np.median(np.linalg.norm(hessian[inner], axis=(1, 2)))) or 1.0
    chart = chart._replace(unit=np.asarray(chart.unit) * unit)
    found = replace(found, y=y, action=found.action / unit, hessian=hessian / unit)
    return replace(solution, chart=chart), found


def _no_minimum(solution: Solution, found: search.Found) -> ActionError:
    landscape = solution.landscape
    box = ", ".join(
        f"{v} in [{lo:g}, {hi:g}]"
        for v, (lo, hi) in zip(landscape.variables, landscape.bounds, strict=True)
    )
    if len(found.t):
        return ActionError(
            f"the action has no minimum inside the bounds ({box}): it falls towards their edge; "
            "widen the bounds, or check that the action is bounded below"
        )
    return ActionError(f"no isolated minimum of the action was found inside the bounds ({box})")


def _with_symmetries(solution: Solution, found: search.Found) -> Solution:
    kern, chart = solution.kern, solution.chart
    n = len(np.asarray(chart.scale))
    points = found.y[np.arange(64) % len(found.y)] + 0.7 * (2 * search.spread_points(64, n) - 1)
    box = np.asarray(chart.box)
    points = np.clip(points, box[:, 0], box[:, 1])
    times = search.spread_points(64, 1)[:, 0]
    points = np.concatenate([points, points[::-1] * 0.9])
    times = np.concatenate([times, times])
    group = signed_permutations(kern, chart, points, times)
    chart = chart._replace(generators=generators(kern, chart, points, times))
    return replace(solution, chart=chart, group=group)


def _explore(solution: Solution, candidates: search.Found) -> None:
    """Follow every minimum not yet on a branch; search beyond every end; repeat."""
    explored = 0
    for _ in range(8):
        _adopt(solution, candidates)
        fresh = solution.branches[explored:]
        explored = len(solution.branches)
        starts = [
            _beyond(end, direction)
            for b in fresh
            for end, direction in zip(b.ends, (-1, 1), strict=True)
        ]
        starts = [s for s in starts if s is not None]
        if not starts:
            return
        y = np.concatenate([y for y, _ in starts])
        t = np.concatenate([t for _, t in starts])
        box = np.asarray(solution.chart.box)
        y = np.clip(y, box[:, 0], box[:, 1])
        found = search.descend(solution.kern, solution.chart, y, t)
        candidates = found.select(~found.on_bound)


def _beyond(end, direction: int):
    """Starts on both sides of a soft end, displaced along the soft direction."""
    offsets = np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    t = end.t + np.concatenate([direction * offsets, -direction * offsets])
    shifts = np.array([-1.0, -0.3, -0.1, -0.03, -0.01, 0.01, 0.03, 0.1, 0.3, 1.0])
    t, shifts = (grid.ravel() for grid in np.meshgrid(t, shifts))
    inside = (t >= 0) & (t <= 1)
    return (end.y + shifts[:, None] * end.soft)[inside], t[inside]


def _adopt(solution: Solution, candidates: search.Found) -> None:
    """Turn candidates that lie on no known branch into new branches, in place."""
    kern, chart, branches = solution.kern, solution.chart, solution.branches
    open_ = np.ones(len(candidates.t), bool)
    for branch in branches:
        open_ &= ~_lies_on(branch, candidates)
    for i in np.argsort(candidates.action, kind="stable"):
        if not open_[i] or len(branches) >= MOST_BRANCHES:
            continue
        y, t = _canonical(solution, candidates.y[i]), float(candidates.t[i])
        state = solve(kern, chart, y, t)
        open_[i] = False
        if not is_minimum(state) or np.linalg.norm(state["y"] - y) > 1e-2:
            continue
        if any(_same_phase(solution, b, state, t) for b in branches):
            continue
        branch = follow(kern, chart, y, t)
        if branch is None or any(_repeats(solution, branch, b) for b in branches):
            continue
        branches.append(branch)
        open_ &= ~_lies_on(branch, candidates)


def _lies_on(branch: Branch, found: search.Found) -> np.ndarray:
    on = (found.t >= branch.ends[0].t) & (found.t <= branch.ends[1].t)
    near = np.linalg.norm(branch.interpolate(found.t) - found.y, axis=1) <= 1e-6
    return on & near


def _canonical(solution: Solution, y) -> np.ndarray:
    """The copy with the largest coordinates, so that signs come out the same every time."""
    copies = np.array([g @ y for g in solution.group])
    return copies[np.lexsort(np.round(copies, 9).T[::-1])[-1]]


def _same_phase(solution: Solution, branch: Branch, state, t: float) -> bool:
    """Whether a minimum is a copy of the branch's one: equal action, slope, curvature, det H."""
    if not branch.covers(t):
        return False
    other = solve(solution.kern, solution.chart, branch.interpolate(t)[0], t)
    if not is_minimum(other):
        return False

    # the sum of an action can lose digits that its unit does not show; slope and det H tell apart
    # what lies that close
    off = {name: abs(float(state[name] - other[name])) for name in ("action", "slope")}
    det = abs(float(np.log(state["eigenvalues"] / other["eigenvalues"]).sum()))
    return (
        off["action"] <= 1e-9 * (1 + abs(float(other["action"])))
        and off["slope"] <= 1e-7 * (1 + abs(float(other["slope"])))
        and (det <= 1e-4 or bool(solution.chart.generators.shape[0]))
    )


def _repeats(solution: Solution, branch: Branch, known: Branch) -> bool:
    """Whether a branch is a known one, met where round-off hid it (next to an end, say)."""
    low, high = branch.ends[0].t, branch.ends[1].t
    times = [low + share * (high - low) for share in (0.25, 0.5, 0.75)]
    states = [solve(solution.kern, solution.chart, branch.interpolate(t)[0], t) for t in times]
    return all(_same_phase(solution, known, s, t) for s, t in zip(states, times, strict=True))


def _copies(solution: Solution, y) -> np.ndarray:
    """Distinct images of y under the signed permutations, shape (K, n)."""
    images: list[np.ndarray] = []
    for g in solution.group:
        if all(np.linalg.norm(g @ y - other) > 1e-6 for other in images):
            images.append(g @ y)
    return np.array(images)


def _multiplicity(solution: Solution, branch: Branch) -> int | Literal["continuous"]:
    """How many minima at one control are copies of this one: images, and what a search finds."""
    middle = branch.t.size // 2
    y, t = branch.y[middle], float(branch.t[middle])
    fields = np.asarray(solution.chart.generators)
    if any(np.linalg.norm(f[:, :-1] @ y + f[:, -1]) > 1e-6 for f in fields):
        return "continuous"
    kern, chart = solution.kern, solution.chart
    low, high = solution.extent.T
    starts = low - 0.2 + (high - low + 0.4) * search.spread_points(BATCH, y.size)
    box = np.asarray(chart.box)
    found = search.descend(kern, chart, np.clip(starts, box[:, 0], box[:, 1]), np.full(BATCH, t))
    copies, others = list(_copies(solution, y)), []
    for candidate in found.y[~found.on_bound]:
        if all(np.linalg.norm(candidate - known) > 1e-5 for known in (*copies, *others)):
            state = solve(kern, chart, candidate, t)
            copy = is_minimum(state) and _same_phase(solution, branch, state, t)
            (copies if copy else others).append(candidate)
    return len(copies)


def _report(solution: Solution, walls: search.Found) -> PhaseReport:
    landscape, branches = solution.landscape, solution.branches
    if not branches:
        raise _no_minimum(solution, walls)
    _check_walls(solution, walls)
    order = sorted(range(len(branches)), key=lambda i: (branches[i].ends[0].t, -branches[i].t.size))
    branches[:] = [branches[i] for i in order]
    line = envelope(solution.kern, solution.chart, branches)
    problems = [
        f"{landscape.control} = {solution.control(t):.8g}: {text}" for t, text in line.problems
    ]
    for b in branches:
        problems += [
            f"{landscape.control} = {solution.control(end.t):.8g}: a branch could not be followed"
            for end in b.ends
            if end.kind == "lost"
        ]
    if len(branches) >= MOST_BRANCHES:
        problems.append(f"more than {MOST_BRANCHES} branches; the search was cut short")
    ids = [_name(i) for i in range(len(branches))]
    return PhaseReport(
        landscape=landscape,
        phases=tuple(_phase(solution, b, i) for b, i in zip(branches, ids, strict=True)),
        transitions=tuple(_transition(solution, event, ids) for event in line.events),
        crossovers=tuple(find_crossovers(solution, line.pieces)),
        equilibrium=tuple(
            (ids[i], float(solution.control(lo)), float(solution.control(hi)))
            for i, lo, hi in line.pieces
        ),
        status="incomplete" if problems else "complete",
        problems=tuple(problems),
        solution=solution,
    )


def _check_walls(solution: Solution, walls: search.Found) -> None:
    if not len(walls.t):
        return
    lowest = lowest_action(solution.branches, walls.t)
    below = walls.action < lowest - 1e-9 * (1 + np.abs(walls.action))
    if below.any():
        i = int(np.flatnonzero(below)[np.argmin(walls.action[below])])
        landscape = solution.landscape
        x = walls.y[i] * np.asarray(solution.chart.scale)
        place = ", ".join(f"{v} = {c:.6g}" for v, c in zip(landscape.variables, x, strict=True))
        raise ActionError(
            f"the action is lowest on the edge of its bounds, at {place}, {landscape.control} = "
            f"{float(solution.control(walls.t[i])):.6g}; widen the bounds, or check that the "
            "action is bounded below"
        )


def _name(i: int) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return letters[i] if i < 26 else letters[i // 26 - 1] + letters[i % 26]


def _phase(solution: Solution, branch: Branch, name: str) -> Phase:
    unit, scale = float(solution.chart.unit), np.asarray(solution.chart.scale)

    def end(e):
        rate = abs(float(solution.control_rate(e.t)))
        return BranchEnd(float(solution.control(e.t)), e.kind, e.error * rate)

    return Phase(
        id=name,
        multiplicity=_multiplicity(solution, branch),
        ends=(end(branch.ends[0]), end(branch.ends[1])),
        control=solution.control(branch.t),
        coordinates=branch.y * scale,
        order_parameters=solution.observe(branch.y, branch.t),
        action=branch.action * unit,
        observables=solution.measure(branch.y, branch.t),
        susceptibility=solution.susceptibility(
            branch.y, branch.t, branch.eigenvalues, branch.modes
        ),
        stiffness=branch.eigenvalues[:, 0],
    )


def _transition(solution: Solution, event: Event, ids: list[str]) -> Transition:
    branches, unit = solution.branches, float(solution.chart.unit)
    rate = float(solution.control_rate(event.t))
    low, high = (solution.observe(y, event.t)[0] for y in (event.y_low, event.y_high))
    spinodals: tuple[float | None, float | None] = (None, None)
    height: float | None = 0.0
    jump = 0.0
    if event.order == "first" or (event.order == "undetermined" and event.quartic is None):
        images = _copies(solution, event.y_high)
        values = solution.observe(images, np.full(len(images), event.t))
        jump = float(np.linalg.norm(_span(solution, values) - _span(solution, low), axis=1).min())
        ends = (branches[event.high].ends[0], branches[event.low].ends[1])
        start, stop = (float(solution.control(e.t)) if e.kind in SOFT else None for e in ends)
        spinodals = (start, stop)
        height = barrier(
            solution.kern, solution.chart, event, branches, lambda y: _copies(solution, y)
        )
        height = None if height is None else height * unit
    return Transition(
        order=event.order,
        control=float(solution.control(event.t)),
        control_error=event.error * rate,
        low_phase=ids[event.low],
        high_phase=ids[event.high],
        low=low,
        high=high,
        jump=jump,
        slope_change=event.slope_change * unit / rate,
        spinodals=spinodals,
        barrier=height,
        quartic=event.quartic,
    )


def _span(solution: Solution, values: np.ndarray) -> np.ndarray:
    """The order parameters that measure a jump (all but derived ones)."""
    names = solution.landscape.order_parameters
    return values[..., [names.index(name) for name in solution.landscape.jump_parameters]]


def states_at(report: PhaseReport, control: float) -> list[State]:
    """All minima at one control, the equilibrium state first.

    Raises:
        InputError: if the control lies outside the range of the report.
    """
    solution: Solution = report.solution
    landscape = solution.landscape
    lo, hi = landscape.control_range
    if not lo <= control <= hi:
        raise InputError(
            f"{landscape.control} = {control:g} lies outside the range {lo:g} to {hi:g}"
        )
    t = float(np.clip(solution.t_of(control), 0.0, 1.0))
    states = []
    for phase, branch in zip(report.phases, solution.branches, strict=True):
        if not branch.covers(t):
            continue
        state = solve(solution.kern, solution.chart, branch.interpolate(t)[0], t)
        if not is_minimum(state):
            continue
        states.append(
            State(
                phase=phase.id,
                control=float(control),
                coordinates=state["y"] * np.asarray(solution.chart.scale),
                order_parameters=solution.observe(state["y"], t)[0],
                action=float(state["action"]) * float(solution.chart.unit),
                observables=solution.measure(state["y"], t)[0],
                susceptibility=solution.susceptibility(
                    state["y"], t, state["eigenvalues"], state["modes"][None]
                )[0],
            )
        )
    return sorted(states, key=lambda s: s.action)
