"""The theory of the copy head: settings of the copy task and its actions as landscapes.

The formulas live in `phasetheory.symbolic`; here they are compiled, given their parameters, a box
and a range of P, and handed to the phase finder. Nothing here knows about training.
"""

from phasetheory.copytask.levels import ATTENTIONS, LEVELS, landscape
from phasetheory.copytask.scales import typical_range
from phasetheory.copytask.setting import Setting
from phasetheory.copytask.tokens import from_counts, parse_tokens, zipf

__all__ = [
    "ATTENTIONS",
    "LEVELS",
    "Setting",
    "from_counts",
    "landscape",
    "parse_tokens",
    "typical_range",
    "zipf",
]
