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
from phasetheory.symbolic.heads import c, heads_derivation, u_alpha, u_c, u_h
from phasetheory.symbolic.meanfield import linear_meanfield_derivation, rho2, tau2
from phasetheory.symbolic.observables import (
    mean_predictor_loss_step,
    posterior_values,
    target_square_step,
    test_loss_step,
    w,
    w_u,
)
from phasetheory.symbolic.sparse import sparse_derivation

ATTENTIONS = ("linear", "softmax")
LEVELS = {"linear": ("tree", "map", "meanfield"), "softmax": ("tree", "map")}

_PARAMETERS = (sym.L, sym.V, sym.kappa, sym.sigma_g, sym.sigma_w, sym.s)
#: with a finite head dimension
_HEAD_PARAMETERS = (*_PARAMETERS, sym.N)


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
            rho^2 and tau^2, order parameters alpha, c_1, c_G, q). A finite head dimension exists
            at "map" (coordinates the square roots of alpha and of the amplitude of copying, or of
            h), several ones at "tree" and "map".
        P_range: lowest and highest P, on a logarithmic scale; by default `typical_range`.

    Raises:
        InputError: for an unknown attention or level, a setting that the level does not have, or
            an unusable range.
    """
    if attention not in ATTENTIONS:
        raise InputError(f"attention is {' or '.join(ATTENTIONS)}, not {attention!r}")
    if level not in LEVELS[attention]:
        known = " or ".join(LEVELS[attention])
        raise InputError(f"the level of {attention} attention is {known}, not {level!r}")
    _check_setting(attention, setting, level)
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
            "s": setting.ones,
        },
    }
    if setting.head_dimension is not None:
        common["parameters"]["N"] = setting.head_dimension
        return Landscape(**_heads(attention, setting), **common)
    build = {"linear": _linear, "softmax": _softmax}[attention]
    return Landscape(**build(setting, level), **common)


def _check_setting(attention: str, setting: Setting, level: str) -> None:
    if setting.ones > 1 and level == "meanfield":
        raise InputError("a target of several ones exists at the levels tree and map")
    if setting.head_dimension is None:
        return
    if level != "map":
        raise InputError(f"a finite head dimension exists at the level map, not at {level}")
    if setting.ones > 1:
        raise InputError("a finite head dimension exists for one copied token, ones = 1")
    if attention == "softmax" and setting.head_dimension < setting.L - 1:
        raise InputError(
            f"softmax attention needs a head dimension of at least L - 1 = {setting.L - 1}, not "
            f"{setting.head_dimension}: the rank of its symmetric logits is L - 1"
        )


def _linear(setting: Setting, level: str) -> dict:
    pooling, copying = 8 * _pooling_scale(setting), 8 * _copying_scale(setting)
    largest = pooling + setting.ones * copying
    bounds = ((-largest, largest), (-copying, copying))
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


def _compile(expression, coordinates, parameters=_PARAMETERS) -> Callable:
    """A function ``(x, P, theta)`` of an expression in coordinates, P and the parameters.

    ``rho^2`` and ``tau^2`` are positive: their coordinates are the logarithms.
    """
    function = lower(expression, (*coordinates, sym.P, *parameters))
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
    steps = sparse_derivation()
    return steps[f"linear_{level}"].value, steps["linear_ansatz"].value, _LINEAR_COORDINATES


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
    return jnp.stack([x[0] - theta[_PARAMETERS.index(sym.s)] * x[1], x[1], x[0]])


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
    action = sparse_derivation()[f"softmax_{level}"].value
    return _compile(action, (sym.h,)), _observable_names(level)


@cache
def _softmax_measure(level: str) -> Callable:
    steps = sparse_derivation()
    values = {e.lhs: e.rhs.subs(sym.a, steps["weight"].value) for e in steps["ansatz"].value}
    return _measure(level, steps[f"softmax_{level}"].value, values, None, (sym.h,))


@cache
def _softmax_observe() -> Callable:
    return _stack([_compile(e, (sym.h,)) for e in _softmax_order_parameters()])


def _softmax_order_parameters() -> tuple[sp.Expr, ...]:
    """a, a_G and h as functions of h."""
    steps = sparse_derivation()
    weight = steps["weight"].value
    return weight, steps["order_parameters"].value[0].rhs.subs(sym.a, weight), sym.h


def _heads(attention: str, setting: Setting) -> dict:
    N, prior = setting.head_dimension, math.sqrt(setting.head_dimension or 1) / setting.sigma_g
    if attention == "softmax":
        names, coordinates = ("sqrt h",), (u_h,)
        largest = [8.0 + 2 * math.log(setting.L)]
        order = {"order_parameters": ("a", "a_G", "h"), "jump_parameters": ("a",)}
    else:
        names, coordinates = ("sqrt alpha", "sqrt c"), (u_alpha, u_c)
        # amplitudes at which the priors of Q, K and W balance once the mode is learnt
        pooling = (prior * setting.L * setting.var_w) ** (-1 / 3)
        rank = min(setting.L, N or 1)
        copying = (prior * setting.L * rank * setting.var_w / setting.V) ** (-1 / 3)
        largest = [4 * (pooling + copying)] * 2
        order = {
            "order_parameters": ("c_1", "c_G", "alpha"),
            "jump_parameters": ("c_1", "c_G"),
        }
        if N == 1:  # one column of Q and of K: pooling only
            names, coordinates, largest = names[:1], coordinates[:1], largest[:1]
    action, observe, measure = _heads_functions(attention, coordinates)
    return {
        "variables": names,
        "action": action,
        "bounds": tuple((-math.sqrt(x), math.sqrt(x)) for x in largest),
        "observe": observe,
        "measure": measure,
        "observables": _observable_names("map"),
        **order,
    }


@cache
def _heads_functions(attention: str, coordinates) -> tuple[Callable, Callable, Callable]:
    """(action, observe, measure) at a finite head dimension."""
    steps = heads_derivation()
    if attention == "softmax":
        order = _softmax_order_parameters()
        values = {sym.h: steps["softmax_smooth"].value, sym.s: 1}
        softmax = sparse_derivation()
        weight = {sym.a: softmax["weight"].value}
        invariants = {e.lhs: e.rhs.subs(weight) for e in softmax["ansatz"].value}
    else:
        c_G, c_1 = (e.rhs for e in steps["linear_order_parameters"].value)
        order = (c_1.subs(sym.c_G, c_G), c_G, sym.alpha)
        values = {e.lhs: e.rhs for e in steps["linear_smooth"].value}
        values[sym.M] = sp.Min(sym.L, sym.N).rewrite(sp.Abs)
        if u_c not in coordinates:
            values[c] = sp.S.Zero
        invariants = {e.lhs: e.rhs for e in steps["linear_ansatz"].value}
    action = steps[f"{attention}_map"].value.subs(values)
    invariants = {symbol: e.subs(values) for symbol, e in invariants.items()}
    compiled = [_compile(e.subs(values), coordinates, _HEAD_PARAMETERS) for e in order]
    return (
        _compile(action, coordinates, _HEAD_PARAMETERS),
        _stack(compiled),
        _measure("map", action, invariants, None, coordinates, _HEAD_PARAMETERS),
    )


def _observable_names(level: str) -> tuple[str, ...]:
    names = ("train_loss", "test_loss_mean", "w_u", "w")
    if level != "map":  # at the maximum of the posterior nothing fluctuates
        names = (*names, "test_loss")
    return (*names, "coverage") if level == "meanfield" else names


def _measure(
    level: str, action, invariants: dict, overlap, coordinates, parameters=_PARAMETERS
) -> Callable:
    """The observables of a state, in the order of `_observable_names`.

    The training loss per position is the derivative of the free energy,
    ``(2/P) d(S + P y^2/2 kappa)/d(1/kappa)`` with the target's square y^2, which at a stationary
    point is that of the action at fixed order parameters.
    """
    square = target_square_step().value
    train = square - 2 * sym.kappa**2 / sym.P * sp.diff(action, sym.kappa)
    posterior = posterior_values()
    expressions = [mean_predictor_loss_step().value, w_u, w]
    if level != "map":
        expressions.append(test_loss_step().value)
    seen = [e.subs(posterior).subs(invariants).subs(sym.lam, sym.LAMBDA) for e in expressions]
    if level == "meanfield":
        seen.append(overlap)
    return _stack([_compile(e, coordinates, parameters) for e in (train, *seen)])


def typical_range(attention: str, setting: Setting) -> tuple[float, float]:
    """A range of P that holds the transitions and crossovers, from rough scaling estimates.

    Only the range comes from these estimates (theory note, section 4), none of the results.
    """
    L, V, kappa = setting.L, setting.V, setting.kappa
    prior = kappa / (setting.sigma_g * setting.sigma_w)
    # the number of sequences that pays for the logarithms of the marginal over W
    logs = kappa * V**2 / setting.var_w * max(1.0, setting.var_w)
    N, s = setting.head_dimension, setting.ones
    if N is not None:
        share = math.sqrt(N) / (setting.sigma_g * setting.sigma_w)
        onset = kappa * V * (4 * L * share) ** (2 / 3)
        if attention == "softmax":
            onset = 2 * kappa * L * math.sqrt(N) / setting.sigma_g * (1 + math.log(L))
        return _round(onset / 20, onset * max(1.0, L / min(L, N)) * 20)
    if attention == "linear":
        by_prior, by_logs = prior * V * L / s, kappa * V**2 / s**2
        copying = max(prior * L**1.5 * (V / s) ** 0.5, by_prior, by_logs)
        return _round(min(by_prior, by_logs) / 10, copying * 20)
    h = _best_logit(setting)
    threshold = kappa * L / setting.var_g * h * (h + 1)
    return _round(threshold / 20, (threshold + logs / s * math.log(L)) * 20)


def _round(low: float, high: float) -> tuple[float, float]:
    return float(f"{low:.1g}"), float(f"{high:.1g}")


def _best_logit(setting: Setting) -> float:
    """The copy logit that balances its prior against that of W at large L."""
    z = 2 * setting.V * setting.L * setting.var_g / (setting.ones * setting.var_w)
    return float(lambertw(z).real) / 2


def _pooling_scale(setting: Setting) -> float:
    """The size of alpha that balances the priors of A and W once pooling is learnt."""
    return math.sqrt(setting.ones * setting.sigma_g / (setting.sigma_w * setting.L))


def _copying_scale(setting: Setting) -> float:
    """The size of c_G that balances the priors of A and W once copying is learnt."""
    return (setting.V * setting.var_g / (setting.ones * setting.var_w * setting.L**3)) ** 0.25
