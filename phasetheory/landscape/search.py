"""Finding minima from scratch: many descents at many controls at once."""

from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from phasetheory.errors import ActionError
from phasetheory.landscape.kernels import BATCH, Chart


@dataclass(frozen=True)
class Found:
    """Minima found by descents, in scaled coordinates.

    y (K, n), t (K,), action (K,), hessian (K, n, n); `on_bound` (K,): on a wall of the box.
    """

    y: np.ndarray
    t: np.ndarray
    action: np.ndarray
    hessian: np.ndarray
    on_bound: np.ndarray

    def select(self, rows) -> "Found":
        return Found(*(getattr(self, f.name)[rows] for f in fields(self)))

    def join(self, other: "Found") -> "Found":
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Found(*(np.concatenate(pair) for pair in pairs))


def in_batches(kernel, chart: Chart, y: np.ndarray, t) -> dict[str, np.ndarray]:
    """Run a batched kernel on any number of points, always in batches of one size."""
    t = np.broadcast_to(np.asarray(t, float), (len(y),))
    parts = []
    for first in range(0, len(y), BATCH):
        rows = np.arange(first, first + BATCH) % len(y)
        part = kernel(y[rows], t[rows], chart)
        part = part if isinstance(part, dict) else {"value": part}
        keep = min(BATCH, len(y) - first)
        parts.append({name: np.asarray(v)[:keep] for name, v in part.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def spread_points(count: int, dimension: int, offset: int = 0) -> np.ndarray:
    """Evenly spread points in the unit cube, shape (count, dimension): Roberts' R sequence."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimension + 1))
    steps = root ** -np.arange(1.0, dimension + 1)
    return (0.5 + np.outer(np.arange(1 + offset, count + 1 + offset), steps)) % 1.0


def descend(kern, chart: Chart, y: np.ndarray, t: np.ndarray) -> Found:
    """Run a descent from each start; those that end at a saddle or do not converge are dropped."""
    t = np.broadcast_to(np.asarray(t, float), (len(y),))
    near = in_batches(kern.approach, chart, y, t)["value"]
    out = in_batches(kern.polish, chart, near, t)
    w = np.linalg.eigvalsh(np.nan_to_num(out["hessian"]))
    # a flat direction of a continuous symmetry has w = 0 up to round-off
    stable = w[:, 0] >= -1e-7 * np.abs(w).max(axis=1)
    good = out["done"] & np.isfinite(out["action"]) & (stable | out["on_bound"])
    found = Found(out["y"], t, out["action"], out["hessian"], out["on_bound"])
    return found.select(good)


def starts_in_box(chart: Chart, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts spread over box and range: half evenly, half over six decades around the middle."""
    box = np.asarray(chart.box)
    points = spread_points(count, len(box) + 1)
    middle, half = box.mean(axis=1), (box[:, 1] - box[:, 0]) / 2
    offsets = (2 * points[:, :-1] - 1) * half
    shrink = np.where(np.arange(count) % 2 == 0, 1.0, 10.0 ** -(np.arange(count) // 2 % 25 / 4))
    return middle + shrink[:, None] * offsets, points[:, -1]


def starts_around(chart: Chart, found: Found, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts around and between minima already found, at distances over four decades."""
    box = np.asarray(chart.box)
    n = len(box)
    i = np.arange(count) * 7919 % len(found.t)
    j = np.arange(count) * 104729 % len(found.t)
    points = spread_points(count, n + 1, offset=count)
    reach = 2.0 * 10.0 ** -(np.arange(count) % 17 / 4)
    mix = np.where(np.arange(count) % 3 == 0, points[:, -1], 1.0)[:, None]
    y = mix * found.y[i] + (1 - mix) * found.y[j]
    y = y + reach[:, None] * (2 * points[:, :-1] - 1)
    return np.clip(y, box[:, 0], box[:, 1]), found.t[i]


def check_finite(kern, chart: Chart, variables, control_of) -> None:
    """Refuse an action that is not finite somewhere in the box.

    Raises:
        ActionError: naming the place.
    """
    box = np.asarray(chart.box)
    points = spread_points(4096, len(box) + 1)
    y = box[:, 0] + (box[:, 1] - box[:, 0]) * points[:, :-1]
    t = points[:, -1]
    if len(box) <= 6:
        corners = np.array(list(product(*box)))
        y = np.concatenate([y, *([corners] * 3)])
        t = np.concatenate([t, np.repeat([0.0, 0.5, 1.0], len(corners))])
    bad = np.flatnonzero(~np.isfinite(in_batches(kern.value, chart, y, t)["value"]))
    if bad.size:
        x = y[bad[0]] * np.asarray(chart.scale)
        place = ", ".join(f"{v} = {value:.6g}" for v, value in zip(variables, x, strict=True))
        raise ActionError(
            f"the action is not finite everywhere in the box, for example at {place}, "
            f"{control_of(t[bad[0]])}; give bounds inside which it is defined"
        )
