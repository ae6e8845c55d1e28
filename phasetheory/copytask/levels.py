"""The actions of the copy task as landscapes, at each level of theory."""

import math
from collections.abc import Callable
from functools import cache

import jax.numpy as jnp
from scipy.special import lambertw

from phasetheory.copytask.setting import Setting
from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.landscape.model import Landscape
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.softmax import softmax_derivation

ATTENTIONS = ("linear", "softmax")
LEVELS = ("tree", "map")

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
        level: "tree" (with the logarithms of the marginal over W) or "map" (without).
        P_range: lowest and highest P, on a logarithmic scale; by default `typical_range`.

    Raises:
        InputError: for an unknown attention or level, or an unusable range.
    """
    if attention not in ATTENTIONS:
        raise InputError(f"attention is {' or '.join(ATTENTIONS)}, not {attention!r}")
    if level not in LEVELS:
        raise InputError(
            f"the level of {attention} attention is {' or '.join(LEVELS)}, not {level!r}"
        )
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
    if attention == "linear":
        pooling, copying = 8 * _pooling_scale(setting), 8 * _copying_scale(setting)
        return Landscape(
            variables=("alpha", "c_G"),
            action=_linear_action(level),
            bounds=((-pooling - copying, pooling + copying), (-copying, copying)),
            observe=_linear_observe,
            order_parameters=("c_1", "c_G", "alpha"),
            jump_parameters=("c_1", "c_G"),
            **common,
        )
    return Landscape(
        variables=("h",),
        action=_softmax_action(level),
        bounds=((-8.0, 8.0 + 2 * math.log(setting.L) + 2 * _best_logit(setting)),),
        observe=_softmax_observe(),
        order_parameters=("a", "a_G", "h"),
        jump_parameters=("a",),
        **common,
    )


@cache
def _linear_action(level: str) -> Callable:
    in_alpha = linear_derivation()[f"{level}_in_alpha"].value
    action = lower(in_alpha, (sym.alpha, sym.c_G, sym.P, *_PARAMETERS))
    return lambda x, P, theta: action(x[0], x[1], P, *theta)


def _linear_observe(x, P, theta):
    return jnp.stack([x[0] - x[1], x[1], x[0]])


@cache
def _softmax_action(level: str) -> Callable:
    action = lower(softmax_derivation()[level].value, (sym.h, sym.P, *_PARAMETERS))
    return lambda x, P, theta: action(x[0], P, *theta)


@cache
def _softmax_observe() -> Callable:
    steps = softmax_derivation()
    weight = steps["weight"].value
    copying = steps["order_parameters"].value[0].rhs.subs(sym.a, weight)
    a = lower(weight, (sym.h, sym.L))
    a_G = lower(copying, (sym.h, sym.L))
    return lambda x, P, theta: jnp.stack([a(x[0], theta[0]), a_G(x[0], theta[0]), x[0]])


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
