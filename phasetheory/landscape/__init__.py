"""A general phase finder for smooth actions: it knows nothing of attention.

`find_phases` takes a `Landscape` (action, box, control range) and returns a `PhaseReport`: every
branch of minima and every transition of the global minimum, with its order decided from invariants.
"""

from phasetheory.landscape.critical_end import CriticalEnd, critical_end
from phasetheory.landscape.lines import Line, LineEvent, trace
from phasetheory.landscape.model import (
    BranchEnd,
    Crossover,
    Landscape,
    Phase,
    PhaseReport,
    State,
    Transition,
)
from phasetheory.landscape.own import landscape_from_expression
from phasetheory.landscape.phases import find_phases, lowest_minima, states_at
from phasetheory.landscape.tricritical import TricriticalPoint, tricritical_point

__all__ = [
    "BranchEnd",
    "CriticalEnd",
    "Crossover",
    "Landscape",
    "Line",
    "LineEvent",
    "Phase",
    "PhaseReport",
    "State",
    "Transition",
    "TricriticalPoint",
    "critical_end",
    "find_phases",
    "landscape_from_expression",
    "lowest_minima",
    "states_at",
    "trace",
    "tricritical_point",
]
