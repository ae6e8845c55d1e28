"""The actions of the copy task as landscapes, at each level of theory."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import jax.numpy as jnp
import sympy as sp
from scipy.special import lambertw

from phasetheory.copytask.setting import Setting
from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.landscape.model import Landscape
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.meanfield import linear_meanfield_derivation, rho2, tau2
from phasetheory.symbolic.observables import (
    mean_predictor_loss_step,
    posterior_values,
    test_loss_step,
    w,
    w_u,
)
from phasetheory.symbolic.softmax import softmax_derivation

ATTENTIONS = ("linear", "softmax")
LEVELS = {"linear": ("tree", "map", "meanfield"), "softmax": ("tree", "map")}

_PARAMETERS = (sym.L, sym.V, sym.kappa, sym.sigma_g, sym.sigma_w)


def landscape(
    attention: str,
    setting: Setting,
    level: str = "tree",
    P_range: tuple[float, float] | None = None,
) -> Landscape:
    """The landscape of an attention at a level, with the number of sequences P as its control.

    Args:
        attention: "linear" (coordinates alpha = c_1 + c_G and c_G; order parameters c_1, c_G,
            alpha) or "softmax" (coordinate h; order parameters a, a_G, h).
        level: "tree" (with the logarithms of the marginal over W), "map" (without), or, for linear
            attention, "meanfield" (with all fluctuations; coordinates also the logarithms of
            rho^2 and tau^2, order parameters alpha, c_1, c_G, q).
        P_range: lowest and highest P, on a logarithmic scale; by default `typical_range`.

    Raises:
        InputError: for an unknown attention or level, or an unusable range.
    """
    if attention not in ATTENTIONS:
        raise InputError(f"attention is {' or '.join(ATTENTIONS)}, not {attention!r}")
    if level not in LEVELS[attention]:
        known = " or ".join(LEVELS[attention])
        raise InputError(f"the level of {attention} attention is {known}, not {level!r}")
    low, high = P_range or typical_range(attention, setting)
    if not low > 0:
        raise InputError(f"P counts sequences: its range starts above 0, not at {low:g}")
    common = {
        "name": f"{attention} attention, level {level}",
        "control": "P",
        "control_range": (float(low), float(high)),
        "control_scale": "log",
        "parameters": {
            "L": setting.L,
            "V": setting.V,
            "kappa": setting.kappa,
            "sigma_g": setting.sigma_g,
            "sigma_w": setting.sigma_w,
        },
    }
    build = {"linear": _linear, "softmax": _softmax}[attention]
    return Landscape(**build(setting, level), **common)


def _linear(setting: Setting, level: str) -> dict:
    pooling, copying = 8 * _pooling_scale(setting), 8 * _copying_scale(setting)
    bounds = ((-pooling - copying, pooling + copying), (-copying, copying))
    action, names = _linear_action(level)
    values = {
        "variables": ("alpha", "c_G"),
        "action": action,
        "bounds": bounds,
        "observe": _linear_observe,
        "order_parameters": ("c_1", "c_G", "alpha"),
        "jump_parameters": ("c_1", "c_G"),
        "measure": _linear_measure(level),
        "observables": names,
    }
    if level == "meanfield":
        free = [math.log(v) for v in _free_fluctuations(setting)]
        values |= {
            "variables": ("alpha", "c_G", "log rho^2", "log tau^2"),
            "bounds": (*bounds, *((f - 12.0, f + 3.0) for f in free)),
            "observe": _meanfield_observe(),
            "order_parameters": ("alpha", "c_1", "c_G", "q"),
        }
    return values


def _softmax(setting: Setting, level: str) -> dict:
    action, names = _softmax_action(level)
    return {
        "variables": ("h",),
        "action": action,
        "bounds": ((-8.0, 8.0 + 2 * math.log(setting.L) + 2 * _best_logit(setting)),),
        "observe": _softmax_observe(),
        "order_parameters": ("a", "a_G", "h"),
        "jump_parameters": ("a",),
        "measure": _softmax_measure(level),
        "observables": names,
    }


_LINEAR_COORDINATES = (sym.alpha, sym.c_G)
_MEANFIELD_COORDINATES = (sym.alpha, sym.c_G, rho2, tau2)


def _compile(expression, coordinates) -> Callable:
    """A function ``(x, P, theta)`` of an expression in coordinates, P and the parameters.

    ``rho^2`` and ``tau^2`` are positive: their coordinates are the logarithms.
    """
    function = lower(expression, (*coordinates, sym.P, *_PARAMETERS))
    positive = [symbol in (rho2, tau2) for symbol in coordinates]

    def compiled(x, P, theta):
        values = (jnp.exp(x[i]) if log else x[i] for i, log in enumerate(positive))
        return function(*values, P, *theta)

    return compiled


def _stack(functions: Sequence[Callable]) -> Callable:
    return lambda x, P, theta: jnp.stack([f(x, P, theta) for f in functions])


@cache
def _linear_steps(level: str):
    """(action, invariants, coordinates) of linear attention at a level."""
    if level == "meanfield":
        steps = linear_meanfield_derivation()
        return steps["meanfield"].value, steps["invariants"].value, _MEANFIELD_COORDINATES
    steps = linear_derivation()
    return steps[f"{level}_in_alpha"].value, steps["ansatz"].value, _LINEAR_COORDINATES


@cache
def _linear_action(level: str) -> tuple[Callable, tuple[str, ...]]:
    action, _, coordinates = _linear_steps(level)
    return _compile(action, coordinates), _observable_names(level)


@cache
def _linear_measure(level: str) -> Callable:
    action, invariants, coordinates = _linear_steps(level)
    values = {equation.lhs: equation.rhs for equation in invariants}
    overlap = (sym.alpha**2 + (sym.L - 1) * sym.c_G**2) / values[sym.q]
    return _measure(level, action, values, overlap, coordinates)


def _linear_observe(x, P, theta):
    return jnp.stack([x[0] - x[1], x[1], x[0]])


@cache
def _meanfield_observe() -> Callable:
    _, invariants, coordinates = _linear_steps("meanfield")
    q = next(e.rhs for e in invariants if e.lhs == sym.q)
    expressions = (sym.alpha, sym.alpha - sym.c_G, sym.c_G, q)
    return _stack([_compile(e, coordinates) for e in expressions])


def _free_fluctuations(setting: Setting) -> list[float]:
    values = {sym.L: setting.L, sym.sigma_g: setting.sigma_g}
    steps = linear_meanfield_derivation()["free"].value
    return [float(equation.rhs.subs(values)) for equation in steps]


@cache
def _softmax_action(level: str) -> tuple[Callable, tuple[str, ...]]:
    action = softmax_derivation()[level].value
    return _compile(action, (sym.h,)), _observable_names(level)


@cache
def _softmax_measure(level: str) -> Callable:
    steps = softmax_derivation()
    values = {e.lhs: e.rhs.subs(sym.a, steps["weight"].value) for e in steps["ansatz"].value}
    return _measure(level, steps[level].value, values, None, (sym.h,))


@cache
def _softmax_observe() -> Callable:
    steps = softmax_derivation()
    weight = steps["weight"].value
    copying = steps["order_parameters"].value[0].rhs.subs(sym.a, weight)
    return _stack([_compile(e, (sym.h,)) for e in (weight, copying, sym.h)])


def _observable_names(level: str) -> tuple[str, ...]:
    names = ("train_loss", "test_loss_mean", "w_u", "w")
    if level != "map":  # at the maximum of the posterior nothing fluctuates
        names = (*names, "test_loss")
    return (*names, "coverage") if level == "meanfield" else names


def _measure(level: str, action, invariants: dict, overlap, coordinates) -> Callable:
    """The observables of a state, in the order of `_observable_names`.

    The training loss per position is the derivative of the free energy,
    ``(2/P) d(S + P/2 kappa)/d(1/kappa)``, which at a stationary point is that of the action at
    fixed order parameters.
    """
    train = 1 - 2 * sym.kappa**2 / sym.P * sp.diff(action, sym.kappa)
    posterior = posterior_values()
    expressions = [mean_predictor_loss_step().value, w_u, w]
    if level != "map":
        expressions.append(test_loss_step().value)
    seen = [e.subs(posterior).subs(invariants).subs(sym.lam, sym.LAMBDA) for e in expressions]
    if level == "meanfield":
        seen.append(overlap)
    return _stack([_compile(e, coordinates) for e in (train, *seen)])


def typical_range(attention: str, setting: Setting) -> tuple[float, float]:
    """A range of P that holds the transitions and crossovers, from rough scaling estimates.

    Only the range comes from these estimates (theory note, section 4), none of the results.
    """
    L, V, kappa = setting.L, setting.V, setting.kappa
    prior = kappa / (setting.sigma_g * setting.sigma_w)
    # the number of sequences that pays for the logarithms of the marginal over W
    logs = kappa * V**2 / setting.var_w * max(1.0, setting.var_w)
    if attention == "linear":
        onset = max(prior * V * L, kappa * V**2)
        copying = max(prior * L**1.5 * V**0.5, onset)
        return _round(min(prior * V * L, kappa * V**2) / 10, copying * 20)
    h = _best_logit(setting)
    threshold = kappa * L / setting.var_g * h * (h + 1)
    return _round(threshold / 20, (threshold + logs * math.log(L)) * 20)


def _round(low: float, high: float) -> tuple[float, float]:
    return float(f"{low:.1g}"), float(f"{high:.1g}")


def _best_logit(setting: Setting) -> float:
    """The copy logit that balances its prior against that of W at large L."""
    z = 2 * setting.V * setting.L * setting.var_g / setting.var_w
    return float(lambertw(z).real) / 2


def _pooling_scale(setting: Setting) -> float:
    """The size of alpha that balances the priors of A and W once pooling is learnt."""
    return math.sqrt(setting.sigma_g / (setting.sigma_w * setting.L))


def _copying_scale(setting: Setting) -> float:
    """The size of c_G that balances the priors of A and W once copying is learnt."""
    return (setting.V * setting.var_g / (setting.var_w * setting.L**3)) ** 0.25
