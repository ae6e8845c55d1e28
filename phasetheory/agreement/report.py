"""Theory beside measurement: every row with its verdicts, and what has to be said besides."""

from collections.abc import Sequence
from dataclasses import dataclass

from phasetheory.agreement.measured import Dropped, Measurement, Row
from phasetheory.agreement.theory import COMPARED, Level, Prediction, compared_level, predictions
from phasetheory.agreement.values import Value
from phasetheory.agreement.verdict import Comparison, compare, judge, worst

#: verdicts that make the result incomplete
FAILURES = ("disagrees", "not converged")


@dataclass(frozen=True)
class JudgedRow:
    """A measured row with the verdict on each of its order parameters, and the worst of them."""

    row: Row
    comparisons: tuple[Comparison, ...]
    verdict: str


@dataclass(frozen=True)
class JudgedDrop:
    """A run that Adam's filter dropped.

    Attributes:
        run: itself.
        phase: the metastable minimum of theory that it agrees with; None if there is none.
    """

    run: Dropped
    phase: str | None


@dataclass(frozen=True)
class Agreement:
    """All of it.

    Attributes:
        measurement: what was measured, and how.
        levels: all levels of theory.
        level: name of the one that verdicts refer to; None where there is none.
        tolerance: relative difference that still counts as agreement.
        rows: one for each P and start.
        dropped: runs of Adam outside the lowest minimum.
        notes: what a reader must know.
        complete: whether all rows were measured.
    """

    measurement: Measurement
    levels: tuple[Level, ...]
    level: str | None
    tolerance: float
    rows: tuple[JudgedRow, ...]
    dropped: tuple[JudgedDrop, ...]
    notes: tuple[str, ...]
    complete: bool

    @property
    def compared(self) -> Level | None:
        """The level that verdicts refer to."""
        return next((level for level in self.levels if level.name == self.level), None)

    @property
    def failed(self) -> bool:
        """Whether a row disagrees or has not converged."""
        return any(row.verdict in FAILURES for row in self.rows)


def agreement(
    measurement: Measurement,
    levels: Sequence[Level],
    rows: Sequence[Row],
    tolerance: float,
    complete: bool = True,
) -> Agreement:
    """Judge measured rows by the levels of theory."""
    chosen = compared_level(measurement.method, levels)
    level = next((found for found in levels if found.name == chosen), None)
    names = compared_names(measurement, level)
    judged, dropped = [], []
    for row in rows:
        minima = [] if level is None else predictions(level, row.P)
        comparisons = tuple(
            compare(name, row.values.get(name), minima, tolerance, row.trouble) for name in names
        )
        judged.append(JudgedRow(row, comparisons, worst([c.verdict for c in comparisons])))
        dropped += [JudgedDrop(run, _match(run, minima, names, tolerance)) for run in row.dropped]
    return Agreement(
        measurement,
        tuple(levels),
        chosen,
        tolerance,
        tuple(judged),
        tuple(dropped),
        notes(measurement, levels, chosen),
        complete,
    )


def compared_names(measurement: Measurement, level: Level | None) -> tuple[str, ...]:
    """Order parameters that both sides have (all that are measured, where there is no theory)."""
    names = COMPARED[measurement.attention]
    if level is None or level.report is None:
        return names
    return tuple(name for name in names if name in level.report.landscape.order_parameters)


def notes(measurement: Measurement, levels: Sequence[Level], level: str | None) -> tuple[str, ...]:
    """What a reader of the numbers must know."""
    found = [f"level {x.name}: {x.note}" for x in levels if x.note]
    for x in levels:
        if x.report is not None:
            found += [f"level {x.name} is incomplete: {text}" for text in x.report.problems]
    if level is None:
        found.append(
            f"no level of theory predicts what {measurement.method} gives in this setting: the "
            "measured values are not compared"
        )
    elif level == "tree":
        found.append(
            "samples are compared with the level tree, which gives order parameters only roughly: "
            "the level meanfield does not cover this setting"
        )
    if not measurement.cyclic:
        found.append(
            "measured without wrap-around, while the theory is for positions on a ring: "
            "differences of relative order 1/L belong to that"
        )
    if measurement.attention == "linear" and level in ("tree", "meanfield"):
        found.append(
            "the sign of a measured network is fixed by alpha >= 0; theory gives the mean of "
            "x sign(alpha) for a Gaussian with its own mean and susceptibility, which is not zero "
            "in the disordered phase; its w_u, w and coverage are those at the minimum itself"
        )
    if measurement.method == "adam":
        found.append("Adam has no samples: errors are from the spread over data sets")
    if measurement.datasets == 1:
        found.append("one data set: errors hold the noise of the chains only, not that of the data")
    if measurement.halves:
        found.append(
            f"{measurement.method} has the bias of a finite step, 2 (mean - mean at half the "
            "step), measured in the same run and allowed for in the verdicts"
        )
    return tuple(found)


def _match(
    run: Dropped, minima: Sequence[Prediction], names: Sequence[str], tolerance: float
) -> str | None:
    """The metastable minimum whose order parameters, those named, a run has."""
    for found in minima[1:] if run.converged else ():
        verdicts = [
            judge(name, Value(run.observables[name], 0.0, 0.0, None), found.means[name], tolerance)
            for name in names
        ]
        if all(verdict != "disagrees" for verdict, _ in verdicts):
            return found.phase
    return None
