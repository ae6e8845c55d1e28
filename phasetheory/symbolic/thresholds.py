"""Closed forms for the data at which pooling and copying appear."""

from functools import cache
from typing import Any

import sympy as sp

from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.marginal import data_gain, data_log_cost
from phasetheory.symbolic.observables import posterior_values, w, w_u
from phasetheory.symbolic.softmax import softmax_derivation
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    P,
    V,
    a,
    alpha,
    b,
    c_G,
    h,
    kappa,
    lam,
    q,
    sigma_g,
    sigma_w,
)

x = sp.Symbol("x", positive=True)
#: 1 - a, kept whole: next to a = 1 its digits would cancel
rest = sp.Symbol(r"\bar{a}", positive=True)
q_slope, b_slope = sp.symbols("q' b'", positive=True)
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
    ``onset_regimes``, ``copying_crossover``, ``softmax_curve`` (coefficients of a cubic in lambda
    whose positive root gives P at a stationary h), ``softmax_logit``, ``softmax_threshold``
    (without the log cost), ``softmax_threshold_logs`` (with it: an equation for P),
    ``softmax_naive``, ``softmax_limit``.
    """
    entries = [sp.expand(entry) for entry in curvatures("tree")]
    pooling = sp.collect(entries[0], x, sp.factor)
    names = [sp.Symbol(name) for name in (r"K_{\alpha\alpha}", "K_{GG}", r"K_{\alpha G}")]

    # where the logarithms decide (sigma_g -> oo): the linear and the quadratic term balance
    logs = sp.solve(sp.cancel(pooling.subs(sigma_g, sp.oo) / x), x)[0]
    # at the level map there are no logarithms, and each curvature has one positive root
    origin = {alpha: 0, c_G: 0}
    map_action = linear_derivation()["map_in_alpha"].value
    prior = _positive_root(sp.diff(map_action, alpha, 2).subs(origin))
    copying = _positive_root(sp.diff(map_action, c_G, 2).subs(origin))

    logit, threshold = softmax_point()
    # where the copied token outweighs all others, q = L a^2 with a = e^h/L
    gain = sp.Rational(1, 2) / kappa * (1 - 1 / V)
    weights = V * L**2 * sp.exp(-2 * h) / (2 * sigma_w**2)
    stationary = sp.solve(L * h / sigma_g**2 - 2 * weights, sp.exp(-2 * h))[0]
    copied = (1 / (L * stationary)).subs(sp.exp(-2 * h), stationary)
    log_cost = data_log_cost().subs(q, copied) - data_log_cost().subs(q, 1)
    logs_share = sp.factor((log_cost / gain).subs(lam, LAMBDA))

    constant, linear, quadratic = (pooling.coeff(x, n) for n in range(3))
    # both costs are equal at x = constant/linear, and there the curvature vanishes
    balance = sp.factor(2 * linear**2 + constant * quadratic)
    boundary = sp.powdenest(sp.sqrt(sp.factor(sp.solve(balance, sigma_g**2)[0])), force=True)
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
            "onset_regimes",
            "Which cost decides the onset of pooling",
            r"At the onset of pooling the logarithms and the prior of the attention cost the same "
            r"where",
            sp.Eq(sigma_g, boundary, evaluate=False),
            r"The terms of order $x$ and of order one of the curvature are equal where it "
            r"vanishes. At larger $\sigma_g$ the logarithms decide; at large $L$ this is "
            r"$V\sigma_g\sigma_w = L/\sqrt2$. The prior of $W$ does not compete: at an onset its "
            r"energy always equals the sum of the other two.",
        ),
        Step(
            "copying_crossover",
            "Copying crossover of linear attention",
            r"Without the logarithms the curvature in $c_G$ vanishes at",
            sp.Eq(sp.Symbol(r"P_{\times}"), copying, evaluate=False),
            r"At large $L$ and $V$ this is $\kappa L^{3/2}V^{1/2}/\sigma_g\sigma_w$, the minimum "
            r"over $c$ of the cost $L^3c^2/2\sigma_g^2 + V/2\sigma_w^2c^2$ in units of $1/\kappa$.",
        ),
        _softmax_curve_step(),
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
            "softmax_threshold_logs",
            "First-order point of softmax attention, with the log cost",
            r"With the logarithms of the marginal over $W$ the point solves",
            sp.Eq(P, threshold + logs_share, evaluate=False),
            r"The log cost of copying over that of the uniform state, where $q = 1$; with $h$ at "
            r"its value without the logarithms, $q = La^2 = V\sigma_g^2/\sigma_w^2h$. The right "
            r"side is positive at $P = 0$ and concave, so there is one solution. Since the log "
            r"cost itself favours a smaller $h$, the true point is lower where it decides.",
        ),
        Step(
            "softmax_naive",
            "The estimate that leaves out W",
            r"If $W$ could not make up for a small $a$, copying would need $h = \ln L$, and the "
            r"prior of the attention alone would cost",
            sp.Eq(
                sp.Symbol(r"P_{\mathrm{naive}}"),
                (L * h**2 / (2 * sigma_g**2) / gain).subs(h, sp.log(L)),
                evaluate=False,
            ),
            r"At $h = \ln L$ the copied token has the weight $a = 1/2$.",
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
        notation=(
            *MODEL_NOTATION,
            (x, r"$P\sigma_w^2/\kappa$"),
            (h, "copy logit"),
            (a, "attention weight on the copied token"),
            (rest, r"$1 - a$"),
        ),
        steps=steps,
        finals=("onset_hessian", "copying_crossover", "softmax_threshold", "softmax_limit"),
    )


@cache
def curvatures(level: str) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """(K_aa, K_GG, K_aG): the Hessian of linear attention at the origin, as polynomials in x."""
    action = linear_derivation()[f"{level}_in_alpha"].value
    hessian = sp.hessian(action, (alpha, c_G)).subs({alpha: 0, c_G: 0}).applyfunc(sp.expand)
    in_x = hessian.subs(P, x * kappa / sigma_w**2).applyfunc(sp.expand)
    return in_x[0, 0], in_x[1, 1], in_x[0, 1]


@cache
def curvature_root(curvature: sp.Expr) -> sp.Expr:
    """P at the positive root of a curvature ``p + l x - g x^2``."""
    expanded: Any = sp.expand(curvature)
    p, l, g = (expanded.coeff(x, n) for n in range(3))
    return (l + sp.sqrt(l**2 - 4 * p * g)) / (-2 * g) * kappa / sigma_w**2


@cache
def costs(attention: str) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """What a state costs: prior energy of the attention, prior energy of W, logarithms.

    Over the state without copying: alpha = c_G = 0 (functions of alpha and c_G), or the uniform
    attention h = 0 (functions of h), where W serves the constant mode only. In nats.
    """
    constant, others = w_u**2 / (2 * sigma_w**2), (V - 1) * w**2 / (2 * sigma_w**2)
    values = posterior_values()
    if attention == "linear":
        steps = linear_derivation()
        prior, weights, origin = steps["prior"].value, constant + others, {alpha: 0, c_G: 0}
        point = {e.lhs: e.rhs for e in steps["ansatz"].value}
    else:
        steps = softmax_derivation()
        prior, weights, origin = steps["prior"].value, others, {h: 0}
        weight = steps["weight"].value
        point = {e.lhs: e.rhs.subs(a, weight) for e in steps["ansatz"].value}
    terms = [prior, weights.subs(values), data_log_cost()]
    prior, weights, logs = (e.subs(point).subs(lam, LAMBDA) for e in terms)
    return prior, weights, logs - logs.subs(origin).rewrite(sp.exp)


@cache
def softmax_cubic(level: str) -> tuple[sp.Expr, ...]:
    """Coefficients of a cubic in lambda, lowest order first; dS/dh = 0 where it vanishes.

    In h, q, b, a, 1 - a (`rest`) and the slopes `q_slope`, `b_slope` (`softmax_slopes`), at the
    level ``map`` or ``tree``.
    """
    steps = softmax_derivation()
    data = data_gain() + (data_log_cost() if level == "tree" else 0)
    data = data.subs(P, lam * V * kappa * L / sigma_w**2)
    slope = sp.diff(steps["prior"].value, h)
    slope += sp.diff(data, q) * q_slope + sp.diff(data, b) * b_slope
    cubic = sp.Poly(sp.cancel(sp.together(slope * (1 + lam * q) ** 2)), lam)
    low = [sp.collect(sp.expand(cubic.coeff_monomial(lam**k)), h, sp.factor) for k in range(3)]
    # in q and b the leading coefficient is a difference of nearly equal terms
    of_a = {e.lhs: e.rhs for e in steps["ansatz"].value}
    slopes = {symbol: e.subs(rest, 1 - a) for symbol, e in softmax_slopes().items()}
    leading = cubic.coeff_monomial(lam**3).subs(slopes).subs({q: of_a[q], b: of_a[b]})
    return (*low, _in_rest(leading))


@cache
def softmax_slopes() -> dict[sp.Symbol, sp.Expr]:
    """dq/dh and db/dh in a and 1 - a, by `q_slope` and `b_slope`."""
    of_a = {e.lhs: e.rhs for e in softmax_derivation()["ansatz"].value}
    return {
        slope: _in_rest(sp.diff(of_a[symbol], a) * a * (1 - a))
        for symbol, slope in ((q, q_slope), (b, b_slope))
    }


def _in_rest(expression: sp.Expr) -> sp.Expr:
    return sp.factor(expression).subs(a - 1, -rest)


def _softmax_curve_step() -> Step:
    equations = [sp.Eq(symbol, e, evaluate=False) for symbol, e in softmax_slopes().items()]
    equations += [
        sp.Eq(sp.Symbol(f"k_{n}"), e, evaluate=False) for n, e in enumerate(softmax_cubic("tree"))
    ]
    return Step(
        "softmax_curve",
        "The number of sequences at a stationary logit",
        r"$S_{\mathrm{tree}}$ is stationary at a logit $h > 0$ where $\sum_n k_n\lambda^n = 0$, "
        r"with $\bar a = 1 - a$, the slopes $q' = \mathrm{d}q/\mathrm{d}h$, "
        r"$b' = \mathrm{d}b/\mathrm{d}h$ and",
        sp.Tuple(*equations),
        r"$\mathrm{d}S/\mathrm{d}h$ times $(1 + \lambda q)^2$. For $h > 0$, $k_0, k_1 > 0$ and "
        r"$k_3 < 0$, so by Descartes' rule exactly one $\lambda$, and one $P$, belongs to each "
        r"$h$: all stationary points lie on one curve $P(h)$, whose extrema are the spinodals. At "
        r"the level map the terms of $q'$ in $k_1$ and $k_2$ are absent.",
    )


def _positive_root(curvature: sp.Expr) -> sp.Expr:
    """The positive root in P of a curvature that is a constant minus a multiple of P^2."""
    curvature = sp.expand(curvature)
    square = -curvature.subs(P, 0) / curvature.coeff(P, 2)
    return sp.powdenest(sp.sqrt(sp.factor(square)), force=True)
