"""Points and line ends of diagrams of any landscape, over one or two of its parameters."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phasetheory.errors import InputError, PhaseTheoryError
from phasetheory.landscape.critical_end import critical_end
from phasetheory.landscape.model import Landscape
from phasetheory.landscape.own import landscape_from_text
from phasetheory.landscape.phases import find_phases
from phasetheory.landscape.tricritical import tricritical_point

#: codes of the order of a transition
ORDERS = ("none", "first", "second", "crossover", "tricritical", "undetermined")


def with_parameters(landscape: Landscape, values: dict[str, float]) -> Landscape:
    """The landscape at other values of some of its parameters.

    Raises:
        InputError: if it has no parameter of a name.
    """
    for name in values:
        if name not in landscape.parameters:
            known = ", ".join(landscape.parameters) or "none"
            raise InputError(f"{landscape.name} has no parameter {name!r}; it has {known}")
    return replace(landscape, parameters={**landscape.parameters, **values})


def transition_points(
    points: dict[str, np.ndarray], configuration: dict[str, Any]
) -> dict[str, np.ndarray]:
    """The transition at each point, for a sweep (see `phasetheory.sweeps.Plan`).

    Args:
        configuration: "text" of a TOML file (`load_landscape`), and its "name".

    Returns:
        As `phasetheory.copytask.diagram.transition_points`; where there are several transitions,
        the one with the largest jump. Points whose result is incomplete are undetermined.
    """
    base = landscape_from_text(configuration["text"], configuration["name"])
    rows = []
    for i in range(len(next(iter(points.values())))):
        values = {name: float(column[i]) for name, column in points.items()}
        rows.append(_row(find_phases(with_parameters(base, values))))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _row(report) -> dict[str, float]:
    status = 1 if report.status == "complete" else 3
    if not report.transitions:
        empty = dict.fromkeys(
            ("control", "error", "jump", "spinodal_low", "spinodal_high", "barrier"), np.nan
        )
        return {"order": 0, **empty, "status": 2 if status == 1 else 3}
    t = max(report.transitions, key=lambda t: t.jump)
    first = t.order == "first"
    spinodals = [np.nan if s is None else s for s in t.spinodals]
    return {
        "order": ORDERS.index(t.order),
        "control": t.control,
        "error": t.control_error,
        "jump": t.jump if first else 0.0,
        "spinodal_low": spinodals[0] if first else np.nan,
        "spinodal_high": spinodals[1] if first else np.nan,
        "barrier": t.barrier if first and t.barrier is not None else np.nan,
        "status": status,
    }


@dataclass(frozen=True)
class LineEnd:
    """Where a line of transitions ends or changes its order.

    Attributes:
        kind: "critical end" or "tricritical".
        at: values of all parameters that the diagram varies; `parameter` was solved for.
        parameter, error: its name, and a bound on the numerical error of its value.
        control, control_error: likewise.
    """

    kind: str
    at: dict[str, float]
    parameter: str
    error: float
    control: float
    control_error: float


def solve_end(
    family: Callable[[float], Landscape],
    parameter: str,
    bracket: tuple[float, float],
    orders: tuple[str, str],
    fixed: dict[str, float],
) -> LineEnd | str:
    """The end of a line between two points of a diagram, or a sentence saying why there is none."""
    try:
        if set(orders) <= {"first", "second", "tricritical"}:
            kind, found = "tricritical", tricritical_point(family, bracket)
        else:
            kind, found = "critical end", critical_end(family, bracket)
    except PhaseTheoryError as error:
        return str(error)
    return LineEnd(
        kind,
        {**fixed, parameter: found.parameter},
        parameter,
        found.parameter_error,
        found.control,
        found.control_error,
    )


def brackets(order: np.ndarray, values: np.ndarray) -> list[tuple[int, int]]:
    """Neighbours along the last axis between which a line of first order ends.

    Args:
        order: (..., N) codes of `ORDERS`.
        values: (N,) ascending.

    Returns:
        (flat index over the leading axes, index k): the end lies between ``k`` and ``k + 1``.
    """
    first = np.reshape(order, (-1, len(values))) == ORDERS.index("first")
    known = np.reshape(order, (-1, len(values))) != ORDERS.index("undetermined")
    changes = (first[:, 1:] != first[:, :-1]) & known[:, 1:] & known[:, :-1]
    return [(int(i), int(k)) for i, k in zip(*np.nonzero(changes), strict=True)]
