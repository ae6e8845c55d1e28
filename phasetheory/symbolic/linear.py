"""Linear attention, ``A = G / L``: from the model to the action S(c_1, c_G)."""

from functools import cache

import sympy as sp

from phasetheory.symbolic.marginal import data_gain, data_log_cost, marginal_steps
from phasetheory.symbolic.ring import invariants
from phasetheory.symbolic.steps import Derivation, Step
from phasetheory.symbolic.symbols import (
    LAMBDA,
    MODEL_NOTATION,
    L,
    alpha,
    b,
    b_u,
    c_1,
    c_G,
    lam,
    q,
    r,
    sigma_g,
)


def linear_parts(ones: sp.Expr = sp.S.One) -> tuple[dict, dict[str, sp.Expr]]:
    """(invariants, actions by level) of linear attention in ``alpha`` and ``c_G``.

    Args:
        ones: the number s of tokens that the target copies.

    Returns:
        ``{r: ..., q: ..., b_u: ..., b: ...}`` and ``{"prior": ..., "map": ..., "tree": ...}``; the
        actions are in nats, in the invariants r, q, b_u, b and lambda.
    """
    ansatz = invariants(alpha - ones * c_G, c_G, ones)
    point = {x: sp.collect(ansatz[x.name], (c_G, c_G**2)) for x in (r, q, b_u, b)}
    prior = L**2 * q / (2 * sigma_g**2)
    fit = prior + data_gain()
    return point, {"prior": prior, "map": fit, "tree": fit + data_log_cost()}


@cache
def linear_derivation() -> Derivation:
    """The derivation of the ``map`` and ``tree`` actions of linear attention.

    The steps ``map`` and ``tree`` hold the actions as functions of ``c_1`` and ``c_G`` (pure
    numbers), with the parameters L, V, P, kappa, sigma_g, sigma_w. The action is in nats, up to
    the constant ``P/2 kappa``.
    """
    ansatz = invariants(c_1, c_G)
    in_alpha, actions = linear_parts()
    prior, map_action, tree_action = actions["prior"], actions["map"], actions["tree"]
    point = {r: ansatz["r"], q: ansatz["q"], b_u: ansatz["b_u"], b: ansatz["b"]}

    def at_point(action: sp.Expr) -> sp.Expr:
        return action.subs(point).subs(lam, LAMBDA)

    def at_alpha(action: sp.Expr) -> sp.Expr:
        return action.subs(in_alpha).subs(lam, LAMBDA)

    def coordinates(level: str, action: sp.Expr) -> Step:
        return Step(
            f"{level}_in_alpha",
            f"The level {level} in $\\alpha$ and $c_G$",
            r"With $\alpha = c_1 + c_G$ instead of $c_1$, in which $q$ is diagonal, the action is",
            sp.Eq(sp.Symbol(f"S_{level}"), at_alpha(action), evaluate=False),
            r"The invariants of the ansatz in $\alpha$ and $c_G$; at large $L$ this form loses no "
            r"digits.",
        )

    own = (
        Step(
            "prior",
            "Prior energy",
            r"Minus the log of the prior density of $A = G/L$, up to a constant, is",
            sp.Eq(sp.Symbol("S_prior"), prior, evaluate=False),
            r"$G_{ij} \sim N(0, \sigma_g^2)$ and $\|G\|_F^2 = L^2\|A\|_F^2 = L^2 q$.",
        ),
        Step(
            "ansatz",
            "Order parameters",
            r"Relabelling the positions of inputs and targets together leaves the posterior "
            r"unchanged. The attention matrices with this symmetry are $A = c_1 J + c_G S$: "
            r"uniform pooling and copying. With $\alpha = c_1 + c_G$ their invariants are",
            sp.Tuple(
                *(sp.Eq(symbol, in_alpha[symbol], evaluate=False) for symbol in (r, q, b_u, b))
            ),
            r"$S^{\top}A$ commutes with every permutation, so it is a combination of $J$ and the "
            r"identity. Then $J^2 = J$, $JS = SJ = J$ and $S^{\top}S = 1$ give the invariants.",
        ),
        Step(
            "map",
            "Action at the level map",
            r"The energy whose minimum an optimiser with weight decay on $(G, W)$ finds: prior and "
            r"fit, with $W$ at its best value,",
            sp.Eq(sp.Symbol("S_map"), at_point(map_action), evaluate=False),
            r"Maximising over $W$ instead of integrating gives the same fit without the "
            r"logarithms.",
        ),
        coordinates("map", map_action),
        Step(
            "tree",
            "Action at the level tree",
            r"The effective action of the two order parameters,",
            sp.Eq(
                sp.Symbol("S_tree"),
                at_point(tree_action),
                evaluate=False,
            ),
            r"Prior energy plus the marginal over $W$, at $A = c_1 J + c_G S$. It is even under "
            r"$(c_1, c_G) \to (-c_1, -c_G)$, the sign that $W$ can absorb.",
        ),
        coordinates("tree", tree_action),
    )
    return Derivation(
        key="linear",
        title="Linear attention on the copy task",
        summary=(
            r"From $f(X) = A X W$ with $A = G/L$ and Gaussian priors to the effective action of "
            r"pooling and copying. The network and its normalisations are this library's own "
            r"choice, made so that the scalings published in arXiv 2606.12058 come out."
        ),
        notation=(
            *MODEL_NOTATION,
            (c_1, "order parameter of uniform pooling"),
            (c_G, "order parameter of copying"),
            (alpha, r"$c_1 + c_G$, the mean row sum of $A$"),
        ),
        steps=(*marginal_steps(), *own),
        finals=("map", "tree"),
    )
