"""Derivations in SymPy: the moments of the task, the marginal over W, and the effective actions.

Everything here is symbolic: no arrays, no files, no terminal. Each derivation is a list of `Step`s
(statement, expression, justification); the numbers of the library come from compiling these
expressions (`phasetheory.landscape.lowering`), and `typeset` prints them for reading.
"""

from phasetheory.symbolic.expressions import parse_expression
from phasetheory.symbolic.functions import logistic
from phasetheory.symbolic.heads import heads_derivation
from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.meanfield import (
    linear_meanfield_derivation,
    softmax_meanfield_derivation,
)
from phasetheory.symbolic.softmax import softmax_derivation
from phasetheory.symbolic.sparse import sparse_derivation
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.thresholds import thresholds_derivation
from phasetheory.symbolic.tokens import tokens_derivation

__all__ = [
    "Derivation",
    "Step",
    "heads_derivation",
    "linear_derivation",
    "linear_meanfield_derivation",
    "logistic",
    "parse_expression",
    "softmax_derivation",
    "softmax_meanfield_derivation",
    "sparse_derivation",
    "thresholds_derivation",
    "tokens_derivation",
]
