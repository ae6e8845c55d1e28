"""Linear attention at the level meanfield: with the fluctuations of all L^2 directions."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.marginal import data_gain, data_log_cost
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import LAMBDA, L, alpha, b, b_u, c_G, lam, q, r, sigma_g

rho2, tau2 = sp.symbols("rho^2 tau^2", positive=True)


@cache
def linear_meanfield_derivation() -> Derivation:
    """The action of linear attention with its fluctuations, and their saddle without data.

    The step ``meanfield`` holds the action in ``alpha, c_G, rho2, tau2`` (pure numbers, nats),
    which vanishes at the saddle without data; ``invariants`` holds r, q, b_u, b.
    """
    rows, rest = L - 1, L**2 - L - 1
    invariants = {
        r: L * (alpha**2 + rho2),
        q: alpha**2 + rho2 + (L - 1) * c_G**2 + tau2,
        b_u: L * alpha,
        b: alpha + (L - 1) * c_G,
    }
    prior = L**2 * invariants[q] / (2 * sigma_g**2)
    free = {}
    for size, variance in ((rows, rho2), (rest, tau2)):
        stationary = sp.diff(prior - size * sp.log(variance) / 2, variance)
        free[variance] = sp.factor(sp.solve(stationary, variance)[0])
    entropy = sum(
        size * (sp.log(variance / free[variance]) + 1) / 2
        for size, variance in ((rows, rho2), (rest, tau2))
    )
    data = (data_log_cost() + data_gain()).subs(invariants).subs(lam, LAMBDA)
    own = (
        Step(
            "invariants",
            "Fluctuations",
            r"Beside $\alpha$ and $c_G$, $A$ has $L-1$ directions that change its row sums, with "
            r"the mean square $\rho^2$, and $L^2-L-1$ others, with $\tau^2$. Its invariants are",
            sp.Tuple(*(sp.Eq(s, value, evaluate=False) for s, value in invariants.items())),
            r"$A\mathbf{1} = \alpha\mathbf{1} + \delta$ with $\|\delta\|^2 = L\rho^2$; a change of "
            r"the row sums alone adds $\rho^2$ to $\|A\|_F^2$, the other directions add $\tau^2$.",
        ),
        Step(
            "free",
            "Without data",
            r"Under the prior alone the action is stationary at",
            sp.Tuple(*(sp.Eq(s, value, evaluate=False) for s, value in free.items())),
            r"Prior energy $L^2 q/2\sigma_g^2$ minus the logarithm of the volume at fixed "
            r"$\rho^2$ and $\tau^2$.",
        ),
        Step(
            "meanfield",
            "Action at the level meanfield",
            r"With the volumes of the fluctuating directions, and zero without data,",
            sp.Eq(sp.Symbol("S_mf"), prior + data - entropy, evaluate=False),
            r"$d$ directions of mean square $\rho^2$ have a volume proportional to "
            r"$(\rho^2)^{d/2}$ at large $d$. $\rho^2$ and $\tau^2$ are then put at their saddle.",
        ),
    )
    base = linear_derivation()
    return Derivation(
        key="linear-meanfield",
        title="Linear attention with its fluctuations",
        summary=(
            r"The action of pooling and copying once all other directions of the attention matrix "
            r"are integrated out at large $L$."
        ),
        notation=(
            *base.notation,
            (rho2, "mean square of the fluctuations of the row sums"),
            (tau2, "mean square of the other fluctuations of $A$, times $L$ per row"),
        ),
        steps=(*base.steps[:7], *own),
        finals=("meanfield",),
    )
