"""Softmax attention: row normalisation, gauge integration and the pushforward of the posterior."""

from functools import cache
from types import SimpleNamespace

import sympy as sp

from phasetheory.symbolic.functions import logistic
from phasetheory.symbolic.marginal import data_gain, data_log_cost, marginal_steps
from phasetheory.symbolic.ring import invariants
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    a,
    a_1,
    a_G,
    b,
    b_u,
    g_1,
    h,
    lam,
    q,
    r,
    sigma_g,
)


def softmax_parts(ones: sp.Expr = sp.S.One) -> SimpleNamespace:
    """The pieces of the softmax actions, as SymPy expressions.

    Args:
        ones: the number s of tokens that the target copies.

    Returns:
        ``energy`` of the symmetric logits, ``prior`` without the gauge direction, the ``weight``
        a(h) of each copied token, ``copying`` a_G(a), the invariants ``row`` in a and ``point`` in
        h, and the actions ``map`` and ``tree`` in h, in nats.
    """
    energy = L**2 * g_1**2 + 2 * L * ones * g_1 * h + ones * L * h**2
    energy = sp.expand(energy / (2 * sigma_g**2))
    gauge_minimum = sp.solve(sp.diff(energy, g_1), g_1)[0]
    prior = sp.factor(energy.subs(g_1, gauge_minimum))

    odds = h + sp.log(ones) - sp.log(L - ones)
    weight = logistic(odds) / ones
    rest = logistic(-odds)  # 1 - s a without cancellation
    copying = (L * ones * a - ones) / (L - ones)

    found = invariants(a_1, a_G / ones, ones)
    row = {
        symbol: sp.factor(found[symbol.name].subs(a_1, 1 - a_G).subs(a_G, copying))
        for symbol in (r, q, b_u, b)
    }
    q_of_a = L * (ones * a**2 + (1 - ones * a) ** 2 / (L - ones))
    if sp.simplify(row[q] - q_of_a) != 0:
        raise AssertionError("q of the softmax rows is not that of a_1 J + a_G S")
    row[q] = q_of_a
    q_of_h = L * (ones * weight**2 + rest**2 / (L - ones))
    point = {r: row[r], b_u: row[b_u], b: row[b].subs(a, weight), q: q_of_h}

    fit = prior + data_gain().subs(point).subs(lam, LAMBDA)
    cost = data_log_cost().subs(point).subs(lam, LAMBDA)
    return SimpleNamespace(
        energy=energy,
        prior=prior,
        weight=weight,
        copying=copying,
        row=row,
        point=point,
        map=fit,
        tree=fit + cost,
    )


@cache
def softmax_derivation() -> Derivation:
    """The derivation of the ``map`` and ``tree`` actions of softmax attention.

    The steps ``map`` and ``tree`` hold the actions as functions of the copy logit ``h`` (a pure
    number); ``weight`` gives a(h), ``order_parameters`` gives a_1 and a_G as functions of a, and
    ``density_in_a_G`` the same posterior as a density of a_G. Actions are in nats, up to the
    constant ``P/2 kappa``.
    """
    parts = softmax_parts()
    prior, weight, copying, row = parts.prior, parts.weight, parts.copying, parts.row
    jacobian = sp.diff(weight, h)

    logit_of_a_G = sp.log(1 + L * a_G / (1 - a_G))
    tree_of_a_G = (prior.subs(h, logit_of_a_G)) + (data_log_cost() + data_gain()).subs(
        {symbol: e.subs(a, (1 + (L - 1) * a_G) / L) for symbol, e in row.items()}
    ).subs(lam, LAMBDA)
    a_of_a_G = (1 + (L - 1) * a_G) / L
    log_jacobian = sp.log(a_of_a_G) + sp.log(1 - a_of_a_G) + sp.log(L / (L - 1))

    own = (
        Step(
            "logits",
            "Symmetric logits",
            r"Logits symmetric under relabelling of positions are $G = g_1\mathbf{1}\mathbf{1}^"
            r"{\top} + hS$. Their prior energy $\|G\|_F^2/2\sigma_g^2$ is",
            sp.Eq(sp.Symbol("E"), parts.energy, evaluate=False),
            r"$\|\mathbf{1}\mathbf{1}^{\top}\|_F^2 = L^2$, "
            r"$\operatorname{tr}(\mathbf{1}\mathbf{1}^{\top}S) = L$, $\|S\|_F^2 = L$.",
        ),
        Step(
            "prior",
            "Integrating out the gauge direction",
            r"Softmax ignores $g_1$; integrating it out leaves, up to a constant,",
            sp.Eq(sp.Symbol("S_prior"), prior, evaluate=False),
            r"Gaussian integral over $g_1$, whose integrand has its maximum at $g_1 = -h/L$, with "
            r"the energy $\frac{Lh^2}{2\sigma_g^2}\left(1 - \frac1L\right)$.",
        ),
        Step(
            "weight",
            "Row normalisation",
            r"Each row of $A = \operatorname{softmax}(G)$ gives the copied token the weight",
            sp.Eq(a, weight, evaluate=False),
            r"$a = e^h/(e^h + L - 1)$, written with "
            r"$\operatorname{logistic}(z) = 1/(1+e^{-z})$, which does not overflow.",
        ),
        Step(
            "order_parameters",
            "Order parameters",
            r"In the form $A = a_1 J + a_G S$ the row sums are one, and",
            sp.Tuple(sp.Eq(a_G, copying, evaluate=False), sp.Eq(a_1, 1 - a_G, evaluate=False)),
            r"$a = a_1/L + a_G$ with $a_1 + a_G = 1$.",
        ),
        Step(
            "ansatz",
            "Invariants of the rows",
            r"At this attention matrix the invariants are",
            sp.Tuple(*(sp.Eq(symbol, row[symbol], evaluate=False) for symbol in (r, q, b_u, b))),
            r"The invariants of $a_1J + a_GS$ with the order parameters inserted.",
        ),
        Step(
            "map",
            "Action at the level map",
            r"The energy whose minimum an optimiser with weight decay on $(G, W)$ finds,",
            sp.Eq(sp.Symbol("S_map"), parts.map, evaluate=False),
            r"Maximising over $W$ instead of integrating gives the same fit without the "
            r"logarithms.",
        ),
        Step(
            "tree",
            "Action at the level tree",
            r"The effective action of the copy logit: the posterior density of $h$ is "
            r"proportional to $e^{-S_{\mathrm{tree}}(h)}$ with",
            sp.Eq(sp.Symbol("S_tree"), parts.tree, evaluate=False),
            r"Prior energy plus the marginal over $W$.",
        ),
        Step(
            "jacobian",
            "Jacobian of the pushforward",
            r"The map from the logit to the weight has the derivative "
            r"$\mathrm{d}a/\mathrm{d}h = a(1-a)$:",
            sp.Eq(sp.Symbol("D"), jacobian, evaluate=False),
            r"Derivative of the logistic function; it never vanishes, so the pushforward is "
            r"one to one.",
        ),
        Step(
            "density_in_a_G",
            "The same posterior as a density of $a_G$",
            r"The posterior density of $a_G$ is proportional to $e^{-\tilde S(a_G)}$ with",
            sp.Eq(sp.Symbol(r"\tilde{S}"), tree_of_a_G + log_jacobian, evaluate=False),
            r"$\mathrm{d}h = \mathrm{d}a_G\,\frac{L-1}{L}\big/\big(a(1-a)\big)$. Both densities "
            r"describe one measure; their maxima differ by the Jacobian, so minima of the action "
            r"are located in $h$.",
        ),
    )
    return Derivation(
        key="softmax",
        title="Softmax attention on the copy task",
        summary=(
            r"From $f(X) = A X W$ with $A = \operatorname{softmax}(G)$ and Gaussian priors to the "
            r"effective action of the copy logit. The network and its normalisations are this "
            r"library's own choice, made so that the scalings published in arXiv 2606.12058 come "
            r"out."
        ),
        notation=(
            *MODEL_NOTATION,
            (g_1, "gauge part of the logits, ignored by softmax"),
            (h, "copy logit, relative to the other logits of its row"),
            (a, "attention weight on the copied token"),
            (a_G, "order parameter of copying"),
            (a_1, "order parameter of uniform pooling"),
        ),
        steps=(*marginal_steps(), *own),
        finals=("map", "tree", "density_in_a_G"),
    )
