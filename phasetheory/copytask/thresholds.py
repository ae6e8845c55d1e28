"""Thresholds of many settings at once: where pooling and copying appear, in batches.

Each attention has a structure that makes its threshold a scalar root (theory note, section 4; the
statements are derived in `phasetheory.symbolic.thresholds`): the onset of linear attention is the
only sign change of a 2 x 2 determinant, its branch is a curve over the copying order parameter, and
all stationary points of softmax attention lie on one curve P(h). Roots are found by jaxopt's
bisection under vmap and polished by Newton steps. `find_phases` finds the same points without using
any of this; it takes over where the structure is absent.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from phasetheory._jax import jit_small
from phasetheory.copytask.levels import landscape
from phasetheory.copytask.scales import typical_range
from phasetheory.copytask.setting import Setting
from phasetheory.errors import InputError, PhaseTheoryError
from phasetheory.landscape.crossovers import PROMINENCE
from phasetheory.landscape.lowering import lower
from phasetheory.landscape.phases import find_phases
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.linear import linear_derivation
from phasetheory.symbolic.softmax import softmax_derivation
from phasetheory.symbolic.thresholds import curvatures, rest, softmax_cubic, softmax_slopes, x

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import jaxopt

#: what can be asked of an attention; the first is its transition
QUANTITIES = {"linear": ("onset", "copying"), "softmax": ("copying",)}
COORDINATES = {"linear": ("alpha", "c_G"), "softmax": ("a", "h")}
BATCHED_LEVELS = ("tree", "map")

EPS = float(np.finfo(float).eps)
#: points of the curve P(h), and of the branch of linear attention
LOGITS, NODES = 256, 320
#: bisection steps for a place of zero slope, where values hardly depend on the place
ROUGH = 30
#: settings per compiled call, for few and for many settings
BATCHES = (32, 512)
_PARAMETERS = (sym.L, sym.V, sym.kappa, sym.sigma_g, sym.sigma_w)
_NOTHING = (0, math.nan, math.nan, *(np.full(2, np.nan) for _ in range(3)), math.nan)
_CODES = ("not_found", "first", "second", "crossover")


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of N settings.

    Attributes:
        attention, level, quantity: what was asked.
        order: (N,), each "first", "second", "crossover" (a fastest change that is no transition) or
            "not_found"; the other values of a point not found are NaN.
        P: (N,) number of sequences.
        error: (N,) bound on the numerical error of P.
        low, high: (N, m) the state on both sides of a jump, `names` in order; equal where the
            change is continuous. NaN where a level without a batched solver does not report them.
        spinodals: (N, 2) where the high state appears and the low one vanishes; NaN unless first.
        barrier: (N,) action of the saddle above that of both states, in nats; NaN unless first.
        problems: (N,) why a point was not found, else "".
    """

    attention: str
    level: str
    quantity: str
    order: np.ndarray
    P: np.ndarray
    error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    spinodals: np.ndarray
    barrier: np.ndarray
    problems: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return COORDINATES[self.attention]


def thresholds(
    attention: str,
    settings: Sequence[Setting],
    level: str = "tree",
    quantity: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Thresholds:
    """The threshold of every setting.

    Args:
        attention: "linear" or "softmax".
        settings: plain ones are solved in batches at the levels "tree" and "map", all others by
            `find_phases`, setting by setting.
        level: a level of `copytask.LEVELS`.
        quantity: for linear attention "onset" (the second-order transition; default) or "copying"
            (the crossover: the fastest change of c_G with log P above the onset); for softmax
            "copying": the first-order transition, or where there is none the fastest change of a
            with log P.
        progress: called with the number of settings done since the last call.

    Raises:
        InputError: for an unknown attention, level or quantity.
    """
    if not settings:
        raise InputError("at least one setting is needed")
    landscape(attention, settings[0], level)  # complains about an unknown attention or level
    quantity = quantity or QUANTITIES[attention][0]
    if quantity not in QUANTITIES[attention]:
        known = " or ".join(QUANTITIES[attention])
        raise InputError(f"{attention} attention has the threshold {known}, not {quantity!r}")
    report = progress or (lambda _: None)
    if level not in BATCHED_LEVELS or not all(setting.plain for setting in settings):
        points = []
        for setting in settings:
            points.append(_by_finder(attention, setting, level, quantity))
            report(1)
        return _collect(attention, level, quantity, points)
    points = _in_batches(_kernel(attention, level, quantity), settings, report)
    for i, point in enumerate(points):
        if point[0] < 0:
            points[i] = (*_NOTHING, "c_G changes fastest at the onset: no crossover apart from it")
        elif not point[0]:
            points[i] = _by_finder(attention, settings[i], level, quantity)
    return _collect(attention, level, quantity, points)


def _collect(attention, level, quantity, points) -> Thresholds:
    codes, P, error, low, high, spinodals, barrier, problems = zip(*points, strict=True)
    return Thresholds(
        attention,
        level,
        quantity,
        np.array([_CODES[int(code)] for code in codes]),
        np.array(P, float),
        np.array(error, float),
        np.array(low, float),
        np.array(high, float),
        np.array(spinodals, float),
        np.array(barrier, float),
        np.array(problems),
    )


def _in_batches(kernel: Callable, settings: Sequence[Setting], report) -> list[tuple]:
    theta = np.array([[s.L, s.V, s.kappa, s.sigma_g, s.sigma_w] for s in settings], float)
    size = next((n for n in BATCHES if len(theta) <= n), BATCHES[-1])
    starts = range(0, len(theta), size)

    def run(first):
        rows = np.arange(first, first + size) % len(theta)
        out = [np.asarray(part) for part in kernel(theta[rows])]
        keep = min(size, len(theta) - first)
        report(keep)
        return [(*(part[i] for part in out), "") for i in range(keep)]

    # compiled code runs outside the interpreter lock
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [point for part in pool.map(run, starts) for point in part]


@cache
def _kernel(attention: str, level: str, quantity: str) -> Callable:
    """From theta (N, 5) to code, P, error, low, high, spinodals, barrier, each with N first."""
    solve = {
        ("linear", "onset"): _onset,
        ("linear", "copying"): _linear_copying,
        ("softmax", "copying"): _softmax_copying,
    }[attention, quantity]
    return jit_small(jax.vmap(partial(solve, level)))


def _root(f: Callable, sign: float, low, high, *args, steps: int = 52):
    """Where f(z, *args) changes sign between low and high; sign is 1 where it increases, else -1.

    Fixed numbers of jaxopt's steps from a known sign: its `run` would compile f three times.
    """
    start = jaxopt.Bisection(lambda z: sign * (2 * z - low - high), low, high, check_bracket=False)
    solver = jaxopt.Bisection(f, low, high, check_bracket=False)

    def step(_, state):
        return solver.update(None, state, *args).state

    state = jax.lax.fori_loop(0, steps, step, start.init_state()._replace(aux=None))
    return (state.low + state.high) / 2


# Linear attention


def _onset(level: str, theta):
    log_x, slope, entries = _onset_root(level, theta)
    P = jnp.exp(log_x) * theta[2] / theta[4] ** 2
    # where pooling and copying decouple the determinant jumps, and its slope says nothing
    error = 16 * EPS * (1 + jnp.where(slope < 0, -1 / slope, 0.0))
    soft = _soft_mode(entries)
    action = _linear_action(level)
    scale = _pooling_scale(log_x, theta)

    def along(order):
        f = lambda s: action(*(s * scale * soft), P, theta)  # noqa: E731
        for _ in range(order):
            f = partial(lambda f, s: jax.jvp(f, (s,), (1.0,))[1], f)
        return f(0.0)

    # the action is even, so the stiff direction does not change the quartic coefficient
    found = (along(4) > 0) & jnp.isfinite(P)
    zero = jnp.zeros(2)
    return jnp.where(found, 2, 0), P, P * error, zero, zero, jnp.full(2, jnp.nan), jnp.nan * P


def _onset_root(level: str, theta):
    """log x at the onset, the slope of the determinant there, and the Hessian's entries.

    Along any direction the curvature is p + l x - g x^2 with p > 0 and l, g >= 0, so it changes
    sign once, and so does the smallest eigenvalue.
    """
    aa, gg, ag = (lower(e, (x, *_PARAMETERS)) for e in curvatures(level))

    def determinant(log_x):
        u = jnp.exp(log_x)
        a, g, c = aa(u, *theta), gg(u, *theta), ag(u, *theta)
        inside = (a > 0) & (g > 0)
        return jnp.where(inside, 1 - c**2 / jnp.where(inside, a * g, 1.0), -1.0)

    log_x = _root(determinant, -1.0, -80.0, 160.0, steps=64)
    slope = jax.grad(determinant)(log_x)
    u = jnp.exp(log_x)
    return log_x, slope, (aa(u, *theta), gg(u, *theta), ag(u, *theta))


def _soft_mode(entries):
    """(1, c_G/alpha) of the direction that loses stability."""
    _, gg, ag = entries
    return jnp.stack([jnp.ones_like(gg), -ag / gg])


def _pooling_scale(log_x, theta):
    """alpha at which lambda r = 1 at the onset: where the action ceases to be quadratic."""
    return jnp.exp((jnp.log(theta[1]) - log_x) / 2)


def _linear_action(level: str) -> Callable:
    function = lower(
        linear_derivation()[f"{level}_in_alpha"].value,
        (sym.alpha, sym.c_G, sym.P, *_PARAMETERS),
    )
    return lambda alpha, c_G, P, theta: function(alpha, c_G, P, *theta)


def _linear_copying(level: str, theta):
    """Fastest change of c_G with log P along the branch above the onset, which is followed in c_G.

    The branch is a curve (log alpha, log P) over log c_G: the crossover, however sharp, is smooth
    there.
    """
    L, V, kappa, sigma_g, sigma_w = theta
    action = _linear_action(level)
    log_x, _, entries = _onset_root(level, theta)
    share = jnp.log(_soft_mode(entries)[1])
    log_onset = log_x + jnp.log(kappa / sigma_w**2)
    first = jnp.log(1e-3 * _pooling_scale(log_x, theta)) + share
    # c_G at P -> oo, at large L and V; where the branch does not reach it, it is cut off
    last = jnp.log(V * sigma_g**2 / (sigma_w**2 * L**3)) / 4
    nodes = jnp.linspace(first, last, NODES)
    unit = (L / sigma_g) ** 2 + jnp.exp(log_x) * (1 + V / L)

    def residual(z):
        """Both forces at z = (log alpha, log P, log c_G), in units of those of prior and
        logarithms at the onset."""
        x = jnp.exp(z[jnp.array([0, 2])])
        force = jax.grad(lambda x: action(x[0], x[1], jnp.exp(z[1]), theta))(x)
        return force / (unit * x * jnp.stack([jnp.ones_like(L), L - 1]))

    def solve(J, r):
        det = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        return jnp.stack([J[1, 1] * r[0] - J[0, 1] * r[1], J[0, 0] * r[1] - J[1, 0] * r[0]]) / det

    def state(y, s):
        """The branch at s next to the guess y: y, dy/ds, d2 log P/ds2 and what is left over."""

        def newton(_, y):
            z = jnp.append(y, s)
            step = solve(jax.jacfwd(residual)(z), residual(z))
            return y - jnp.clip(step, -0.5, 0.5)

        y = jax.lax.fori_loop(0, 6, newton, y)
        z = jnp.append(y, s)
        J = jax.jacfwd(residual)(z)
        rate = -solve(J, J[:, 2])
        along = jnp.append(rate, 1.0)
        slope = lambda z: jax.jvp(residual, (z,), (along,))[1]  # noqa: E731
        second = -solve(J, jax.jvp(slope, (z,), (along,))[1])
        return y, rate, second[1], jnp.max(jnp.abs(residual(z)))

    def advance(carry, s):
        y, rate, before = carry
        y, rate, _, off = state(y + rate * (s - before), s)
        return (y, rate, s), (y, rate, off)

    start = jnp.stack([first - share, log_onset])
    _, (ys, tangents, off) = jax.lax.scan(advance, (start, jnp.array([1.0, 0.0]), first), nodes)
    slopes = tangents[:, 1]
    followed = jnp.cumprod(off < 1e-9) > 0
    # d log c_G / d log P is 1/slope; next to the onset the slope may be round-off
    rate = jnp.where(slopes > 0, jnp.exp(nodes - last) / slopes, jnp.inf)
    rate = jnp.where(followed, rate, 0.0)
    inner = (rate[1:-1] > rate[:-2]) & (rate[1:-1] >= rate[2:]) & followed[2:]
    inner &= jnp.isfinite(rate[1:-1])
    before = jax.lax.cummin(rate)[1:-1]
    after = jax.lax.cummin(rate, reverse=True)[1:-1]
    inner &= rate[1:-1] > PROMINENCE * jnp.maximum(before, after)
    k = 1 + jnp.argmax(jnp.where(inner, rate[1:-1], -jnp.inf))

    def bend(s):
        """Slope of the logarithm of the rate along the branch."""
        _, rate, second, _ = state(ys[k] + tangents[k] * (s - nodes[k]), s)
        return 1 - second / rate[1]

    ends = nodes[jnp.stack([k - 1, k + 1])]
    s = _root(bend, -1.0, *ends)
    y, rate, _, _ = state(ys[k] + tangents[k] * (s - nodes[k]), s)
    P = jnp.exp(y[1])
    error = _peak_error(jax.vmap(bend)(ends), ends, rate[1])
    # P must not turn back on the way
    ok = jnp.all((slopes > -1e-6) | ~followed) & jnp.isfinite(P)
    # without a peak, the branch was followed far enough where c_G has come to grow slower than P
    merged = ~jnp.any(inner) & jnp.all((slopes > -1e-6) | ~followed)
    merged &= jnp.max(jnp.where(followed, slopes, 0.0)) > 1
    code = jnp.where(merged, -1, jnp.where(ok & jnp.any(inner), 3, 0))
    place = jnp.stack([jnp.exp(y[0]), jnp.exp(s)])
    return code, P, P * error, place, place, jnp.full(2, jnp.nan), jnp.nan * P


def _peak_error(bends, ends, slope):
    """Error of log P at a peak, from the change of `bend` between two places around it."""
    return 1e-12 * jnp.abs(slope * (ends[1] - ends[0]) / (bends[1] - bends[0])) + 8 * EPS


# Softmax attention


def _softmax_curve(level: str) -> tuple[Callable, Callable, Callable]:
    """(the curve, the coefficients of its cubic, the weights a and 1 - a) over h and theta."""
    steps = softmax_derivation()
    weight = steps["weight"].value
    values = {e.lhs: e.rhs for e in steps["ansatz"].value}
    other = weight.func(-weight.args[0])

    def compiled(expression):
        expression = expression.subs(softmax_slopes()).subs(values)
        expression = expression.subs(rest, other).subs(sym.a, weight)
        return lower(expression, (sym.h, *_PARAMETERS))

    cubic = [compiled(c) for c in softmax_cubic(level)]
    pair = [compiled(e) for e in (sym.a, rest)]

    def coefficients(h, theta):
        return jnp.stack([c(h, *theta) for c in cubic])

    def curve(h, theta):
        """log lambda at a stationary h, and its first and second derivative."""
        flat = lambda h: coefficients(h, theta)  # noqa: E731
        first = lambda h: jax.jvp(flat, (h,), (1.0,))  # noqa: E731
        (k, k_h), (_, k_hh) = jax.jvp(first, (h,), (1.0,))
        n = jnp.arange(4)
        u = _root(lambda u, k: jnp.dot(k, jnp.exp(n * u)), -1.0, -100.0, 200.0, k, steps=20)
        for _ in range(3):
            terms = k * jnp.exp(n * u)
            u = u - jnp.sum(terms) / jnp.sum(n * terms)
        powers = jnp.exp(n * u)
        Q_u = jnp.dot(k, n * powers)
        u_h = -jnp.dot(k_h, powers) / Q_u
        mixed = jnp.dot(k_hh, powers) + 2 * u_h * jnp.dot(k_h, n * powers)
        return u, u_h, -(mixed + u_h**2 * jnp.dot(k, n**2 * powers)) / Q_u

    return curve, coefficients, lambda h, theta: [e(h, *theta) for e in pair]


def _softmax_copying(level: str, theta):
    curve, coefficients, weights = _softmax_curve(level)
    L, V, kappa, sigma_g, sigma_w = theta
    unit = V * kappa * L / sigma_w**2  # P/lambda
    best = jnp.log1p(2 * V * L * sigma_g**2 / sigma_w**2)  # above 2 h*, the Lambert function
    top = 8.0 + 2 * jnp.log(L) + best
    grid = top * jnp.arange(1, LOGITS + 1) / LOGITS
    at = lambda h: curve(h, theta)  # noqa: E731

    slopes = jax.vmap(at)(grid)[1]
    # the curve folds back where its slope is negative; near the end of the first-order line only
    # next to the least slope, which is therefore sought between the points of the grid
    dips = (slopes[1:-1] < slopes[:-2]) & (slopes[1:-1] <= slopes[2:])
    k = 1 + jnp.argmin(jnp.where(dips, slopes[1:-1], jnp.inf))
    dip = _root(lambda h: at(h)[2], 1.0, grid[k - 1], grid[k + 1], steps=ROUGH)
    place = jnp.arange(LOGITS)
    left = jnp.max(jnp.where((place < k) & (slopes > 0), place, 0))
    right = jnp.min(jnp.where((place > k) & (slopes > 0), place, LOGITS - 1))
    folds = jnp.sum((slopes[1:] < 0) & (slopes[:-1] > 0))
    folded = jnp.any(dips) & (at(dip)[1] < 0)

    action = lower(softmax_derivation()[level].value, (sym.h, sym.P, *_PARAMETERS))
    brackets = jnp.stack([jnp.stack([grid[left], dip]), jnp.stack([dip, grid[right]])])
    first = _coexistence(
        curve, coefficients, lambda h, u: action(h, unit * jnp.exp(u), *theta), theta, brackets, top
    )
    steepest = _steepest(at, lambda h: weights(h, theta), grid, slopes)
    out = jax.tree.map(lambda one, other: jnp.where(folded, one, other), first, steepest)
    P = unit * jnp.exp(out["u"])
    low, high = (jnp.stack([weights(h, theta)[0], h]) for h in (out["low"], out["high"]))
    ok = (folds <= 1) & (slopes[0] > 0) & (slopes[-1] > 0) & jnp.isfinite(P)
    code = jnp.where(folded, 1, 3)
    code = jnp.where(ok, code, 0)
    return code, P, P * out["error"], low, high, unit * out["spinodals"], out["barrier"]


def _coexistence(curve, coefficients, action, theta, brackets, top):
    """Equal action of the two minima between the spinodals, which lie in the brackets (2, 2)."""
    slope = lambda h: curve(h, theta)[1]  # noqa: E731
    ends = jax.vmap(lambda pair, sign: _root(slope, sign, *pair, steps=ROUGH))(
        brackets, jnp.array([-1.0, 1.0])
    )
    highest, lowest = jax.vmap(lambda h: curve(h, theta)[0])(ends)
    sides = jnp.stack([jnp.stack([0.0 * top, ends[0]]), jnp.stack([ends[1], top])])
    n = jnp.arange(4)

    def minima(u, steps):
        # the cubic has the sign of dS/dh
        powers = jnp.exp(n * u)
        push = lambda h: jnp.dot(coefficients(h, theta), powers)  # noqa: E731
        return jax.vmap(lambda pair: _root(push, 1.0, *pair, steps=steps))(sides)

    def gap(u):
        low, high = minima(u, ROUGH)
        return action(low, u) - action(high, u)

    u = _root(gap, 1.0, lowest, highest)
    low, high = minima(u, 52)
    powers = jnp.exp(n * u)
    saddle = _root(lambda h: jnp.dot(coefficients(h, theta), powers), -1.0, ends[0], ends[1])
    rates = [jax.jvp(lambda u, h=h: action(h, u), (u,), (1.0,))[1] for h in (low, high)]
    error = 8 * EPS * (1 + jnp.abs(action(low, u))) / jnp.abs(rates[1] - rates[0])
    return {
        "u": u,
        "error": jnp.minimum(error, highest - lowest) + 8 * EPS,
        "low": low,
        "high": high,
        "spinodals": jnp.exp(jnp.stack([lowest, highest])),
        "barrier": action(saddle, u) - action(low, u),
    }


def _steepest(at, weights, grid, slopes):
    """The largest da/dlog P along a curve that does not fold."""
    a, other = jax.vmap(weights)(grid)
    rates = jnp.where(slopes > 0, a * other / slopes, -jnp.inf)
    k = jnp.clip(jnp.argmax(rates), 1, LOGITS - 2)

    def bend(h):
        """Slope of log(da/dlog P) in h, where da/dh = a (1 - a)."""
        _, slope, second = at(h)
        a, other = weights(h)
        return other - a - second / slope

    ends = grid[jnp.stack([k - 1, k + 1])]
    h = _root(bend, -1.0, *ends)
    u, slope, _ = at(h)
    error = _peak_error(jax.vmap(bend)(ends), ends, slope)
    return {
        "u": u,
        "error": error,
        "low": h,
        "high": h,
        "spinodals": jnp.full(2, jnp.nan),
        "barrier": jnp.nan * u,
    }


# Any level


def _by_finder(attention: str, setting: Setting, level: str, quantity: str) -> tuple:
    """The threshold from all phases of the landscape; slower, and free of assumptions."""
    try:
        report = find_phases(landscape(attention, setting, level))
    except PhaseTheoryError as error:
        return (*_NOTHING, str(error))
    names = report.landscape.order_parameters
    places = [names.index(n) if n in names else None for n in COORDINATES[attention]]

    def pick(values):
        return np.array([math.nan if i is None else values[i] for i in places])

    crossing = attention == "linear" and quantity == "copying"
    if not crossing:
        wanted = "second" if attention == "linear" else "first"
        for t in report.transitions:
            if t.order == wanted:
                spinodals = [math.nan if s is None else s for s in t.spinodals]
                code = _CODES.index(wanted)
                barrier = math.nan if t.barrier is None or t.order != "first" else t.barrier
                sides = pick(t.low), pick(t.high)
                return code, t.control, t.control_error, *sides, spinodals, barrier, ""
    if crossing or attention == "softmax":
        name = "c_G" if crossing else report.landscape.jump_parameters[0]
        for c in report.crossovers:
            if c.order_parameter == name:
                # a maximum located by its values is good to the root of their precision
                return 3, c.control, 1e-6 * c.control, *_NOTHING[3:], ""
    low, high = typical_range(attention, setting)
    what = "crossover" if crossing else "transition"
    problem = "; ".join(report.problems) or f"no {what} for P from {low:g} to {high:g}"
    return (*_NOTHING, problem)
