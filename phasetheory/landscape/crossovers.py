"""Fastest changes of the equilibrium that are no transitions."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import minimize_scalar

from phasetheory.landscape.branches import Branch, solve
from phasetheory.landscape.model import Crossover
from phasetheory.landscape.solution import Solution

#: a peak counts where it stands out by this factor from the lowest value on either side of it ...
PROMINENCE = 1.1
#: ... and what changes by less than this share of the largest change anywhere is no crossover
SMALLEST_SHARE = 1e-3
#: curvature of the action along the range, in its own unit, that is no more than round-off
ROUND_OFF = 1e-8


def find_crossovers(solution: Solution, pieces) -> Iterator[Crossover]:
    """The fastest change of each order parameter, and of dS/dcontrol, on each smooth piece.

    Args:
        pieces: (branch, from t, to t) of the global minimum between its transitions.
    """
    landscape, branches = solution.landscape, solution.branches
    per = landscape.control
    per_log = f"dlog({per})" if landscape.control_scale == "log" else f"d{per}"
    seen = [solution.observe(b.y, b.t) for b in branches]
    spread = np.ptp(np.concatenate(seen), axis=0)
    rates = []
    for i, lo, hi in pieces:
        # next to the ends of a piece, a fast change belongs to the transition there
        margin = 1e-3 * (hi - lo)
        t = branches[i].t
        t = t[(t >= lo + margin) & (t <= hi - margin)]
        if t.size >= 8:
            rates.append((branches[i], t, np.array([_rates(solution, branches[i], s) for s in t])))
    sharpest = max((values[:, -1].max() for _, _, values in rates), default=0.0)
    for branch, t, values in rates:
        change = np.ptp(solution.observe(branch.interpolate(t), t), axis=0)
        size = np.append(change, values[:, -1].max())
        if (values[:, -1] * solution.control_rate(t) ** 2).max() < ROUND_OFF:
            size[-1] = 0.0
        floor = SMALLEST_SHARE * np.append(spread, sharpest)
        for k, name in enumerate([*landscape.order_parameters, None]):
            if size[k] <= floor[k] or (name and name not in landscape.primary_parameters):
                continue
            peak = _highest_peak(
                lambda s, k=k, branch=branch: _rates(solution, branch, s)[k], t, values[:, k]
            )
            if peak is not None:
                what = f"|d{name}/{per_log}|" if name else f"|d²S/d{per}²|"
                yield Crossover(float(solution.control(peak)), name, f"largest {what}")


def _rates(solution: Solution, branch: Branch, t: float) -> np.ndarray:
    """|d order parameter/dt| for each, then |d2S/dcontrol2|, of the branch at t; shape (m + 1,)."""
    state = solve(solution.kern, solution.chart, branch.interpolate(t)[0], t)
    step = 1e-5
    pair = np.array([state["y"] + sign * step * state["y_dot"] for sign in (-1, 1)])
    low, high = solution.observe(pair, np.array([t - step, t + step]))
    bend = state["curvature"]
    if solution.landscape.control_scale == "log":
        bend = bend - np.ptp(np.asarray(solution.chart.control)) * state["slope"]
    return np.append(np.abs(high - low) / (2 * step), abs(bend) / solution.control_rate(t) ** 2)


def _highest_peak(rate: Callable[[float], float], t, values) -> float | None:
    """Where a rate has its highest interior maximum that stands out on both sides, or None."""
    inner = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])) + 1
    inner = [
        k for k in inner if values[k] > PROMINENCE * max(values[: k + 1].min(), values[k:].min())
    ]
    if not inner:
        return None
    k = max(inner, key=lambda k: values[k])
    best = minimize_scalar(
        lambda s: -rate(s), bounds=(t[k - 1], t[k + 1]), method="bounded", options={"xatol": 1e-9}
    )
    return float(best.x)
