"""Points and line ends of diagrams of the copy task over two of its settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from phasetheory.copytask.setting import Setting
from phasetheory.copytask.thresholds import BATCHED_LEVELS, QUANTITIES, thresholds
from phasetheory.errors import InputError
from phasetheory.landscape.diagram import ORDERS

#: settings that an axis may vary, and those of them that are whole numbers
AXES = ("L", "V", "kappa", "var_g", "var_w", "ones", "head_dimension")
WHOLE = ("L", "V", "ones", "head_dimension")
#: halvings of a bracket: to the last digits of a double
HALVINGS = 44


def settings_at(points: dict[str, np.ndarray], base: Setting) -> list[Setting]:
    """A setting for each point; `points` maps names of settings to arrays (B,).

    Raises:
        InputError: for an axis that is no setting, or a value out of range.
    """
    for name in points:
        if name not in AXES:
            raise InputError(f"an axis is {', '.join(AXES)}, not {name!r}")
        if name in WHOLE and (points[name] % 1).any():
            raise InputError(f"{name} takes whole numbers only")
    size = len(next(iter(points.values())))
    return [
        replace(
            base,
            **{n: int(v[i]) if n in WHOLE else float(v[i]) for n, v in points.items()},
        )
        for i in range(size)
    ]


def transition_points(
    points: dict[str, np.ndarray], configuration: dict[str, Any]
) -> dict[str, np.ndarray]:
    """The transition at each point, for a sweep (see `phasetheory.sweeps.Plan`).

    Args:
        configuration: "attention", "level", "quantity" and "setting" (fields of `Setting`).

    Returns:
        Arrays (B,): "order" (index in `ORDERS`), "control" (P*), "error", "jump" (of the first
        order parameter in `Thresholds.names`), "spinodal_low", "spinodal_high", "barrier",
        "status".
    """
    found = thresholds(
        configuration["attention"],
        settings_at(points, Setting(**configuration["setting"])),
        configuration["level"],
        configuration["quantity"],
    )
    order = np.array([ORDERS.index(o if o != "not_found" else "none") for o in found.order])
    return {
        "order": order,
        "control": found.P,
        "error": found.error,
        "jump": np.where(found.order == "first", found.high[:, 0] - found.low[:, 0], 0.0),
        "spinodal_low": found.spinodals[:, 0],
        "spinodal_high": found.spinodals[:, 1],
        "barrier": found.barrier,
        "status": np.where(found.order == "not_found", 2, 1),
    }


@dataclass(frozen=True)
class LineEnds:
    """Critical ends of the first-order surface, one for each of N brackets.

    Attributes:
        value, error: (N,) of the bracketed setting, and a bound on its numerical error.
        P: (N,) number of sequences there.
        weight: (N,) the weight a on the copied token there.
    """

    value: np.ndarray
    error: np.ndarray
    P: np.ndarray
    weight: np.ndarray


def line_ends(
    attention: str,
    level: str,
    settings: Sequence[Setting],
    parameter: str,
    brackets: np.ndarray,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> LineEnds:
    """Where the transition ceases to be of first order, for many settings at once.

    The batched solver tells a fold of the curve of stationary points exactly, so bisection on the
    order converges to the end of the line itself. The levels "tree" and "map" only;
    `phasetheory.landscape.critical_end` serves any landscape, one at a time.

    Args:
        parameter: a continuous setting: "kappa", "var_g" or "var_w".
        brackets: (N, 2) positive values of it, with different orders at their ends.

    Raises:
        InputError: for a level or parameter that it does not serve.
    """
    if level not in BATCHED_LEVELS or not all(s.plain for s in settings):
        raise InputError(f"ends of lines in batches need plain settings at {BATCHED_LEVELS}")
    if parameter in WHOLE or parameter not in (f.name for f in fields(Setting)):
        raise InputError(f"{parameter} is no continuous setting")
    low, high = np.log(np.asarray(brackets, float)).T

    def solve(logs):
        varied = [
            replace(s, **{parameter: float(np.exp(x))}) for s, x in zip(settings, logs, strict=True)
        ]
        return thresholds(attention, varied, level, QUANTITIES[attention][0])

    first_low = solve(low).order == "first"
    for k in range(HALVINGS):
        middle = (low + high) / 2
        same = (solve(middle).order == "first") == first_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        progress(k + 1, HALVINGS)
    at = solve(np.where(first_low, high, low))  # the side of the crossover, a single state
    value = np.exp((low + high) / 2)
    return LineEnds(value, value * (high - low), at.P, (at.low[:, 0] + at.high[:, 0]) / 2)
