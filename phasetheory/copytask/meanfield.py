"""Softmax attention at the level meanfield: the row-wise theory as a landscape in its fields."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import sympy as sp

from phasetheory.copytask.rows import RowAverage, log_z, row_average
from phasetheory.copytask.setting import Setting
from phasetheory.copytask.theory import Theory, functions
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.meanfield import (
    b_hat,
    q_hat,
    softmax_meanfield_derivation,
)
from phasetheory.symbolic.meanfield import (
    row_average as z,
)

_LOG_Z = sp.Symbol("log_z", real=True)


def softmax_meanfield(
    setting: Setting, P_range: tuple[float, float], parameters: tuple[sp.Symbol, ...]
) -> dict:
    """The parts of the landscape that depend on the level (`softmax_meanfield_derivation`).

    The coordinates are the logarithms of the fields over ``P/(kappa L)``. Each pair of fields
    belongs to one b and q, at which the action is ``F(b, q)``; so minima in the fields are minima
    in b and q.
    """
    bounds = _field_bounds(setting, P_range)
    largest = P_range[1] / (setting.kappa * setting.L)
    rows = row_average(
        setting.L, setting.sigma_g, *(largest * math.exp(high) for _, high in bounds)
    )
    action, observe, measure, names = _functions(parameters, setting.tokens is None)
    return {
        "variables": ("log b_hat/P", "log q_hat/P"),
        "bounds": bounds,
        "action": action,
        "observe": observe,
        "order_parameters": ("a", "a_G", "q"),
        "measure": measure,
        "observables": names,
        "arrays": tuple(rows),
        "descent": 0,
    }


def _field_bounds(setting: Setting, P_range: tuple[float, float]):
    """Bounds of the coordinates at all stationary points in a range of P.

    With uniform tokens ``b_hat = P (1 - 1/V) w/(kappa L)`` and
    ``q_hat = P (1 - 1/V) (w^2 + V v)/(2 kappa L)``, where ``1 <= b`` and ``1 <= q <= L`` bound the
    eigenvalue ``w = lambda b/(1 + lambda q)`` of W and ``v = sigma_w^2/(1 + lambda q)``, and
    Cauchy's inequality ``w <= sqrt(L)/2`` since ``q >= L (a^2 + (1-a)^2/(L-1))``. The lower
    bounds, which wide priors come close to at small P, are halved.
    """
    V, L = setting.V, setting.L
    low, high = (P * setting.var_w / (V * setting.kappa * L) for P in P_range)
    # other probabilities than uniform ones: fields shrink with the share of what can be learnt
    share = 1 - 1 / V if setting.tokens is None else 1 / (2 * V)
    b_range = (share * low / (2 * (1 + low * L)), 1 + math.sqrt(L) / 2)
    q_low = share * V * setting.var_w / (4 * (1 + high * L))
    q_high = (1 + math.sqrt(L) / 2) ** 2 / 2 + V * setting.var_w / (2 * (1 + low))
    return tuple((math.log(lo), math.log(hi)) for lo, hi in (b_range, (q_low, q_high)))


@cache
def _functions(parameters: tuple[sp.Symbol, ...], uniform: bool):
    """(action, observe, measure, names of the observables)."""
    action = softmax_meanfield_derivation()["meanfield"].value
    action = action.subs(z(b_hat, q_hat), sp.exp(_LOG_Z)).subs(sym.lam, sym.LAMBDA)
    a = sym.b / sym.L
    aligned = sym.L * (a**2 + (1 - a) ** 2 / (sym.L - 1))
    theory = Theory(
        (sym.b, sym.q, b_hat, q_hat, _LOG_Z),
        action,
        ((sym.r, sym.L), (sym.b_u, sym.L)),
        (a, (sym.b - 1) / (sym.L - 1), sym.q),
        coverage=aligned / sym.q,
    )
    kappa = parameters.index(sym.kappa)
    found = functions(theory if uniform else theory.at_tokens(), parameters, uniform)

    def at_rows(function):
        """A function of the fields, from one of b, q, the fields and log z."""

        def evaluate(x, P, theta):
            fields = jnp.exp(x) * P / (theta[kappa] * theta[0])
            rows = RowAverage(*theta[-3:])
            value, slope = jax.value_and_grad(lambda f: log_z(f[0], f[1], rows))(fields)
            b, q = theta[0] * slope[0], -theta[0] * slope[1]
            return function(jnp.stack([b, q, fields[0], fields[1], value]), P, theta)

        return evaluate

    return (
        at_rows(found.action),
        at_rows(found.observe),
        at_rows(found.measure),
        found.observables,
    )
