"""The level meanfield: linear attention with all its fluctuations, softmax attention row by row."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.marginal import data_gain, data_log_cost, marginal_steps
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    a,
    alpha,
    b,
    b_u,
    c_G,
    lam,
    q,
    r,
    sigma_g,
)

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


b_hat, q_hat = sp.symbols(r"\hat{b} \hat{q}", real=True)
#: sum of the squared weights of a row, and of the other tokens among themselves
n, n_others = sp.symbols("n n'", positive=True)
row_average = sp.Function("z")


@cache
def softmax_meanfield_derivation() -> Derivation:
    """The row-wise theory of softmax attention in b and q, with the average over one row.

    The step ``meanfield`` holds the action in ``b``, ``q`` and their fields ``b_hat``, ``q_hat``
    with ``z(b_hat, q_hat)`` left as a function; ``fields`` and ``rows`` say which fields belong to
    b and q, ``row``, ``row_density`` and ``row_contour`` how z is computed.
    """
    data = (data_log_cost() + data_gain()).subs({r: L, b_u: L})
    log_z = sp.log(row_average(b_hat, q_hat))
    s, l, g, y = sp.symbols("s l g y")
    x = sp.Symbol("x", positive=True)
    normal = sp.exp(-(g**2) / (2 * sigma_g**2)) / sp.sqrt(2 * sp.pi * sigma_g**2)
    weight = sp.exp(g - l)
    token = sp.Integral(normal * sp.exp(-s * y - x * y**2).subs(y, weight), (g, -sp.oo, sp.oo))
    phi = sp.Function("phi")
    density = sp.Function("f")
    atom = sp.log(a / (1 - a))
    own = (
        Step(
            "fields",
            "Fields on a row",
            r"The rows of $A$ meet the data only through $b$ and $q$ ($r = b_u = L$ for any "
            r"softmax). A change of $b$ or $q$ by one row costs the fields",
            sp.Tuple(
                sp.Eq(b_hat, -sp.diff(data, b), evaluate=False),
                sp.Eq(q_hat, sp.diff(data, q), evaluate=False),
            ),
            r"$\hat b = -\partial S_{\mathrm{data}}/\partial b$, "
            r"$\hat q = \partial S_{\mathrm{data}}/\partial q$.",
        ),
        Step(
            "meanfield",
            "Action at the level meanfield",
            r"With the average over a single row, $z(\hat b, \hat q) = \mathbb{E}_g\, "
            r"e^{\hat b a - \hat q n}$, where $a$ is its weight on the copied token and $n$ the "
            r"sum of its squared weights,",
            sp.Eq(sp.Symbol("F"), data + b_hat * b - q_hat * q - L * log_z, evaluate=False),
            r"Large deviations of the sums $b = \sum_i a_i$ and $q = \sum_i n_i$ over $L$ "
            r"independent rows: their probability is $e^{-I}$ with the Legendre transform "
            r"$I(b, q) = \sup(\hat b b - \hat q q - L \ln z)$, and $F = S_{\mathrm{data}} + I$. "
            r"A row may copy or not; no Gaussian around one logit describes both.",
        ),
        Step(
            "rows",
            "Self-consistency",
            r"At the supremum",
            sp.Tuple(
                sp.Eq(b, L * sp.diff(log_z, b_hat), evaluate=False),
                sp.Eq(q, -L * sp.diff(log_z, q_hat), evaluate=False),
            ),
            r"$\ln z$ is convex in $(\hat b, -\hat q)$, so the fields determine $b$ and $q$ one to "
            r"one and serve as coordinates in which the minima of $F$ are sought.",
        ),
        Step(
            "row",
            "The copied token apart",
            r"With the other tokens' weights among themselves and their $n'$,",
            sp.Eq(n, a**2 + (1 - a) ** 2 * n_others, evaluate=False),
            r"They share $1-a$ of the weight.",
        ),
        Step(
            "row_density",
            "Density of the copied weight",
            r"With $l$ the logarithm of $\sum e^{g}$ over the other tokens, the logit of the "
            r"copied token is",
            sp.Eq(g, atom + l, evaluate=False),
            r"$a = e^{g}/(e^{g} + e^{l})$. The density of $\ln\frac{a}{1-a}$ is that of $g$, "
            r"averaged over the density $f_x(l)$ of $l$ under the weight $e^{-x n'}$ with "
            r"$x = \hat q (1-a)^2$.",
        ),
        Step(
            "row_contour",
            "Density of the other tokens' sum",
            r"That density is",
            sp.Eq(
                density(x, l),
                sp.Integral(sp.exp(s) * phi(s) ** (L - 1), s) / (2 * sp.pi * sp.I),
                evaluate=False,
            ),
            r"Fourier representation of $\delta(1 - \sum y)$, $y = e^{g-l}$, which makes the "
            r"tokens independent; the integral runs parallel to the imaginary axis.",
        ),
        Step(
            "row_token",
            "One token",
            r"with the average over one token",
            sp.Eq(phi(s), token, evaluate=False),
            r"$n' = \sum y^2$ where $\sum y = 1$.",
        ),
    )
    return Derivation(
        key="softmax-meanfield",
        title="Softmax attention row by row",
        summary=(
            r"The action of softmax attention once every row is averaged exactly: rows meet only "
            r"through two sums over all of them."
        ),
        notation=(
            *MODEL_NOTATION,
            (a, "weight of a row on the copied token"),
            (n, "sum of the squared weights of a row"),
            (n_others, "that of the other tokens among themselves"),
            (b_hat, "field on $a$"),
            (q_hat, "field against $n$"),
            (l, r"$\ln\sum e^{g}$ over the other tokens"),
            (x, r"$\hat q (1-a)^2$"),
        ),
        steps=(*marginal_steps(), *own),
        finals=("meanfield", "rows"),
    )
