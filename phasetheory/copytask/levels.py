"""The actions of the copy task as landscapes, at each level of theory."""

from functools import cache

import numpy as np
import sympy as sp

from phasetheory.copytask import scales
from phasetheory.copytask.meanfield import softmax_meanfield
from phasetheory.copytask.setting import Setting
from phasetheory.copytask.theory import Functions, Theory, functions
from phasetheory.errors import InputError
from phasetheory.landscape.model import Landscape
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.heads import c, heads_derivation, u_alpha, u_c, u_h
from phasetheory.symbolic.meanfield import linear_meanfield_derivation, rho2, tau2
from phasetheory.symbolic.sparse import sparse_derivation

ATTENTIONS = ("linear", "softmax")
LEVELS = ("tree", "map", "meanfield")


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
        setting: where it gives token probabilities, the observables w_rare and w_frequent (the
            posterior mean of W_vv at the rarest symbol that occurs and at the most frequent one)
            take the place of w_u and w. A finite head dimension exists at "map" (coordinates the
            square roots of alpha and of the amplitude of copying, or of h), several copied tokens
            at "tree" and "map".
        level: "tree" (with the logarithms of the marginal over W), "map" (without), or "meanfield"
            (with all fluctuations): linear with the logarithms of rho^2 and tau^2 as further
            coordinates and the order parameters alpha, c_1, c_G, q; softmax with the logarithms of
            the two fields on a row as coordinates and the order parameters a, a_G, q.
        P_range: lowest and highest P, on a logarithmic scale; by default `scales.typical_range`.

    Raises:
        InputError: for an unknown attention or level, a setting that the level does not cover, or
            an unusable range.
    """
    if attention not in ATTENTIONS:
        raise InputError(f"attention is {' or '.join(ATTENTIONS)}, not {attention!r}")
    if level not in LEVELS:
        raise InputError(f"the level is {' or '.join(LEVELS)}, not {level!r}")
    _check_setting(attention, setting, level)
    low, high = P_range or scales.typical_range(attention, setting)
    if not low > 0:
        raise InputError(f"P counts sequences: its range starts above 0, not at {low:g}")
    parameters = {
        sym.L: setting.L,
        sym.V: setting.V,
        sym.kappa: setting.kappa,
        sym.sigma_g: setting.sigma_g,
        sym.sigma_w: setting.sigma_w,
    }
    if setting.ones > 1:
        parameters[sym.s] = setting.ones
    if setting.head_dimension is not None:
        parameters[sym.N] = setting.head_dimension
    arrays = ()
    if setting.tokens is not None:
        p = np.array(setting.tokens)
        arrays = (p / p.sum(),)
    if setting.head_dimension is not None:
        fields = _heads(attention, setting, tuple(parameters))
    elif attention == "linear":
        fields = _linear(setting, level, tuple(parameters))
    elif level == "meanfield":
        fields = softmax_meanfield(setting, (low, high), tuple(parameters))
        arrays += fields.pop("arrays")
    else:
        fields = _softmax(setting, level, tuple(parameters))
    name = f"{attention} attention, level {level}"
    if setting.tokens is not None:
        name += f", effectively {setting.effective_V:.4g} symbols"
    return Landscape(
        name=name,
        control="P",
        control_range=(float(low), float(high)),
        control_scale="log",
        parameters={str(symbol): value for symbol, value in parameters.items()},
        arrays=arrays,
        **fields,
    )


def _check_setting(attention: str, setting: Setting, level: str) -> None:
    if setting.ones > 1 and level == "meanfield":
        raise InputError("a target of several ones exists at the levels tree and map")
    if setting.ones > 1 and setting.tokens is not None:
        raise InputError("token probabilities go with a target of one token, ones = 1")
    if setting.head_dimension is None:
        return
    if level != "map":
        raise InputError(f"a finite head dimension exists at the level map, not at {level}")
    if setting.ones > 1:
        raise InputError("a finite head dimension goes with a target of one token, ones = 1")
    if setting.tokens is not None:
        raise InputError("a finite head dimension goes with equally frequent tokens")
    if attention == "softmax" and setting.head_dimension < setting.L - 1:
        raise InputError(
            f"softmax attention needs a head dimension of at least L - 1 = {setting.L - 1}, not "
            f"{setting.head_dimension}: the rank of its symmetric logits is L - 1"
        )


def _fields(found: Functions) -> dict:
    return {
        "action": found.action,
        "observe": found.observe,
        "measure": found.measure,
        "observables": found.observables,
    }


def _linear(setting: Setting, level: str, parameters: tuple[sp.Symbol, ...]) -> dict:
    pooling, copying = 8 * scales.pooling(setting), 8 * scales.copying(setting)
    largest = pooling + setting.ones * copying
    bounds = ((-largest, largest), (-copying, copying))
    uniform = setting.tokens is None
    values = {
        "variables": ("alpha", "c_G"),
        "bounds": bounds,
        "order_parameters": ("c_1", "c_G", "alpha"),
        "jump_parameters": ("c_1", "c_G"),
        **_fields(functions(_linear_theory(level, uniform), parameters, uniform)),
    }
    if level == "meanfield":
        sizes = {sym.L: setting.L, sym.sigma_g: setting.sigma_g}
        free = linear_meanfield_derivation()["free"].value
        logs = [float(sp.log(equation.rhs.subs(sizes))) for equation in free]
        values |= {
            "variables": ("alpha", "c_G", "log rho^2", "log tau^2"),
            "bounds": (*bounds, *((f - 12.0, f + 3.0) for f in logs)),
            "order_parameters": ("alpha", "c_1", "c_G", "q"),
        }
    return values


@cache
def _linear_theory(level: str, uniform: bool) -> Theory:
    if level == "meanfield":
        steps = linear_meanfield_derivation()
        invariants = {equation.lhs: equation.rhs for equation in steps["invariants"].value}
        overlap = sym.alpha**2 + (sym.L - 1) * sym.c_G**2
        theory = Theory(
            (sym.alpha, sym.c_G, rho2, tau2),
            steps["meanfield"].value,
            tuple(invariants.items()),
            (sym.alpha, sym.alpha - sym.c_G, sym.c_G, invariants[sym.q]),
            coverage=overlap / invariants[sym.q],
        )
    else:
        steps = sparse_derivation()
        theory = Theory(
            (sym.alpha, sym.c_G),
            steps[f"linear_{level}"].value,
            tuple((e.lhs, e.rhs) for e in steps["linear_ansatz"].value),
            (sym.alpha - sym.s * sym.c_G, sym.c_G, sym.alpha),
            fluctuates=level != "map",
        )
    return theory if uniform else theory.at_tokens()


def _softmax(setting: Setting, level: str, parameters: tuple[sp.Symbol, ...]) -> dict:
    uniform = setting.tokens is None
    return {
        "variables": ("h",),
        "bounds": ((-8.0, scales.largest_logit(setting)),),
        "order_parameters": ("a", "a_G", "h"),
        "jump_parameters": ("a",),
        **_fields(functions(_softmax_theory(level, uniform), parameters, uniform)),
    }


@cache
def _softmax_theory(level: str, uniform: bool) -> Theory:
    theory = Theory(
        (sym.h,),
        sparse_derivation()[f"softmax_{level}"].value,
        _softmax_invariants(),
        _softmax_order_parameters(),
        fluctuates=level != "map",
    )
    return theory if uniform else theory.at_tokens()


def _softmax_invariants():
    steps = sparse_derivation()
    weight = steps["weight"].value
    return tuple((e.lhs, e.rhs.subs(sym.a, weight)) for e in steps["ansatz"].value)


def _softmax_order_parameters() -> tuple[sp.Expr, ...]:
    """a, a_G and h as functions of h."""
    steps = sparse_derivation()
    weight = steps["weight"].value
    return weight, steps["order_parameters"].value[0].rhs.subs(sym.a, weight), sym.h


def _heads(attention: str, setting: Setting, parameters: tuple[sp.Symbol, ...]) -> dict:
    N = setting.head_dimension or 1
    if attention == "softmax":
        names, coordinates = ("sqrt h",), (u_h,)
        largest = [scales.largest_logit(setting)]
        order = {"order_parameters": ("a", "a_G", "h"), "jump_parameters": ("a",)}
    else:
        names, coordinates = ("sqrt alpha", "sqrt c"), (u_alpha, u_c)
        largest = [4 * scales.head_amplitudes(setting)] * 2
        order = {
            "order_parameters": ("c_1", "c_G", "alpha"),
            "jump_parameters": ("c_1", "c_G"),
        }
        if N == 1:  # one column of Q and of K: pooling only
            names, coordinates, largest = names[:1], coordinates[:1], largest[:1]
    theory = _heads_theory(attention, coordinates)
    return {
        "variables": names,
        "bounds": tuple((-(x**0.5), x**0.5) for x in largest),
        **order,
        **_fields(functions(theory, parameters, True)),
    }


@cache
def _heads_theory(attention: str, coordinates) -> Theory:
    steps = heads_derivation()
    if attention == "softmax":
        order = _softmax_order_parameters()
        values = {sym.h: steps["softmax_smooth"].value, sym.s: 1}
        invariants = _softmax_invariants()
    else:
        c_G, c_1 = (e.rhs for e in steps["linear_order_parameters"].value)
        order = (c_1.subs(sym.c_G, c_G), c_G, sym.alpha)
        values = {e.lhs: e.rhs for e in steps["linear_smooth"].value}
        values[sym.M] = sp.Min(sym.L, sym.N).rewrite(sp.Abs)
        if u_c not in coordinates:
            values[c] = sp.S.Zero
        invariants = tuple((e.lhs, e.rhs) for e in steps["linear_ansatz"].value)
    return Theory(
        coordinates,
        steps[f"{attention}_map"].value.subs(values),
        tuple((symbol, e.subs(values)) for symbol, e in invariants),
        tuple(e.subs(values) for e in order),
        fluctuates=False,
    )
