"""Whether theory and measurement agree, for one order parameter at one P."""

from collections.abc import Sequence
from dataclasses import dataclass

from phasetheory.agreement.theory import Prediction
from phasetheory.agreement.values import Value

#: standard errors that a difference may have
ERRORS = 3.0
#: difference in alpha, c_1 and c_G that counts as agreement within tolerance: they may vanish
ABSOLUTE = 0.01
#: verdicts, from good to bad
VERDICTS = (
    "agrees",
    "agrees within tolerance",
    "not compared",
    "metastable",
    "disagrees",
    "not converged",
)


@dataclass(frozen=True)
class Comparison:
    """One order parameter beside its theory.

    Attributes:
        name: of the order parameter.
        measured: what was measured; None where nothing was.
        theory: that of the equilibrium, or of the minimum that was matched.
        phase: its id.
        difference: measured minus theory.
        allowed: ``3 standard errors + |bias|``.
        verdict: one of `VERDICTS`.
        text: the verdict in words, with its number or its reason.
    """

    name: str
    measured: Value | None
    theory: float | None
    phase: str | None
    difference: float | None
    allowed: float | None
    verdict: str
    text: str


def compare(
    name: str,
    value: Value | None,
    minima: Sequence[Prediction],
    tolerance: float,
    trouble: str = "",
) -> Comparison:
    """Hold one measured order parameter against all minima of a level.

    Args:
        minima: the equilibrium first; empty where there is no theory.
        tolerance: relative difference that still counts as agreement.
        trouble: why the run as a whole has not converged, if it has not.
    """
    minima = [m for m in minima if name in m.means]
    equilibrium = minima[0] if minima else None
    trouble = trouble or ("nothing was measured" if value is None else value.trouble)
    if trouble:
        return _comparison(name, value, equilibrium, "not converged", f"not converged: {trouble}")
    if equilibrium is None or value is None:
        return _comparison(name, value, None, "not compared", "no theory")
    for minimum in minima:
        verdict, text = judge(name, value, minimum.means[name], tolerance)
        if verdict == "disagrees":
            continue
        if not minimum.stable:
            verdict, text = "metastable", f"metastable ({minimum.phase})"
        return _comparison(name, value, minimum, verdict, text)
    return _comparison(name, value, equilibrium, "disagrees", "disagrees")


def judge(name: str, value: Value, theory: float, tolerance: float) -> tuple[str, str]:
    """A verdict on one difference, and its text: `agrees` within three standard errors and the
    stated bias, else `agrees within tolerance`, else `disagrees`."""
    difference = abs(value.mean - theory)
    if difference <= ERRORS * value.error + abs(value.bias or 0.0):
        return "agrees", "agrees"
    if difference <= tolerance * abs(theory):
        return "agrees within tolerance", f"agrees within {100 * difference / abs(theory):.1f} %"
    if name in ("alpha", "c_1", "c_G") and difference <= ABSOLUTE:
        return "agrees within tolerance", f"agrees within {difference:.4f}"
    return "disagrees", "disagrees"


def worst(verdicts: Sequence[str]) -> str:
    """The worst of some verdicts."""
    return max(verdicts, key=VERDICTS.index, default="not compared")


def _comparison(
    name: str, value: Value | None, minimum: Prediction | None, verdict: str, text: str
) -> Comparison:
    theory = None if minimum is None else minimum.means[name]
    phase = None if minimum is None else minimum.phase
    if value is None or theory is None:
        return Comparison(name, value, theory, phase, None, None, verdict, text)
    allowed = ERRORS * value.error + abs(value.bias or 0.0)
    return Comparison(name, value, theory, phase, value.mean - theory, allowed, verdict, text)
