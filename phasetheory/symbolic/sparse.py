"""Sparse targets: the target is the sum of s tokens of the sequence instead of one."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.linear import linear_parts
from phasetheory.symbolic.marginal import marginal_steps
from phasetheory.symbolic.observables import target_square_step
from phasetheory.symbolic.softmax import softmax_parts
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    V,
    a,
    a_1,
    a_G,
    alpha,
    b,
    b_u,
    c_1,
    c_G,
    g_1,
    h,
    kappa,
    lam,
    q,
    r,
    s,
    sigma_g,
)
from phasetheory.symbolic.thresholds import coexistence, softmax_point, z

#: the logarithms of the marginal over W in units of the prior's coefficient of h^2
epsilon = sp.Symbol("epsilon", positive=True)


@cache
def sparse_derivation() -> Derivation:
    """Both attentions at ``map`` and ``tree`` for a target with s ones in every row.

    Steps: ``linear_ansatz``, ``linear_map``, ``linear_tree`` in alpha and c_G; ``weight``,
    ``order_parameters``, ``ansatz``, ``softmax_map``, ``softmax_tree`` in h, in nats up to the
    constant ``P y^2/2 kappa`` of the step ``target_square``; then the first-order point of softmax
    attention at large L: ``point_map`` and ``point_tree`` (h and P as functions of z), ``point_z``
    (the lambda and the L that belong to z), ``lambert`` and ``limit``. At s = 1 the actions are
    those of `linear_derivation` and `softmax_derivation`.
    """
    linear_point, linear = linear_parts(s)
    softmax = softmax_parts(s)

    def at_alpha(action: sp.Expr) -> sp.Expr:
        return action.subs(linear_point).subs(lam, LAMBDA)

    def equations(values: dict) -> sp.Tuple:
        return sp.Tuple(*(sp.Eq(x, values[x], evaluate=False) for x in (r, q, b_u, b)))

    own = (
        target_square_step(),
        Step(
            "linear_ansatz",
            "Order parameters of linear attention",
            r"Exchanging, within a row of $A$, copied tokens with each other or the other tokens "
            r"with each other leaves the action unchanged, and so does relabelling the rows. The "
            r"symmetric matrices are $A = c_1 J + c_G S$. With $\alpha = c_1 + s c_G$, the row "
            r"sum, their invariants are",
            equations(linear_point),
            r"$r, q, b_u, b$ depend on a row only through its sum, its sum over the copied tokens "
            r"and its square. $JS = sJ$, $\operatorname{tr}(S^{\top}S) = sL$ and "
            r"$\|S\mathbf{1}\|^2 = s^2L$ give the invariants.",
        ),
        Step(
            "linear_map",
            "Linear attention at the level map",
            r"The energy is",
            sp.Eq(sp.Symbol("S_map"), at_alpha(linear["map"]), evaluate=False),
            r"Prior energy $L^2q/2\sigma_g^2$ and the fit of the best $W$.",
        ),
        Step(
            "linear_tree",
            "Linear attention at the level tree",
            r"The effective action is",
            sp.Eq(sp.Symbol("S_tree"), at_alpha(linear["tree"]), evaluate=False),
            r"Prior energy plus the marginal over $W$.",
        ),
        Step(
            "logits",
            "Symmetric logits of softmax attention",
            r"The prior energy of $G = g_1\mathbf{1}\mathbf{1}^{\top} + hS$ is",
            sp.Eq(sp.Symbol("E"), softmax.energy, evaluate=False),
            r"$\|\mathbf{1}\mathbf{1}^{\top}\|_F^2 = L^2$, "
            r"$\operatorname{tr}(\mathbf{1}\mathbf{1}^{\top}S) = sL$, $\|S\|_F^2 = sL$.",
        ),
        Step(
            "prior",
            "Integrating out the gauge direction",
            r"Softmax ignores $g_1$; integrating it out leaves, up to a constant,",
            sp.Eq(sp.Symbol("S_prior"), softmax.prior, evaluate=False),
            r"Gaussian integral over $g_1$ around its maximum at $g_1 = -sh/L$.",
        ),
        Step(
            "weight",
            "Row normalisation",
            r"Each row gives each of its $s$ copied tokens the weight",
            sp.Eq(a, softmax.weight, evaluate=False),
            r"$a = e^h/(se^h + L - s)$, written with the logistic function.",
        ),
        Step(
            "order_parameters",
            "Order parameters of softmax attention",
            r"In the form $A = a_1 J + a_G S/s$ the row sums are one, and",
            sp.Tuple(
                sp.Eq(a_G, softmax.copying, evaluate=False), sp.Eq(a_1, 1 - a_G, evaluate=False)
            ),
            r"$a = a_1/L + a_G/s$ with $a_1 + a_G = 1$; at $s = L$ copying would be pooling.",
        ),
        Step(
            "ansatz",
            "Invariants of the rows",
            r"At this attention matrix the invariants are",
            equations(softmax.row),
            r"The weights $a$ on $s$ tokens and $(1-sa)/(L-s)$ on the others.",
        ),
        Step(
            "softmax_map",
            "Softmax attention at the level map",
            r"The energy is",
            sp.Eq(sp.Symbol("S_map"), softmax.map, evaluate=False),
            r"Prior energy and the fit of the best $W$.",
        ),
        Step(
            "softmax_tree",
            "Softmax attention at the level tree",
            r"The effective action of the copy logit is",
            sp.Eq(sp.Symbol("S_tree"), softmax.tree, evaluate=False),
            r"Prior energy plus the marginal over $W$.",
        ),
    )
    return Derivation(
        key="sparse",
        title="Sparse targets: several copied tokens per row",
        summary=(
            r"The target is $Y = SX$ with $s$ ones in every row and column of $S$, for example the "
            r"sum of $s$ cyclic shifts: each $y_i$ is the sum of $s$ tokens. For $s = 1$ this is "
            r"the copy task. Only the number of ones matters, not where they are."
        ),
        notation=(
            *((x, meaning) for x, meaning in MODEL_NOTATION if x != "S"),
            ("S", "target matrix, $s$ ones in every row and column; $Y = S X$"),
            (s, "number of copied tokens per row, below $L$"),
            (c_1, "order parameter of uniform pooling, linear attention"),
            (c_G, "order parameter of copying, linear attention"),
            (alpha, r"$c_1 + s c_G$, the mean row sum of $A$"),
            (g_1, "gauge part of the logits, ignored by softmax"),
            (h, "copy logit, relative to the other logits of its row"),
            (a, "attention weight on each copied token"),
            (a_G, "order parameter of copying, softmax attention"),
            (a_1, "order parameter of uniform pooling, softmax attention"),
            (epsilon, "weight of the logarithms against the prior of the logit"),
            (z, r"$\lambda(q - 1)/(1 + \lambda)$, what copying adds to the strength of a mode"),
        ),
        steps=(*marginal_steps(), *own, *_threshold_steps(softmax)),
        finals=("softmax_tree", "linear_tree", "point_tree", "point_z", "lambert", "limit"),
    )


def _threshold_steps(softmax) -> tuple[Step, ...]:
    """The first-order point of softmax attention for s much below L."""
    prior = sp.limit(softmax.prior / L, L, sp.oo) * L
    # D = P s (V - 1)/(2 kappa V): all of the target but the constant mode
    per_gain = 2 * kappa * V / (s * (V - 1))
    copying, at_map = coexistence(prior)
    threshold_map = sp.factor(per_gain * at_map)
    # prior = c h^2, and the logarithms have the coefficient V (V - 1)/2 = c * epsilon
    copying_tree, at_tree = coexistence(prior, epsilon * prior / h**2)
    log_share = V * (V - 1) / 2 / (prior / h**2)
    logit, threshold = softmax_point(s)
    star = sp.Symbol(r"P^{\ast}")
    return (
        Step(
            "point_map",
            "First-order point of softmax attention at the level map",
            r"For $se^h \ll L$ copying and pooling coexist where",
            sp.Tuple(
                sp.Eq(h, copying, evaluate=False),
                sp.Eq(star, threshold_map, evaluate=False),
            ),
            r"There $b = se^h$ and $q = 1 + se^{2h}/L$. Copying gains "
            r"$\frac{Ps}{2\kappa}\left(1-\frac1V\right)\frac{z}{1+z}$ against the prior "
            r"$sLh^2/2\sigma_g^2$. Both are equal and the sum is stationary, with "
            r"$\mathrm{d}z/\mathrm{d}h = 2z$.",
        ),
        Step(
            "point_tree",
            "First-order point of softmax attention at the level tree",
            r"With the logarithms,",
            sp.Tuple(
                sp.Eq(epsilon, sp.factor(log_share), evaluate=False),
                sp.Eq(h, copying_tree, evaluate=False),
                sp.Eq(star, sp.factor(per_gain * at_tree), evaluate=False),
            ),
            r"The same two conditions with the additional cost $\frac{V(V-1)}{2}\log(1+z)$: from "
            r"pooling to copying $1 + \lambda q$ grows from $1 + \lambda$ by the factor $1 + z$.",
        ),
        Step(
            "point_z",
            "Which z belongs to a length",
            r"In both cases $z$ is the solution of the second equation, with $h$ and "
            r"$P = P^{\ast}$ from above:",
            sp.Tuple(
                sp.Eq(lam, LAMBDA, evaluate=False),
                sp.Eq(z, lam / (1 + lam) * s * sp.exp(2 * h) / L, evaluate=False),
            ),
            r"Definition of $z$ at $q = 1 + se^{2h}/L$. At the level map $\lambda$ does not depend "
            r"on $L$, and $L/s$ is an explicit function of $z$. Corrections are of relative order "
            r"$se^h/L$.",
        ),
        Step(
            "lambert",
            "Closed form at large V",
            r"At the level map, for $V\sigma_g^2 \gg \sigma_w^2h^2$ and $h \gg 1$,",
            sp.Tuple(sp.Eq(h, logit, evaluate=False), sp.Eq(star, threshold, evaluate=False)),
            r"Then $\lambda \ll 1$ and $z \approx h \gg 1$: minimum over $h$ of "
            r"$sLh^2/2\sigma_g^2 + VL^2e^{-2h}/2\sigma_w^2$. More copied tokens shorten the logit, "
            r"and the cost and the gain both grow as $s$.",
        ),
        Step(
            "limit",
            "Its limit",
            r"For $L/s \to \infty$ at any fixed $V$",
            sp.Eq(
                star,
                kappa * L * sp.log(L / s) ** 2 / (4 * sigma_g**2) * V / (V - 1),
                evaluate=False,
            ),
            r"$h \to \frac12\ln(L/s)$. The logarithms add "
            r"$\kappa V^2\ln(1+z)/s$, which is of lower order in $L$.",
        ),
    )
