"""The actions of the copy task as landscapes, at each level of theory."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import jax.numpy as jnp
import numpy as np
import sympy as sp
from scipy.special import lambertw

from phasetheory.copytask.setting import Setting
from phasetheory.copytask.tokens import PARAMETERS, rarest
from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.landscape.model import Landscape
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic import tokens as general
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
        setting: where it gives token probabilities, the observables w_rare and w_frequent (the
            posterior mean of W_vv at the rarest symbol that occurs and at the most frequent one)
            take the place of w_u and w.
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
    name = f"{attention} attention, level {level}"
    if setting.tokens is not None:
        name += f", effectively {setting.effective_V:.4g} symbols"
    common = {
        "name": name,
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
    if setting.tokens is not None:
        p = np.array(setting.tokens)
        common["arrays"] = (p / p.sum(),)
    build = {"linear": _linear, "softmax": _softmax}[attention]
    return Landscape(**build(setting, level), **common)


def _linear(setting: Setting, level: str) -> dict:
    pooling, copying = 8 * _pooling_scale(setting), 8 * _copying_scale(setting)
    bounds = ((-pooling - copying, pooling + copying), (-copying, copying))
    uniform = setting.tokens is None
    values = {
        "variables": ("alpha", "c_G"),
        "action": _linear_action(level, uniform),
        "bounds": bounds,
        "observe": _linear_observe,
        "order_parameters": ("c_1", "c_G", "alpha"),
        "jump_parameters": ("c_1", "c_G"),
        "measure": _linear_measure(level, uniform),
        "observables": _observable_names(level, uniform),
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
    uniform = setting.tokens is None
    return {
        "variables": ("h",),
        "action": _softmax_action(level, uniform),
        "bounds": ((-8.0, 8.0 + 2 * math.log(setting.L) + 2 * _best_logit(setting, setting.V)),),
        "observe": _softmax_observe(),
        "order_parameters": ("a", "a_G", "h"),
        "jump_parameters": ("a",),
        "measure": _softmax_measure(level, uniform),
        "observables": _observable_names(level, uniform),
    }


_LINEAR_COORDINATES = (sym.alpha, sym.c_G)
_MEANFIELD_COORDINATES = (sym.alpha, sym.c_G, rho2, tau2)


def _compile(expression, coordinates) -> Callable:
    """A function ``(x, P, theta)`` of an expression in coordinates, P and the parameters.

    ``rho^2`` and ``tau^2`` are positive: their coordinates are the logarithms. Theta ends with the
    token probabilities where the setting has any; an expression need not depend on them.
    """
    parameters = (*PARAMETERS, general.p) if expression.has(general.p) else PARAMETERS
    function = lower(expression, (*coordinates, sym.P, *parameters))
    positive = [symbol in (rho2, tau2) for symbol in coordinates]

    def compiled(x, P, theta):
        values = (jnp.exp(x[i]) if log else x[i] for i, log in enumerate(positive))
        return function(*values, P, *theta[: len(parameters)])

    return compiled


def _stack(functions: Sequence[Callable]) -> Callable:
    return lambda x, P, theta: jnp.stack([f(x, P, theta) for f in functions])


@cache
def _linear_steps(level: str, uniform: bool):
    """(action, invariants, coordinates) of linear attention at a level."""
    if level == "meanfield":
        steps, key, coordinates = (
            linear_meanfield_derivation(),
            "invariants",
            _MEANFIELD_COORDINATES,
        )
        action = steps["meanfield"].value
    else:
        steps, key, coordinates = linear_derivation(), "ansatz", _LINEAR_COORDINATES
        action = steps[f"{level}_in_alpha"].value
    invariants = {equation.lhs: equation.rhs for equation in steps[key].value}
    return _at_tokens(action, invariants, level, uniform), invariants, coordinates


@cache
def _softmax_steps(level: str, uniform: bool):
    """(action, invariants, coordinates) of softmax attention at a level."""
    steps = softmax_derivation()
    weight = steps["weight"].value
    invariants = {e.lhs: e.rhs.subs(sym.a, weight) for e in steps["ansatz"].value}
    action = steps[level].value
    return _at_tokens(action, invariants, level, uniform), invariants, (sym.h,)


def _at_tokens(action, invariants: dict, level: str, uniform: bool):
    """An action for uniform tokens, or what of it is not data with the general data term."""
    if uniform:
        return action
    data = general.data_gain()
    if level != "map":
        data += general.data_log_cost()
    return action.subs(sym.P, 0) + data.subs(invariants)


@cache
def _linear_action(level: str, uniform: bool) -> Callable:
    action, _, coordinates = _linear_steps(level, uniform)
    return _compile(action, coordinates)


@cache
def _linear_measure(level: str, uniform: bool) -> Callable:
    overlap = (sym.alpha**2 + (sym.L - 1) * sym.c_G**2) / sym.q
    return _measure(level, uniform, *_linear_steps(level, uniform), overlap)


def _linear_observe(x, P, theta):
    return jnp.stack([x[0] - x[1], x[1], x[0]])


@cache
def _meanfield_observe() -> Callable:
    _, invariants, coordinates = _linear_steps("meanfield", True)
    expressions = (sym.alpha, sym.alpha - sym.c_G, sym.c_G, invariants[sym.q])
    return _stack([_compile(e, coordinates) for e in expressions])


def _free_fluctuations(setting: Setting) -> list[float]:
    values = {sym.L: setting.L, sym.sigma_g: setting.sigma_g}
    steps = linear_meanfield_derivation()["free"].value
    return [float(equation.rhs.subs(values)) for equation in steps]


@cache
def _softmax_action(level: str, uniform: bool) -> Callable:
    action, _, coordinates = _softmax_steps(level, uniform)
    return _compile(action, coordinates)


@cache
def _softmax_measure(level: str, uniform: bool) -> Callable:
    return _measure(level, uniform, *_softmax_steps(level, uniform), None)


@cache
def _softmax_observe() -> Callable:
    steps = softmax_derivation()
    weight = steps["weight"].value
    copying = steps["order_parameters"].value[0].rhs.subs(sym.a, weight)
    return _stack([_compile(e, (sym.h,)) for e in (weight, copying, sym.h)])


def _observable_names(level: str, uniform: bool) -> tuple[str, ...]:
    weights = ("w_u", "w") if uniform else ("w_rare", "w_frequent")
    names = ("train_loss", "test_loss_mean", *weights)
    if level != "map":  # at the maximum of the posterior nothing fluctuates
        names = (*names, "test_loss")
    return (*names, "coverage") if level == "meanfield" else names


def _measure(level: str, uniform: bool, action, invariants: dict, coordinates, overlap) -> Callable:
    """The observables of a state, in the order of `_observable_names`.

    The training loss per position is the derivative of the free energy,
    ``(2/P) d(S + P/2 kappa)/d(1/kappa)``, which at a stationary point is that of the action at
    fixed order parameters.
    """

    def at_point(expression):
        return expression.subs(invariants).subs(sym.lam, sym.LAMBDA)

    if uniform:
        posterior = posterior_values()
        mean, w_first, w_second, sample = (
            _compile(at_point(e.subs(posterior)), coordinates)
            for e in (mean_predictor_loss_step().value, w_u, w, test_loss_step().value)
        )
    else:
        mean, sample = (_compile(at_point(e), coordinates) for e in general.losses())
        weight = _compile(at_point(general.own_weight()), (*coordinates, general.p_c))
        w_first, w_second = (_at_symbol(weight, choose) for choose in (rarest, jnp.max))
    train = 1 - 2 * sym.kappa**2 / sym.P * sp.diff(action, sym.kappa)
    functions = [_compile(train, coordinates), mean, w_first, w_second]
    if level != "map":
        functions.append(sample)
    if level == "meanfield":
        functions.append(_compile(at_point(overlap), coordinates))
    return _stack(functions)


def _at_symbol(weight: Callable, choose: Callable) -> Callable:
    """A function of the coordinates and a probability, at one chosen from the setting's."""
    return lambda x, P, theta: weight(jnp.append(x, choose(theta[-1])), P, theta)


def typical_range(attention: str, setting: Setting) -> tuple[float, float]:
    """A range of P that holds the transitions and crossovers, from rough scaling estimates.

    Only the range comes from these estimates (theory note, section 4), none of the results.
    """
    # the effective number of symbols and all of them are the two ends of what counts as V
    ranges = [_range(attention, setting, V) for V in (setting.effective_V, setting.V)]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _range(attention: str, setting: Setting, V: float) -> tuple[float, float]:
    L, kappa = setting.L, setting.kappa
    prior = kappa / (setting.sigma_g * setting.sigma_w)
    # the number of sequences that pays for the logarithms of the marginal over W
    logs = kappa * V**2 / setting.var_w * max(1.0, setting.var_w)
    if attention == "linear":
        onset = max(prior * V * L, kappa * V**2)
        copying = max(prior * L**1.5 * V**0.5, onset)
        return _round(min(prior * V * L, kappa * V**2) / 10, copying * 20)
    h = _best_logit(setting, V)
    threshold = kappa * L / setting.var_g * h * (h + 1)
    return _round(threshold / 20, (threshold + logs * math.log(L)) * 20)


def _round(low: float, high: float) -> tuple[float, float]:
    return float(f"{low:.1g}"), float(f"{high:.1g}")


def _best_logit(setting: Setting, V: float) -> float:
    """The copy logit that balances its prior against that of W at large L."""
    z = 2 * V * setting.L * setting.var_g / setting.var_w
    return float(lambertw(z).real) / 2


def _pooling_scale(setting: Setting) -> float:
    """The size of alpha that balances the priors of A and W once pooling is learnt."""
    return math.sqrt(setting.sigma_g / (setting.sigma_w * setting.L))


def _copying_scale(setting: Setting) -> float:
    """The size of c_G that balances the priors of A and W once copying is learnt."""
    return (setting.V * setting.var_g / (setting.var_w * setting.L**3)) ** 0.25
