"""What a network of the copy task shows: losses and coverage, from the invariants of its attention.

Shared by both attentions and all levels. The losses are per position.
"""

from functools import cache

import sympy as sp

from phasetheory.symbolic.marginal import posterior_step, spectrum_step, total_M, trace_M
from phasetheory.symbolic.steps import Step
from phasetheory.symbolic.symbols import L, V, b, b_u, q, r, s

w_u, w = sp.symbols("w_u w", real=True)
v_u, v = sp.symbols("v_u v", positive=True)


@cache
def target_square_step() -> Step:
    # S^T S has the trace s L and the total s^2 L
    constant, rest = (
        e.rhs.subs({trace_M: s * L, total_M: s**2 * L}) for e in spectrum_step().value
    )
    square = sp.factor((constant + (V - 1) * rest) / L)
    return Step(
        "target_square",
        "The target's own square",
        r"A target that is the sum of $s$ tokens of the sequence, $Y = SX$, has per position the "
        r"mean square",
        sp.Eq(sp.Symbol(r"\overline{y^2}"), square, evaluate=False),
        r"$\mathbb{E}\|SX\|_F^2/L$ is the trace of $\mathbb{E}[X^{\top}S^{\top}SX]/L$ for "
        r"uniform tokens; one mode has $s^2$, the other $V-1$ have $s$, all divided by $V$.",
    )


@cache
def mean_predictor_loss_step() -> Step:
    # one eigenspace: E|y - A x w|^2 summed over its modes, with E[X^T X]/L = 1/V on each mode
    constant = s**2 * L - 2 * b_u * w_u + r * w_u**2
    rest = s * L - 2 * b * w + q * w**2
    value = (constant + (V - 1) * rest) / (L * V)
    return Step(
        "mean_predictor_loss",
        "Test loss of the posterior mean",
        r"On fresh sequences the predictor $A X \langle W\rangle$ has, per position, the loss",
        sp.Eq(sp.Symbol("ell_mean"), value, evaluate=False),
        r"$\mathbb{E}\|SX - AXW\|_F^2 / L$ with the moments of the tokens; on the eigenspaces of "
        r"$W$ the three terms have the totals $s^2L/V$ or $sL/V$, $b_u/V$ or $b/V$, and $r/V$ or "
        r"$q/V$.",
    )


@cache
def test_loss_step() -> Step:
    spread = r * V * v_u + (V - 1) * V * q * v
    value = mean_predictor_loss_step().value + spread / (L * V)
    return Step(
        "test_loss",
        "Test loss of a posterior sample",
        r"A sample of $W$ adds the variance of its entries:",
        sp.Eq(sp.Symbol("ell_test"), value, evaluate=False),
        r"Each of the $V$ columns of $W$ fluctuates with the variance $v_u$ along the constant "
        r"vector and $v$ along the $V-1$ other modes.",
    )


@cache
def posterior_values() -> dict[sp.Symbol, sp.Expr]:
    """w_u, w, v_u, v of `posterior_step` in lambda, r, q, b_u, b."""
    return dict(zip((w_u, w, v_u, v), (e.rhs for e in posterior_step().value), strict=True))
