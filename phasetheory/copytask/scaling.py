"""How thresholds scale with a parameter of the setting: numbers, exponents, closed forms, costs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import sympy as sp
from scipy.optimize import brentq

from phasetheory.copytask.levels import landscape
from phasetheory.copytask.setting import Setting
from phasetheory.copytask.thresholds import BATCHED_LEVELS, QUANTITIES, Thresholds, thresholds
from phasetheory.errors import InputError
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.functions import logistic
from phasetheory.symbolic.thresholds import (
    costs,
    curvature_root,
    curvatures,
    thresholds_derivation,
    x,
)

OVER = ("L", "V", "kappa", "var_g", "var_w")
COSTS = ("prior of attention", "prior of W", "logarithms")
WINDOWS = (1 / 2, 1 / 3, 1 / 4)
CORRECTIONS = (None, -0.5, -1.0)
FEWEST = 6
METHOD = (
    "Least squares of log P = c + exponent * log s over the upper half, third and quarter of the "
    "range on a logarithmic scale, each without a correction and with one of s^(-1/2) or s^(-1). "
    "The exponent is the median over these fits and the interval reaches from the lowest to the "
    "highest: it is the uncertainty of the model that is fitted, not a statistical error. It says "
    "how far the exponent still depends on window and correction, and holds for this range only."
)
LOG_METHOD = (
    "As above with P divided by h(h + 1), h = W_0(2 V L var_g/var_w)/2 the logit of the closed form"
)
LOG_EXPONENT_METHOD = (
    "log P = log L + c + exponent * log h with the same windows on log L, without a correction and "
    "with one of 1/h or 1/h^2; h = W_0(2 V L var_g/var_w)/2, which grows as (ln L)/2"
)
JOINT_METHOD = (
    "log P = c + exponent * log L + delta * log h, without and with a term 1/h, over the upper "
    "3/4, half and third of the range; log L and log h are nearly collinear: the interval is wide"
)


@dataclass(frozen=True)
class Fit:
    """A fitted exponent.

    Attributes:
        name: what is fitted.
        exponent: the median over windows and corrections.
        interval: lowest and highest over them.
        method: what the interval means.
    """

    name: str
    exponent: float
    interval: tuple[float, float]
    method: str


@dataclass(frozen=True)
class Curve:
    """One threshold along the parameter.

    Attributes:
        found: the numbers, N settings.
        local: (N - 1,) exponents d log P/d log s between neighbours, and `local_error` the bound
            that follows from the errors of P; NaN next to a point not found.
        closed: closed forms by name, (N,) each; the first is the one for this level. NaN where a
            form does not apply.
        fits: fitted exponents; empty where fewer than `FEWEST` points were found.
        shares: (N, 3) shares of the costs `COSTS` at the threshold, NaN where unknown.
        decides: (N,) the cost that decides, "" where unknown.
    """

    found: Thresholds
    local: np.ndarray
    local_error: np.ndarray
    closed: dict[str, np.ndarray]
    fits: tuple[Fit, ...]
    shares: np.ndarray
    decides: np.ndarray

    @property
    def quantity(self) -> str:
        return self.found.quantity


@dataclass(frozen=True)
class ScalingReport:
    """Thresholds along one parameter.

    `status` is "complete" if every point was found; `problems` says which were not, and why.
    `notes` says where a prefactor differs from a simpler estimate.
    """

    attention: str
    level: str
    over: str
    values: np.ndarray
    settings: tuple[Setting, ...]
    curves: tuple[Curve, ...]
    status: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def scaling(
    attention: str,
    over: str,
    between: tuple[float, float],
    level: str = "tree",
    points: int = 25,
    setting: Setting | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScalingReport:
    """The thresholds of an attention along one parameter of the setting.

    Args:
        attention: "linear" (onset and copying crossover) or "softmax".
        over: one of `OVER`; the other parameters are those of `setting`.
        between: lowest and highest value; the points are even on a logarithmic scale, L and V
            rounded to whole numbers.
        points: how many, at least `FEWEST`.
        progress: called with the number of thresholds done since the last call, and in all.

    Raises:
        InputError: for an unusable argument.
    """
    setting = setting or Setting()
    if not setting.plain:
        raise InputError(
            "fits and closed forms are for equally frequent tokens, a target of one token and an "
            "infinite head dimension; `thresholds` takes any list of settings"
        )
    if over not in OVER:
        raise InputError(f"P can be followed over {', '.join(OVER)}, not {over!r}")
    values = _values(over, between, points)
    settings = tuple(replace(setting, **{over: value}) for value in values)
    landscape(attention, settings[0], level)  # complains about attention and level
    quantities = QUANTITIES[attention]
    total = len(quantities) * len(settings)
    curves = []
    for quantity in quantities:
        found = thresholds(
            attention,
            settings,
            level,
            quantity,
            progress=(lambda n: progress(n, total)) if progress else None,
        )
        curves.append(_curve(found, over, np.array(values, float), settings))
    problems = [
        f"{over} = {value:.6g}: no {curve.quantity} found ({text or 'unknown reason'})"
        for curve in curves
        for value, order, text in zip(values, curve.found.order, curve.found.problems, strict=True)
        if order == "not_found"
    ]
    return ScalingReport(
        attention=attention,
        level=level,
        over=over,
        values=np.array(values, float),
        settings=settings,
        curves=tuple(curves),
        status="incomplete" if problems else "complete",
        problems=tuple(problems),
        notes=tuple(_notes(attention, over, values, curves)),
    )


def _values(over: str, between: tuple[float, float], points: int) -> list:
    low, high = between
    whole = over in ("L", "V")
    if not (math.isfinite(low) and math.isfinite(high) and 0 < low < high):
        raise InputError(f"the range of {over} needs 0 < LO < HI, not {low:g}:{high:g}")
    if whole and low < 2:
        raise InputError(f"{over} must be at least 2, so its range cannot start at {low:g}")
    if whole and high > 10**9:
        raise InputError(f"{over} must be at most 10^9, so its range cannot end at {high:g}")
    if points < FEWEST:
        raise InputError(f"an exponent needs at least {FEWEST} points, not {points}")
    if points > 10_000:
        raise InputError(f"at most 10000 points are followed, not {points}")
    values = np.geomspace(low, high, points)
    values[0], values[-1] = low, high
    if not whole:
        return values.tolist()
    numbers = sorted({round(value) for value in values.tolist()})
    if len(numbers) < FEWEST:
        raise InputError(
            f"from {low:g} to {high:g} there are only {len(numbers)} whole numbers {over} on the "
            f"grid; an exponent needs at least {FEWEST}"
        )
    return numbers


def _curve(found: Thresholds, over: str, values, settings) -> Curve:
    log_s, log_P = np.log(values), np.log(found.P)
    steps = np.diff(log_s)
    relative = found.error / found.P
    closed = closed_forms(found.attention, found.quantity, found.level, settings)
    shares, decides = deciding_costs(found, settings)
    return Curve(
        found=found,
        local=np.diff(log_P) / steps,
        local_error=(relative[1:] + relative[:-1]) / steps,
        closed=closed,
        fits=tuple(_fits(found, over, values, settings)),
        shares=shares,
        decides=decides,
    )


# Fits


def _fits(found: Thresholds, over: str, values, settings):
    good = found.order != "not_found"
    if good.sum() < FEWEST:
        return
    s, P = values[good], found.P[good]
    log_s, log_P = np.log(s), np.log(P)
    # numerical error of an exponent over the narrowest window
    noise = 2 * float((found.error[good] / P).max()) / (WINDOWS[-1] * np.ptp(log_s))
    basis = [None if power is None else (s / s[-1]) ** power for power in CORRECTIONS]
    yield _fit("exponent", METHOD, log_s, log_s, log_P, basis, noise)
    if found.attention != "softmax":
        return
    h = best_logit(settings)[good]
    yield _fit("exponent beside h(h+1)", LOG_METHOD, log_s, log_s, log_P - np.log(h * (h + 1)),
               basis, noise)  # fmt: skip
    if over == "L":
        powers = [None, 1 / h, 1 / h**2]
        yield _fit("exponent of h beside L", LOG_EXPONENT_METHOD, log_s, np.log(h), log_P - log_s,
                   powers, noise * np.ptp(log_s) / np.ptp(np.log(h)))  # fmt: skip
        yield _joint(log_s, h, log_P)


def _fit(name, method, log_s, regressor, target, corrections, noise) -> Fit:
    exponents = []
    for share in WINDOWS:
        inside = log_s >= log_s[-1] - share * np.ptp(log_s) - 1e-9
        inside[-FEWEST + 1 :] = True
        for correction in corrections:
            columns = [np.ones(inside.sum()), regressor[inside]]
            if correction is not None:
                columns.append(correction[inside])
            exponents.append(_slope(columns, target[inside]))
    low, high = min(exponents) - noise, max(exponents) + noise
    return Fit(name, float(np.median(exponents)), (float(low), float(high)), method)


def _joint(log_s, h, log_P) -> Fit:
    exponents = []
    for share in (3 / 4, 1 / 2, 1 / 3):
        inside = log_s >= log_s[-1] - share * np.ptp(log_s) - 1e-9
        inside[-FEWEST + 1 :] = True
        columns = [np.ones(inside.sum()), log_s[inside], np.log(h[inside]), 1 / h[inside]]
        exponents += [_slope(columns[:count], log_P[inside]) for count in (3, 4)]
    return Fit(
        "exponent of L, jointly with h",
        float(np.median(exponents)),
        (float(min(exponents)), float(max(exponents))),
        JOINT_METHOD,
    )


def _slope(columns, target) -> float:
    """The coefficient of the second column; columns are scaled so that none is lost."""
    matrix = np.stack(columns, axis=1)
    matrix[:, 1:] -= matrix[:, 1:].mean(axis=0)
    spread = np.abs(matrix).max(axis=0)
    solution = np.linalg.lstsq(matrix / spread, target, rcond=None)[0]
    return float(solution[1] / spread[1])


# Closed forms

_PARAMETERS = (sym.L, sym.V, sym.kappa, sym.sigma_g, sym.sigma_w)


def _theta(settings: Sequence[Setting]) -> list[np.ndarray]:
    return list(np.array([[s.L, s.V, s.kappa, s.sigma_g, s.sigma_w] for s in settings], float).T)


@cache
def _compiled(expression: sp.Expr, *more: sp.Symbol) -> Callable:
    return sp.lambdify((*_PARAMETERS, *more), expression, ["scipy", "numpy"], cse=True)


def best_logit(settings: Sequence[Setting]) -> np.ndarray:
    """The copy logit h* of the closed form, (N,): step ``softmax_logit``."""
    return np.real(_compiled(thresholds_derivation()["softmax_logit"].value)(*_theta(settings)))


def closed_forms(
    attention: str, quantity: str, level: str, settings: Sequence[Setting]
) -> dict[str, np.ndarray]:
    """Closed forms of P at a threshold, (N,) by name, that of the level first.

    Linear onset: "with logarithms" (where the curvature in alpha or in c_G vanishes, without their
    coupling), "prior", "logarithms" (both of alpha);
    linear copying: "with logarithms" (the curvature in c_G), "prior"; softmax: "with logarithms"
    and "prior" (both with the Lambert function), "limit" (L ln^2 L) and "naive" (h = ln L).
    At the level map "prior" comes first and the logarithms are left out. NaN where a form does not
    apply.
    """
    theta = _theta(settings)
    steps = thresholds_derivation()
    if attention == "linear":
        aa, gg, _ = curvatures("tree")
        if quantity == "onset":
            forms = {
                "with logarithms": curvature_root(aa),
                "prior": steps["onset_prior"].value,
                "logarithms": steps["onset_logs"].value,
            }
        else:
            forms = {
                "with logarithms": curvature_root(gg),
                "prior": steps["copying_crossover"].value,
            }
        values = {name: _compiled(e)(*theta) for name, e in forms.items()}
        if quantity == "onset":  # copying is the softer direction where V is near L or above
            softer = np.minimum(values["with logarithms"], _compiled(curvature_root(gg))(*theta))
            values["with logarithms"] = softer
    else:
        h = best_logit(settings)
        prior = _compiled(steps["softmax_threshold"].value, sym.h)(*theta, h)
        values = {
            "with logarithms": _with_logs(settings, h),
            "prior": prior,
            "limit": _compiled(steps["softmax_limit"].value)(*theta),
            "naive": _compiled(steps["softmax_naive"].value)(*theta),
        }
    if level == "map":
        values = {name: v for name, v in values.items() if "logarithms" not in name}
    return {name: np.broadcast_to(v, (len(settings),)).astype(float) for name, v in values.items()}


def _with_logs(settings: Sequence[Setting], h: np.ndarray) -> np.ndarray:
    """The root P of step ``softmax_threshold_logs``; NaN where copying does not raise q."""
    right = _compiled(thresholds_derivation()["softmax_threshold_logs"].value, sym.h, sym.P)
    found = []
    for setting, logit in zip(settings, h, strict=True):
        theta = (setting.L, setting.V, setting.kappa, setting.sigma_g, setting.sigma_w, logit)
        low = right(*theta, 0.0)
        high = 2 * low
        while right(*theta, high) > high:
            high *= 2
        rising = right(*theta, low) >= low
        found.append(brentq(lambda P, t=theta: right(*t, P) - P, low, high) if rising else math.nan)
    return np.array(found, float)


# Costs


@cache
def _cost_functions(attention: str) -> list[Callable]:
    coordinates = (sym.alpha, sym.c_G) if attention == "linear" else (sym.h,)
    plain = [e.replace(logistic, lambda z: 1 / (1 + sp.exp(-z))) for e in costs(attention)]
    return [_compiled(e, *coordinates, sym.P) for e in plain]


@cache
def _cost_curvatures() -> list[list[Callable]]:
    """Second derivatives (aa, GG, aG) of each cost of linear attention at the origin."""
    found = []
    for e in costs("linear"):
        H = sp.hessian(e, (sym.alpha, sym.c_G)).subs({sym.alpha: 0, sym.c_G: 0})
        found.append([_compiled(sp.factor(H[i]), sym.P) for i in (0, 3, 1)])
    return found


def deciding_costs(found: Thresholds, settings: Sequence[Setting]) -> tuple[np.ndarray, np.ndarray]:
    """Shares (N, 3) of `COSTS` in what copying (or pooling) costs at the threshold; which decides.

    Softmax: costs of the copying state over the uniform one. Linear onset: the parts of the
    curvature along the soft direction. There, and next to it, the prior of W always costs half
    (it is the sum of the other two), so for linear attention the larger of the other two decides.
    Levels other than tree and map have no such split: NaN and "".
    """
    shares = np.full((len(settings), 3), np.nan)
    theta = _theta(settings)
    if found.level in BATCHED_LEVELS:
        with np.errstate(over="ignore"):
            if found.quantity == "onset":
                _, gg, ag = (_sum_of_curvatures(theta, found.P, k, found.level) for k in range(3))
                mode = -ag / gg  # c_G/alpha of the soft direction
                parts = [
                    H[0](*theta, found.P)
                    + mode**2 * H[1](*theta, found.P)
                    + 2 * mode * H[2](*theta, found.P)
                    for H in _cost_curvatures()
                ]
            else:
                state = found.high.T if found.attention == "linear" else [found.high[:, 1]]
                parts = [f(*theta, *state, found.P) for f in _cost_functions(found.attention)]
        parts = np.stack([np.broadcast_to(part, len(settings)) for part in parts], axis=1)
        if found.level == "map":
            parts[:, 2] = 0.0
        shares = parts / parts.sum(axis=1, keepdims=True)
    known = np.asarray(np.all(np.isfinite(shares), axis=1))
    compared = np.where(known[:, None], shares, 0.0)
    if found.attention == "linear":
        compared[:, 1] = -1.0
    return shares, np.where(known, np.array(COSTS)[np.argmax(compared, axis=1)], "")


def _sum_of_curvatures(theta, P, k: int, level: str):
    """An entry (aa, GG, aG) of the Hessian at the origin."""
    entry = curvatures(level)[k]
    return _compiled(entry, x)(*theta, P * theta[4] ** 2 / theta[2])


def _notes(attention: str, over: str, values, curves):
    for curve in curves:
        name, closed = next(iter(curve.closed.items()))
        ratio = curve.found.P / closed
        good = np.flatnonzero(np.isfinite(ratio))
        if good.size:
            k = good[-1]
            yield (
                f"{curve.quantity} at {over} = {values[k]:.6g}: the numerical P is "
                f"{ratio[k]:.4g} times the closed form ({name})"
            )
        if attention == "softmax" and good.size:
            k = good[-1]
            yield (
                f"it is {curve.found.P[k] / curve.closed['naive'][k]:.4g} times the naive estimate "
                "with h = ln L, whose prefactor is four times too large at L -> oo: W makes up for "
                "a small a, so h stays near (ln L)/2"
            )


# Regimes


@dataclass(frozen=True)
class RegimeMap:
    """Which cost decides over a grid of L and V, at the other parameters of `setting`.

    `shares` (K, M, 3), `decides`, `order`, `P` (K, M): K values of V, M of L. `boundary`: by the
    closed forms, costs of the attention's prior minus those of the logarithms over their sum
    (K, M), zero where both cost the same.
    """

    attention: str
    level: str
    quantity: str
    setting: Setting
    L: np.ndarray
    V: np.ndarray
    shares: np.ndarray
    decides: np.ndarray
    order: np.ndarray
    P: np.ndarray
    boundary: np.ndarray


def regime_map(
    attention: str,
    setting: Setting,
    level: str = "tree",
    L_range: tuple[int, int] = (8, 65536),
    V_range: tuple[int, int] = (2, 4096),
    points: int = 48,
    progress: Callable[[int, int], None] | None = None,
) -> RegimeMap:
    """Which cost decides the attention's transition over (L, V), by the batched solver.

    Raises:
        InputError: for a level without a batched solver, or an unusable range.
    """
    if level not in BATCHED_LEVELS:
        raise InputError(f"the regime map needs the level tree or map, not {level!r}")
    L, V = (
        np.unique(np.round(np.geomspace(*ends, points)).astype(int)) for ends in (L_range, V_range)
    )
    settings = [replace(setting, L=int(length), V=int(v)) for v in V for length in L]
    found = thresholds(
        attention,
        settings,
        level,
        progress=(lambda n: progress(n, len(settings))) if progress else None,
    )
    shares, decides = deciding_costs(found, settings)
    shape = (len(V), len(L))
    return RegimeMap(
        attention=attention,
        level=level,
        quantity=found.quantity,
        setting=setting,
        L=L,
        V=V,
        shares=shares.reshape(*shape, 3),
        decides=decides.reshape(shape),
        order=found.order.reshape(shape),
        P=found.P.reshape(shape),
        boundary=_closed_balance(attention, settings).reshape(shape),
    )


def _closed_balance(attention: str, settings: Sequence[Setting]) -> np.ndarray:
    """Attention's prior against logarithms in closed form, (N,) from -1 to 1."""
    theta = _theta(settings)
    if attention == "linear":  # step onset_regimes: the logarithms decide at larger sigma_g
        critical = _compiled(thresholds_derivation()["onset_regimes"].value)(*theta)
        return np.tanh(np.log(critical / theta[3]))
    h = best_logit(settings)
    P = closed_forms(attention, "copying", "tree", settings)["with logarithms"]
    P = np.where(np.isfinite(P), P, closed_forms(attention, "copying", "map", settings)["prior"])
    gain = P / (2 * theta[2]) * (1 - 1 / theta[1])
    attention_cost = theta[0] * h**2 / (2 * theta[3] ** 2)
    logs = gain - attention_cost * (1 + 1 / h)
    return (attention_cost - logs) / (attention_cost + np.abs(logs))
