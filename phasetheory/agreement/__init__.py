"""Theory beside measurement: the same observables from both, with errors and a verdict.

The theory is that of `phasetheory.copytask` at all its levels, the measurement that of
`phasetheory.networks`; nothing here touches files (their paths are arguments) or the terminal.
"""

from phasetheory.agreement.measured import Measurement, Row, measure
from phasetheory.agreement.report import Agreement, agreement
from phasetheory.agreement.theory import Level, theory_levels

__all__ = [
    "Agreement",
    "Level",
    "Measurement",
    "Row",
    "agreement",
    "measure",
    "theory_levels",
]
