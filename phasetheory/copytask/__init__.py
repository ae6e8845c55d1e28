"""The theory of the copy head: settings of the copy task and its actions as landscapes.

The formulas live in `phasetheory.symbolic`; here they are compiled, given their parameters, a box
and a range of P, and handed to the phase finder. Nothing here knows about training.
"""

from phasetheory.copytask.levels import ATTENTIONS, LEVELS, landscape, typical_range
from phasetheory.copytask.setting import Setting

__all__ = ["ATTENTIONS", "LEVELS", "Setting", "landscape", "typical_range"]
