"""phasetheory: how much data an attention circuit needs before it appears, and how suddenly.

From a model of attention to the data at which a capability appears: derived symbolically
(`phasetheory.symbolic`), solved numerically (`phasetheory.landscape`), with the theory of the copy
head (`phasetheory.copytask`) as the first application.
"""

__version__ = "0.1.0"
