"""From the steps of a derivation to the functions of a `Landscape`, the same way for all levels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jax.numpy as jnp
import sympy as sp

from phasetheory.copytask.tokens import rarest
from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic import tokens as general
from phasetheory.symbolic.meanfield import rho2, tau2
from phasetheory.symbolic.observables import (
    mean_predictor_loss_step,
    posterior_values,
    target_square_step,
    test_loss_step,
    w,
    w_u,
)


@dataclass(frozen=True)
class Theory:
    """An action and what is read off at its minima, as SymPy expressions.

    Attributes:
        coordinates: what the action is a function of. ``rho^2`` and ``tau^2`` are positive: their
            coordinates are the logarithms.
        action: in nats, also in P and the parameters.
        invariants: r, q, b_u and b with their values.
        order_parameters: their values.
        coverage: share of ``||A||^2`` in the span of J and S, where fluctuations take a part of it.
        fluctuates: whether the weights do; at the maximum of the posterior they do not.
    """

    coordinates: tuple[sp.Symbol, ...]
    action: sp.Expr
    invariants: tuple[tuple[sp.Symbol, sp.Expr], ...]
    order_parameters: tuple[sp.Expr, ...]
    coverage: sp.Expr | None = None
    fluctuates: bool = True

    def at_tokens(self) -> "Theory":
        """The same with the data term for given token probabilities in place of that for uniform
        ones."""
        data = general.data_gain() + (general.data_log_cost() if self.fluctuates else 0)
        action = self.action.subs(sym.P, 0) + data.subs(dict(self.invariants))
        return Theory(**{**self.__dict__, "action": action})


@dataclass(frozen=True)
class Functions:
    """JAX functions ``(x, P, theta)`` for a `Landscape`, and the names of the observables."""

    action: Callable
    observe: Callable
    measure: Callable
    observables: tuple[str, ...]


@cache
def functions(theory: Theory, parameters: tuple[sp.Symbol, ...], uniform: bool) -> Functions:
    """Compile a theory; one call per theory, so that code compiled for it is found again.

    Args:
        parameters: those that theta starts with; a number of copied tokens among them or 1.
        uniform: whether the tokens are; otherwise theta goes on with their probabilities.
    """
    names, measure = _observables(theory, uniform)

    def stack(expressions):
        parts = [compiled(e, theory.coordinates, parameters) for e in expressions]
        return lambda x, P, theta: jnp.stack([f(x, P, theta) for f in parts])

    seen = stack(e for e in measure if not e.has(general.p_c))
    rest = [e for e in measure if e.has(general.p_c)]
    if rest:  # the weights at a symbol depend on its own probability
        place = names.index("w_rare")
        (expression,) = set(rest)
        weight = compiled(expression, (*theory.coordinates, general.p_c), parameters)

        def measured(x, P, theta):
            p, values = theta[len(parameters)], seen(x, P, theta)
            two = [weight(jnp.append(x, f(p)), P, theta) for f in (rarest, jnp.max)]
            return jnp.concatenate([values[:place], jnp.stack(two), values[place:]])

    else:
        measured = seen
    action = compiled(theory.action, theory.coordinates, parameters)
    return Functions(action, stack(theory.order_parameters), measured, names)


def compiled(expression: sp.Expr, coordinates, parameters) -> Callable:
    """A function ``(x, P, theta)`` of an expression in coordinates, P and the parameters."""
    expression = sp.sympify(expression)
    if sym.s not in parameters:
        expression = expression.subs(sym.s, 1)
    arguments = (*parameters, general.p) if expression.has(general.p) else parameters
    function = lower(expression, (*coordinates, sym.P, *arguments))
    logarithmic = [symbol in (rho2, tau2) for symbol in coordinates]

    def evaluate(x, P, theta):
        values = (jnp.exp(x[i]) if log else x[i] for i, log in enumerate(logarithmic))
        return function(*values, P, *theta[: len(arguments)])

    return evaluate


def _observables(theory: Theory, uniform: bool) -> tuple[tuple[str, ...], list[sp.Expr]]:
    """Names and expressions of what is measured at a minimum.

    The training loss per position is the derivative of the free energy,
    ``(2/P) d(S + P y^2/2 kappa)/d(1/kappa)`` with the target's square y^2, which at a stationary
    point is that of the action at fixed order parameters.
    """
    square = target_square_step().value
    train = square - 2 * sym.kappa**2 / sym.P * sp.diff(theory.action, sym.kappa)
    if uniform:
        weights, posterior = ("w_u", "w"), posterior_values()
        mean, first, second, sample = (
            e.subs(posterior)
            for e in (mean_predictor_loss_step().value, w_u, w, test_loss_step().value)
        )
    else:
        weights = ("w_rare", "w_frequent")
        mean, sample = general.losses()
        first = second = general.own_weight()
    found = {"test_loss_mean": mean, weights[0]: first, weights[1]: second}
    if theory.fluctuates:
        found["test_loss"] = sample
    if theory.coverage is not None:
        found["coverage"] = theory.coverage
    at_point = [e.subs(dict(theory.invariants)).subs(sym.lam, sym.LAMBDA) for e in found.values()]
    return ("train_loss", *found), [train, *at_point]
