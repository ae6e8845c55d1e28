"""Finite head dimension at the level ``map``: ``G = Q K^T/sqrt(N)``, weight decay on Q and K."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.marginal import data_gain, marginal_steps
from phasetheory.symbolic.softmax import softmax_parts
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    M,
    N,
    P,
    V,
    a,
    alpha,
    b,
    b_u,
    c_1,
    c_G,
    h,
    kappa,
    lam,
    q,
    r,
    sigma_g,
)
from phasetheory.symbolic.thresholds import coexistence, z

#: amplitude of copying in the directions that the attention copies
c = sp.Symbol("c", nonnegative=True)
#: what a column of Q and of K contributes to alpha, c and h, which are their squares
u_alpha, u_c, u_h = sp.symbols("u_alpha u_c u_h", real=True)
#: one singular value of Q K^T, and the norms of its column of Q and of K
singular, norm_Q, norm_K = sp.symbols("varsigma x_Q x_K", positive=True)
#: nuclear norms of the logits and of A
nuclear_G = sp.Symbol("nu_G", nonnegative=True)
nuclear_A = sp.Symbol("nu_A", nonnegative=True)


@cache
def heads_derivation() -> Derivation:
    """The ``map`` actions at a finite head dimension, and their first-order points.

    Steps: ``nuclear`` (prior energy of the logits), ``linear_ansatz`` (invariants in alpha, c and
    the rank M), ``linear_map`` (in alpha, c >= 0), ``linear_smooth`` (their square roots),
    ``linear_order_parameters`` (c_1 and c_G), ``softmax_map`` and ``softmax_smooth`` (h >= 0 and
    its square root); ``pooling_point``, ``copying_point``, ``softmax_point``, ``softmax_z``.
    Actions are in nats, up to the constant ``P/2 kappa``.
    """
    energy = (norm_Q**2 + norm_K**2) / (2 * sigma_g)
    along = energy.subs(norm_K, singular / norm_Q)
    balanced = sp.solve(sp.diff(along, norm_Q), norm_Q)[0]
    per_singular_value = sp.simplify(along.subs(norm_Q, balanced))
    # the singular values of Q K^T are sqrt(N) times those of G
    prior = per_singular_value.subs(singular, sp.sqrt(N) * nuclear_G)

    point = {
        r: L * alpha**2,
        q: alpha**2 + (M - 1) * c**2,
        b_u: L * alpha,
        b: alpha + (M - 1) * c,
    }
    size = alpha + (M - 1) * c
    fit = data_gain().subs(point).subs(lam, LAMBDA)
    linear = prior.subs(nuclear_G, L * size) + fit
    copied = (M - 1) * c / (L - 1)

    softmax = softmax_parts()
    logits = prior.subs(nuclear_G, (L - 1) * h)
    softmax_map = logits + data_gain().subs(softmax.point).subs(lam, LAMBDA)

    pooling = _linear_point(prior.subs(nuclear_G, L * alpha), alpha, L * alpha**2, 1 / V)
    everywhere = prior.subs(nuclear_G, L * M * c)
    copying = _linear_point(everywhere, c, M * c**2, M * (V - 1) / (V * L))
    logit, gain = coexistence(prior.subs(nuclear_G, L * h))
    threshold = sp.factor(gain * 2 * kappa * V / (V - 1))

    def equation(name: str, value: sp.Expr) -> sp.Eq:
        return sp.Eq(sp.Symbol(name), value, evaluate=False)

    own = (
        Step(
            "head",
            "Prior of a head of finite dimension",
            r"With $G = QK^{\top}/\sqrt{N}$, $Q, K \in \mathbb{R}^{L \times N}$ and "
            r"$Q_{in}, K_{in} \sim N(0, \sigma_g)$, so that $G_{ij}$ has the variance "
            r"$\sigma_g^2$, one singular value $\varsigma = x_Qx_K$ of $QK^{\top}$ costs",
            equation("E_1", energy),
            r"The energy $(\|Q\|_F^2 + \|K\|_F^2)/2\sigma_g$ does not change when the columns of "
            r"$Q$ and of $K$ are rotated together. With orthogonal columns each singular value is "
            r"the product of the norms of one column of $Q$ and one of $K$.",
        ),
        Step(
            "nuclear",
            "The nuclear norm",
            r"The least prior energy of all $Q, K$ with the logits $G$, of rank at most $N$ and "
            r"with the nuclear norm $\nu_G$, is",
            equation("E_G", prior),
            r"$x_Q^2 + x_K^2 \geq 2x_Qx_K$ with equality at $x_Q = x_K = \sqrt{\varsigma}$; for "
            r"any columns, $\|Q\|_F^2 + \|K\|_F^2$ is at least twice the nuclear norm of "
            r"$QK^{\top}$. For fixed $G$ the energy grows with $N$: the minimum over $(Q, K)$ does "
            r"not tend to the minimum over $G$ as $N \to \infty$, because the volume of the "
            r"$(Q, K)$ that give one $G$ is no part of an energy.",
        ),
        Step(
            "linear_ansatz",
            "Linear attention of bounded rank",
            r"$A = G/L$ has a rank of at most $M = \min(L, N)$. The best $A$ has the singular "
            r"value $\alpha$ on the constant vector and $c$ on $M - 1$ directions orthogonal to "
            r"it, each copied by $S$:",
            sp.Tuple(
                *(sp.Eq(x, value, evaluate=False) for x, value in point.items()),
                sp.Eq(nuclear_A, size, evaluate=False),
            ),
            r"Let $A$ have the singular values $\varsigma_1 \geq \varsigma_2 \geq \ldots$. $S$ is "
            r"orthogonal and keeps $\mathbf{1}$, so $|b| \leq \nu_A$, and $b_u^2 \leq Lr$ with "
            r"$r \leq L\varsigma_1^2$. At a given $\nu_A$ and $\varsigma_1$ the fit is then at "
            r"most that of the ansatz with $\alpha = \varsigma_1$ and $c$ the mean of the other "
            r"$M - 1$ values: it grows with $r$ and with $b^2$ and falls with $q$, which is least "
            r"where those values are equal. So the minimum over all $Q, K$ is that over $\alpha$ "
            r"and $c$, at every $N$. Below $N = L$ any $N - 1$ directions do; for $N \geq L$ this "
            r"is $A = c_1J + c_GS$.",
        ),
        Step(
            "linear_map",
            "Linear attention at the level map",
            r"For $\alpha, c \geq 0$ the energy is",
            equation("S_map", linear),
            r"Prior energy of $G = LA$ and the fit of the best $W$. Opposite signs of $\alpha$ and "
            r"$c$ cost the same and fit less: they hold no lowest minimum, and their local minima "
            r"are left out. $W$ absorbs the sign of both.",
        ),
        Step(
            "linear_smooth",
            "Smooth coordinates",
            r"The energy has a kink at $\alpha = 0$ and at $c = 0$. It is smooth in $u_\alpha$ and "
            r"$u_c$ with",
            sp.Tuple(sp.Eq(alpha, u_alpha**2, evaluate=False), sp.Eq(c, u_c**2, evaluate=False)),
            r"Up to a factor these are the norms of columns of $Q$ and of $K$. $u_c = 0$ is stable "
            r"where the cost of a small $c$ exceeds its gain. That is where the energy with the "
            r"kink has its minimum at $c = 0$, since for $\alpha \geq 0$ the gain falls "
            r"towards negative $c$. The same holds for $u_\alpha$.",
        ),
        Step(
            "linear_order_parameters",
            "Order parameters",
            r"The overlaps of $A = c_1J + c_GS + \ldots$ with pooling and copying are",
            sp.Tuple(sp.Eq(c_G, copied, evaluate=False), sp.Eq(c_1, alpha - c_G, evaluate=False)),
            r"$b = \alpha + (L-1)c_G$; the rest of $A$ is orthogonal to $J$ and $S$.",
        ),
        Step(
            "softmax_map",
            "Softmax attention at the level map",
            r"For $N \geq L - 1$ and $h \geq 0$ the energy at the symmetric logits is",
            equation("S_map", softmax_map),
            r"Softmax ignores $G \to G + v\mathbf{1}^{\top}$, and the nuclear norm is least at "
            r"$G(1 - J)$: a projector shrinks singular values. There $G = h(S - J)$ has "
            r"$L - 1$ singular values $|h|$. A negative $h$ costs as much and fits less. "
            r"That no other $G$ is better is an assumption. Below $N = L - 1$ the symmetric logits "
            r"are out of reach.",
        ),
        Step(
            "softmax_smooth",
            "Smooth coordinate",
            r"The energy is smooth in $u_h$ with",
            sp.Eq(h, u_h**2, evaluate=False),
            r"As for linear attention: at $h = 0$ the gain has a positive slope, which exceeds the "
            r"cost at large $P$ only.",
        ),
        Step(
            "pooling_point",
            "First-order point of pooling, linear attention",
            r"At large $L$ pooling appears with a jump at",
            sp.Tuple(*(sp.Eq(x, y, evaluate=False) for x, y in pooling)),
            r"Cost $\sqrt{N}L\alpha/\sigma_g$ and gain $\frac{P}{2\kappa V}\frac{z}{1+z}$ with "
            r"$z = \lambda L\alpha^2$ are equal and their difference is stationary, so $z = 1$. "
            r"At $\alpha = 0$ the cost has a kink: the state without pooling stays a minimum at "
            r"every $P$.",
        ),
        Step(
            "copying_point",
            "First-order point of copying, linear attention",
            r"With one amplitude in all $M$ directions, copying on its own would appear at",
            sp.Tuple(*(sp.Eq(x, y, evaluate=False) for x, y in copying)),
            r"Cost $\sqrt{N}LMc/\sigma_g$ and gain "
            r"$\frac{PM}{2\kappa L}\left(1-\frac1V\right)\frac{z}{1+z}$ with $z = \lambda Mc^2$. "
            r"Below $N = L$ this does not depend on $N$: fewer directions are copied, at a "
            r"lower cost.",
        ),
        Step(
            "softmax_point",
            "First-order point of softmax attention",
            r"For $e^h \ll L$ copying and pooling coexist where",
            sp.Tuple(
                sp.Eq(h, logit, evaluate=False),
                equation(r"P^{\ast}", threshold),
            ),
            r"Gain $\frac{P}{2\kappa}\left(1-\frac1V\right)\frac{z}{1+z}$ against the cost "
            r"$\sqrt{N}Lh/\sigma_g$, with $\mathrm{d}z/\mathrm{d}h = 2z$.",
        ),
        Step(
            "softmax_z",
            "Which z belongs to a length",
            r"$z$ is the solution of the second equation, with $h$ and $P = P^{\ast}$ from above:",
            sp.Tuple(
                sp.Eq(lam, LAMBDA, evaluate=False),
                sp.Eq(z, lam / (1 + lam) * sp.exp(2 * h) / L, evaluate=False),
            ),
            r"$q = 1 + e^{2h}/L$; corrections are of relative order $e^h/L$. As $L \to \infty$, "
            r"$h \to \frac12\ln L$ and $P^{\ast} \to "
            r"\frac{V}{V-1}\,\kappa\sqrt{N}L\ln L/\sigma_g$.",
        ),
    )
    return Derivation(
        key="heads",
        title="Finite head dimension at the level map",
        summary=(
            r"Weight decay on $Q$ and $K$ instead of on the logits: the prior energy is a nuclear "
            r"norm. All that follows is the energy that an optimiser finds, the level map."
        ),
        notation=(
            *MODEL_NOTATION,
            (N, "head dimension"),
            (M, r"largest rank of linear attention, $\min(L, N)$"),
            (nuclear_G, "nuclear norm of $G$, the sum of its singular values"),
            (nuclear_A, "nuclear norm of $A$"),
            (alpha, "mean row sum of $A$, linear attention"),
            (c, "singular value of $A$ on the copied directions, linear attention"),
            (c_1, "order parameter of uniform pooling, linear attention"),
            (c_G, "order parameter of copying, linear attention"),
            (h, "copy logit, softmax attention"),
            (a, "attention weight on the copied token, softmax attention"),
            (z, "strength of the data in the modes that are learnt, over that of the prior"),
        ),
        steps=(*marginal_steps(), *own),
        finals=(
            "nuclear",
            "linear_map",
            "softmax_map",
            "pooling_point",
            "copying_point",
            "softmax_point",
        ),
    )


def _linear_point(cost: sp.Expr, amplitude: sp.Symbol, strength: sp.Expr, share: sp.Expr):
    """(amplitude, value) and (P, value) at which a cost linear in an amplitude is first paid.

    Args:
        strength: what lambda multiplies in z, quadratic in the amplitude.
        share: the part of the target that can be learnt.
    """
    gain = P * share / (2 * kappa) * z / (1 + z)
    # cost = k sqrt(z): equal to the gain, and their difference stationary in z
    (at,) = sp.solve(sp.numer(sp.together(gain / (2 * z) - sp.diff(gain, z))), z)
    value = sp.sqrt(at / (strength / amplitude**2 * LAMBDA))
    balance = cost.subs(amplitude, value) / gain.subs(z, at)  # proportional to P^(-3/2)
    threshold = sp.simplify((balance * P ** sp.Rational(3, 2)) ** sp.Rational(2, 3))
    return (amplitude, sp.simplify(value)), (sp.Symbol(r"P^{\ast}"), threshold)
