"""Closed forms for the data at which pooling and copying appear."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    MODEL_NOTATION,
    L,
    P,
    V,
    alpha,
    c_G,
    h,
    kappa,
    sigma_g,
    sigma_w,
)

x = sp.Symbol("x", positive=True)
#: what copying adds to the strength of a mode, lambda (q - 1)/(1 + lambda)
z = sp.Symbol("z", positive=True)


def softmax_point(ones: sp.Expr = sp.S.One) -> tuple[sp.Expr, sp.Expr]:
    """The best copy logit at large L and V, and the P, a function of h, at which it pays.

    Args:
        ones: the number s of tokens that the target copies.
    """
    cost = ones * L * h**2 / (2 * sigma_g**2) + V * L**2 * sp.exp(-2 * h) / (2 * sigma_w**2)
    stationary = sp.solve(sp.diff(cost, h), sp.exp(-2 * h))[0]
    lowest = sp.factor(cost.subs(sp.exp(-2 * h), stationary))
    logit = sp.LambertW(2 * h / stationary) / 2
    # the uniform state explains the constant mode already, 1/V of the target
    gain = ones / (2 * kappa) * (1 - 1 / V)
    return logit, sp.factor(lowest / gain)


def coexistence(cost: sp.Expr, logs: sp.Expr = sp.S.Zero) -> tuple[sp.Expr, sp.Expr]:
    """Where copying with softmax becomes as good as pooling, at large L, in terms of ``z``.

    At logit h copying adds ``z = lambda (q - 1)/(1 + lambda)``, proportional to ``e^{2h}``, to the
    strength of a mode. It gains ``D z/(1 + z)`` and costs ``cost + logs log(1 + z)``.

    Args:
        cost: cost of the logits, in h.
        logs: coefficient of the logarithm; 0 at the level map.

    Returns:
        ``h`` as a function of ``z``, and ``D`` in ``h`` and ``z``, from equal actions and a
        stationary h.
    """
    gain = (cost + logs * sp.log(1 + z)) * (1 + z) / z
    # dz/dh = 2 z
    slope = sp.diff(cost, h) + 2 * z * logs / (1 + z) - 2 * gain * z / (1 + z) ** 2
    return sp.solve(sp.numer(sp.together(slope)), h)[-1], gain


@cache
def thresholds_derivation() -> Derivation:
    """Linear onset and copying crossover, softmax first-order point, and their limits.

    Steps: ``onset_pooling`` (a polynomial in x = P sigma_w^2/kappa whose positive root is the onset
    with c_G frozen at 0), ``onset_hessian`` (the entries of the Hessian in x; its determinant
    vanishes at the exact onset of the level tree), ``onset_logs``, ``onset_prior``,
    ``copying_crossover``, ``softmax_logit``, ``softmax_threshold`` (without the log cost),
    ``softmax_limit``.
    """
    action = linear_derivation()["tree_in_alpha"].value
    hessian = sp.hessian(action, (alpha, c_G)).subs({alpha: 0, c_G: 0}).applyfunc(sp.expand)
    in_x = hessian.subs(P, x * kappa / sigma_w**2).applyfunc(sp.expand)
    pooling = sp.collect(sp.expand(in_x[0, 0]), x, sp.factor)
    entries = [in_x[0, 0], in_x[1, 1], in_x[0, 1]]
    names = [sp.Symbol(name) for name in (r"K_{\alpha\alpha}", "K_{GG}", r"K_{\alpha G}")]

    # where the logarithms decide (sigma_g -> oo): the linear and the quadratic term balance
    logs = sp.solve(sp.cancel(pooling.subs(sigma_g, sp.oo) / x), x)[0]
    # at the level map there are no logarithms, and each curvature has one positive root
    origin = {alpha: 0, c_G: 0}
    map_action = linear_derivation()["map_in_alpha"].value
    prior = _positive_root(sp.diff(map_action, alpha, 2).subs(origin))
    copying = _positive_root(sp.diff(map_action, c_G, 2).subs(origin))

    logit, threshold = softmax_point()
    steps = (
        Step(
            "onset_pooling",
            "Onset of pooling with copying frozen",
            r"The curvature of $S_{\mathrm{tree}}$ in $\alpha$ at the origin, with "
            r"$x = P\sigma_w^2/\kappa$, vanishes at the onset:",
            sp.Eq(sp.Symbol("K"), pooling, evaluate=False),
            r"Second derivative of the action at $\alpha = c_G = 0$.",
        ),
        Step(
            "onset_hessian",
            "Exact onset",
            r"The onset is at the smallest $x$ at which "
            r"$K_{\alpha\alpha}K_{GG} = K_{\alpha G}^2$, with the entries of the Hessian at the "
            r"origin",
            sp.Tuple(
                *(
                    sp.Eq(name, sp.collect(sp.expand(entry), x, sp.factor), evaluate=False)
                    for name, entry in zip(names, entries, strict=True)
                )
            ),
            r"There the unbroken state loses stability; the transition is of second order.",
        ),
        Step(
            "onset_logs",
            "Limit in which the logarithms decide",
            r"For $\sigma_g \to \infty$ the onset is at",
            sp.Eq(sp.Symbol("P_c"), sp.factor(logs * kappa / sigma_w**2), evaluate=False),
            r"The terms of first and second order in $x$ balance; at large $L$ this is "
            r"$\kappa V^2$.",
        ),
        Step(
            "onset_prior",
            "Limit in which the prior decides",
            r"Without the logarithms (level map) the curvature in $\alpha$ vanishes at",
            sp.Eq(sp.Symbol("P_c"), prior, evaluate=False),
            r"At large $L$ this is $\kappa VL/\sigma_g\sigma_w$.",
        ),
        Step(
            "copying_crossover",
            "Copying crossover of linear attention",
            r"Without the logarithms the curvature in $c_G$ vanishes at",
            sp.Eq(sp.Symbol(r"P_{\times}"), copying, evaluate=False),
            r"At large $L$ and $V$ this is $\kappa L^{3/2}V^{1/2}/\sigma_g\sigma_w$, the minimum "
            r"over $c$ of the cost $L^3c^2/2\sigma_g^2 + V/2\sigma_w^2c^2$ in units of $1/\kappa$.",
        ),
        Step(
            "softmax_logit",
            "Best copy logit at large L",
            r"The costs of the logit $h$ and of the weights that make up for a small $a$ are "
            r"least at",
            sp.Eq(h, logit, evaluate=False),
            r"Minimum over $h$ of $Lh^2/2\sigma_g^2 + VL^2e^{-2h}/2\sigma_w^2$: "
            r"$2h\,e^{2h} = 2VL\sigma_g^2/\sigma_w^2$, the equation of the Lambert function.",
        ),
        Step(
            "softmax_threshold",
            "First-order point of softmax attention, without the log cost",
            r"With $h$ at that value the gain $\frac{P}{2\kappa}(1 - \frac1V)$ pays the cost at",
            sp.Eq(sp.Symbol(r"P^{\ast}"), threshold, evaluate=False),
            r"Cost at its minimum, where $VL^2e^{-2h}/\sigma_w^2 = Lh/\sigma_g^2$. The uniform "
            r"state has learnt the constant mode already, $1/V$ of the target. Valid for "
            r"$V \gg 1$ and $La^2 = V\sigma_g^2/\sigma_w^2h \gg 1$, where the copied token "
            r"outweighs all others in $q$.",
        ),
        Step(
            "softmax_limit",
            "Its limit",
            r"For $L \to \infty$ at any fixed $V$",
            sp.Eq(
                sp.Symbol(r"P^{\ast}"),
                kappa * L * sp.log(L) ** 2 / (4 * sigma_g**2) * V / (V - 1),
                evaluate=False,
            ),
            r"$h \to \frac12 \ln L$, since $W$ can make up for a small $a$; the estimate "
            r"$h = \ln L$ is four times too large. Corrections are of relative order "
            r"$\ln\ln L/\ln L$.",
        ),
    )
    return Derivation(
        key="thresholds",
        title="Closed forms of the thresholds",
        summary=(
            r"Where pooling and copying appear, in closed form, from the actions of linear and "
            r"softmax attention."
        ),
        notation=(*MODEL_NOTATION, (x, r"$P\sigma_w^2/\kappa$"), (h, "copy logit")),
        steps=steps,
        finals=("onset_hessian", "copying_crossover", "softmax_threshold", "softmax_limit"),
    )


def _positive_root(curvature: sp.Expr) -> sp.Expr:
    """The positive root in P of a curvature that is a constant minus a multiple of P^2."""
    curvature = sp.expand(curvature)
    square = -curvature.subs(P, 0) / curvature.coeff(P, 2)
    return sp.powdenest(sp.sqrt(sp.factor(square)), force=True)
