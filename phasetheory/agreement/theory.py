"""What each level of theory says at the measured numbers of sequences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phasetheory.agreement.folding import folded
from phasetheory.copytask import Setting, landscape, typical_range
from phasetheory.errors import ActionError, InputError
from phasetheory.landscape import find_phases
from phasetheory.landscape.model import PhaseReport, State
from phasetheory.landscape.phases import states_at

LEVELS = ("map", "tree", "meanfield")
#: order parameters that get a verdict where both sides have them
COMPARED = {"linear": ("alpha", "c_1", "c_G", "q"), "softmax": ("a", "q")}


@dataclass(frozen=True)
class Level:
    """One level of theory.

    Attributes:
        name: "map", "tree" or "meanfield".
        report: phases and transitions; None where the level says nothing of the setting.
        states: P -> all minima there, the equilibrium first.
        note: why there is no report.
    """

    name: str
    report: PhaseReport | None
    states: dict[int, list[State]]
    note: str = ""


@dataclass(frozen=True)
class Prediction:
    """A minimum in the statistics that networks are measured in.

    Attributes:
        phase: its id.
        stable: whether it is the equilibrium.
        means, variances: of the order parameters, by name; no variances at the level map, where
            nothing fluctuates.
        observables: further ones, by name.
        action: in nats.
    """

    phase: str
    stable: bool
    means: dict[str, float]
    variances: dict[str, float]
    observables: dict[str, float]
    action: float


def theory_range(attention: str, setting: Setting, P: Sequence[int]) -> tuple[float, float]:
    """The typical range of P, widened to hold all of `P`."""
    low, high = typical_range(attention, setting)
    return min(low, min(P) / 1.5), max(high, max(P) * 1.5)


def theory_levels(
    attention: str,
    setting: Setting,
    P: Sequence[int],
    progress: Callable[[str], None] = lambda name: None,
) -> tuple[Level, ...]:
    """All levels of theory at the given numbers of sequences, in the order of `LEVELS`.

    Args:
        progress: told the name of a level that is about to be solved.
    """
    levels = []
    for name in LEVELS:
        progress(name)
        try:
            found = landscape(attention, setting, name, theory_range(attention, setting, P))
            report = find_phases(found)
        except (InputError, ActionError) as error:  # not covered: the other levels still stand
            levels.append(Level(name, None, {}, str(error)))
            continue
        levels.append(Level(name, report, {p: states_at(report, p) for p in P}))
    return tuple(levels)


def compared_level(method: str, levels: Sequence[Level]) -> str | None:
    """The level that a method is held against: map for Adam; for samplers meanfield, or tree where
    meanfield does not cover the setting; None if there is none."""
    known = {level.name for level in levels if level.report is not None}
    wanted = ("map",) if method == "adam" else ("meanfield", "tree")
    return next((name for name in wanted if name in known), None)


def predictions(level: Level, P: int) -> list[Prediction]:
    """The minima of a level at P as they are measured, the equilibrium first.

    The order parameters of linear attention are folded (`folding`); at the level map, where nothing
    fluctuates, only their sign is fixed.
    """
    report = level.report
    if report is None:
        return []
    names, found = report.landscape.order_parameters, []
    for place, state in enumerate(level.states.get(P, [])):
        means, variances = as_measured(
            level.name, names, state.order_parameters, state.susceptibility
        )
        found.append(
            Prediction(
                state.phase,
                place == 0,
                dict(zip(names, means.tolist(), strict=True)),
                {} if level.name == "map" else dict(zip(names, variances.tolist(), strict=True)),
                _observables(report, state),
                state.action,
            )
        )
    return found


def _observables(report: PhaseReport, state: State) -> dict[str, float]:
    """Observables by name; where the weights do not fluctuate, the test loss is that of their
    mean."""
    found = dict(zip(report.landscape.observables, state.observables.tolist(), strict=True))
    return {"test_loss": found["test_loss_mean"], **found}


def as_measured(level: str, names: Sequence[str], means, covariance):
    """Means and variances of order parameters in the sign convention of measured networks.

    Args:
        names: of the m order parameters.
        means: shape (..., m).
        covariance: the susceptibility, shape (..., m, m).

    Returns:
        Means and variances, shape (..., m).
    """
    means, covariance = np.asarray(means, float), np.asarray(covariance, float)
    spread = np.zeros_like(covariance) if level == "map" else covariance
    if "alpha" not in names:
        return means, np.diagonal(spread, axis1=-2, axis2=-1)
    sign = list(names).index("alpha")
    turned, variance = folded(means, spread, sign)
    if "q" in names:  # quadratic in A: the sign leaves it alone
        q = list(names).index("q")
        turned[..., q] = means[..., q]
        variance[..., q] = spread[..., q, q]
    return turned, variance
