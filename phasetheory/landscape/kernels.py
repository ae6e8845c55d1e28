"""The compiled pieces of the phase finder: descents, Newton steps, Landau coefficients, saddles.

They work in scaled coordinates: ``y = x / scale``, the control as ``t`` in [0, 1] (linear or
logarithmic), the action divided by ``unit``. What changes between settings is passed as arrays, so
one compilation serves all settings of an action.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from phasetheory._jax import jit_small
from phasetheory.landscape.minimise import projected_descent

EPS = float(np.finfo(float).eps)
#: batched kernels run in batches of this size, so that one compilation serves all
BATCH = 512
GAUGE_STIFFNESS = 10.0
#: Newton steps below this, in units of the spread of the minima, may be round-off
NEWTON_FLOOR = 1e-5


class Chart(NamedTuple):
    """The scaled coordinates of one landscape, passed to every kernel.

    ``theta``: a tuple of numbers and arrays, ``scale`` (n,), ``control`` (2,): lowest and highest
    control (their logarithms on a logarithmic scale), ``unit``: scalar, ``box`` (n, 2) in y,
    ``generators`` (m, n, n + 1): affine symmetries, each a matrix and a shift.
    """

    theta: Any
    scale: Any
    control: Any
    unit: Any
    box: Any
    generators: Any


@lru_cache(maxsize=64)
def kernels(action: Callable, log: bool, descent: int = 30) -> SimpleNamespace:
    """The kernels of one action, each compiled on first use.

    Args:
        log: whether the control's scale is logarithmic.
        descent: steps of projected gradient descent into a basin.
    """

    def S(y, t, chart: Chart):
        lo, hi = chart.control
        u = lo + (hi - lo) * t
        return action(y * chart.scale, jnp.exp(u) if log else u, chart.theta) / chart.unit

    def local(z, chart):
        """Value, gradient (n + 1) and Hessian (n + 1, n + 1) of S in z = (y, t), in one pass."""

        def first(z):
            value, g = jax.value_and_grad(lambda z: S(z[:-1], z[-1], chart))(z)
            return g, (value, g)

        H, (value, g) = jax.jacfwd(first, has_aux=True)(z)
        return value, g, H

    local = jax.jit(local)  # traced once, for all kernels

    def join(y, t):
        return jnp.append(y, t)

    def gauge(y, chart):
        """What makes the directions of continuous symmetries stiff in the Hessian."""
        if not chart.generators.shape[0]:
            return 0.0
        tangents = chart.generators[:, :, :-1] @ y + chart.generators[:, :, -1]
        weight, directions = jnp.linalg.eigh(tangents.T @ tangents)
        moving = jnp.where(weight > 1e-12, 1.0, 0.0)
        # curvatures are of order one in the chart; a constant keeps dH/dt that of the others
        return GAUGE_STIFFNESS * (directions * moving) @ directions.T

    def critical(guess, t, chart):
        """Newton's method to the critical point next to `guess`, of any index, and its properties.

        `contraction` is the worst ratio of successive steps: below 1/4 the limit is the critical
        point that belongs to the guess, and not one of another branch. `last` is the last step,
        the size of the round-off where the steps stopped shrinking.
        """

        def body(state):
            y, k, first, last, worst, _ = state
            _, g, H = local(join(y, t), chart)
            w, v = jnp.linalg.eigh(H[:-1, :-1] + gauge(y, chart))
            tiny = EPS * jnp.max(jnp.abs(w)) + 1e-300
            w = jnp.where(jnp.abs(w) < tiny, tiny, w)
            delta = -v @ ((v.T @ g[:-1]) / w)
            size = jnp.linalg.norm(delta)
            ratio = jnp.where((k > 0) & (size > NEWTON_FLOOR), size / last, 0.0)
            # round-off is measured, not estimated: it is where the steps stop shrinking
            exact = size <= 4 * EPS * (1 + jnp.max(jnp.abs(y)))
            stalled = (k > 1) & (size >= last / 2) & (size <= NEWTON_FLOOR)
            first = jnp.where(k == 0, size, first)
            return y + delta, k + 1, first, size, jnp.maximum(worst, ratio), exact | stalled

        start = (guess, 0, jnp.inf, jnp.inf, 0.0, False)
        y, _, first, last, worst, done = jax.lax.while_loop(
            lambda state: ~state[-1] & (state[1] < 20) & (state[3] == state[3]), body, start
        )
        (value, g, H), along = jax.linearize(lambda z: local(z, chart), join(y, t))
        w, v = jnp.linalg.eigh(H[:-1, :-1] + gauge(y, chart))
        force = H[:-1, -1]
        safe = jnp.where(jnp.abs(w) < 1e-300, 1e-300, w)
        y_dot = -v @ ((v.T @ force) / safe)
        H_dot = along(join(y_dot, 1.0))[2][:-1, :-1]
        return {
            "y": y,
            "converged": done,
            "first": first,
            "last": last,
            "contraction": worst,
            "action": value,
            "slope": g[-1],
            "curvature": H[-1, -1] + force @ y_dot,
            "y_dot": y_dot,
            "eigenvalues": w,
            "modes": v,
            "eigenvalues_dot": jnp.sum(v * (H_dot @ v), axis=0),
        }

    def polish(start, t, chart):
        """Descent by shifted Newton steps inside the box, to round-off."""
        lo, hi = chart.box[:, 0], chart.box[:, 1]
        width = hi - lo

        def body(state):
            y, value, g, H, trial, radius, k, _, broken = state
            value_new, g_new, H_new = local(join(trial, t), chart)
            g_new, H_new = g_new[:-1], H_new[:-1, :-1]
            bad = ~(jnp.isfinite(value_new) & jnp.all(jnp.isfinite(g_new)))
            slack = 4 * EPS * jnp.abs(value)
            better = (value_new < value) | (
                (value_new <= value + slack) & (jnp.linalg.norm(g_new) < jnp.linalg.norm(g))
            )
            accept = (better & ~bad) | (k == 0)
            radius = jnp.where(accept, jnp.minimum(2 * radius, 1.0), radius / 4)
            y, value, g, H = (
                jnp.where(accept, new, old)
                for new, old in ((trial, y), (value_new, value), (g_new, g), (H_new, H))
            )
            w, v = jnp.linalg.eigh(H)
            floor = 1e-10 * jnp.max(jnp.abs(w)) + 1e-300
            delta = -v @ ((v.T @ g) / jnp.maximum(jnp.abs(w), floor))
            size = jnp.max(jnp.abs(delta) / width)
            delta = delta * jnp.minimum(1.0, radius / jnp.maximum(size, 1e-300))
            trial = jnp.clip(y + delta, lo, hi)
            moved = jnp.max(jnp.abs(trial - y))
            done = (moved <= 1e-13 * (1e-3 + jnp.max(jnp.abs(y)))) | (radius < 1e-14)
            return y, value, g, H, trial, radius, k + 1, done, broken | bad

        y = jnp.clip(start, lo, hi)
        first = (y, jnp.inf, y, jnp.outer(y, y), y, 0.25, 0, False, False)
        y, value, g, H, _, _, _, done, broken = jax.lax.while_loop(
            lambda state: ~state[7] & (state[6] < 80), body, first
        )
        edge = 1e-7 * width
        outward = ((y <= lo + edge) & (g > 0)) | ((y >= hi - edge) & (g < 0))
        return {
            "y": y,
            "action": value,
            "hessian": H,
            "on_bound": jnp.any(outward),
            "done": done & ~broken,
        }

    def approach(y, t, chart):
        """Into a basin, from afar: projected gradient descent in the box."""
        if not descent:
            return y
        zero, slope = jax.value_and_grad(S)(y, t, chart)
        size = jnp.maximum(jnp.linalg.norm(slope * (chart.box[:, 1] - chart.box[:, 0])), 1e-300)

        def objective(y):
            return (S(y, t, chart) - zero) / size

        found = projected_descent(objective, y, chart.box, descent)
        return jnp.where(jnp.all(jnp.isfinite(found.x)), found.x, y)

    def landau(y, v, t, chart):
        """At a point, along v: the fourth derivative of S and the second of its gradient.

        Also the Hessian, with the directions of continuous symmetries made stiff.
        """

        def derivative(f):
            return lambda s: jax.jvp(f, (s,), (1.0,))[1]

        def along(f, order):
            for _ in range(order):
                f = derivative(f)
            return f(0.0)

        return {
            "fourth": along(lambda s: S(y + s * v, t, chart), 4),
            "coupling": along(lambda s: jax.grad(S)(y + s * v, t, chart), 2),
            "hessian": local(join(y, t), chart)[2][:-1, :-1] + gauge(y, chart),
        }

    def saddle(start, t, chart):
        """Eigenvector following: up along the softest mode, down along all others."""
        lo, hi = chart.box[:, 0], chart.box[:, 1]

        def body(state):
            y, _, _, _, k, _ = state
            value, g, H = local(join(y, t), chart)
            w, v = jnp.linalg.eigh(H[:-1, :-1] + gauge(y, chart))
            sign = jnp.where(jnp.arange(w.size) == 0, -1.0, 1.0)
            floor = 1e-8 * jnp.max(jnp.abs(w)) + 1e-300
            delta = -v @ (sign * (v.T @ g[:-1]) / jnp.maximum(jnp.abs(w), floor))
            size = jnp.linalg.norm(delta)
            delta = delta * jnp.minimum(1.0, 0.1 / jnp.maximum(size, 1e-300))
            return jnp.clip(y + delta, lo, hi), value, w, v, k + 1, size

        first = (start, 0.0, start, jnp.outer(start, start), 0, jnp.inf)
        y, value, w, v, _, size = jax.lax.while_loop(
            lambda state: (state[-1] > 1e-11) & (state[-2] < 100), body, first
        )
        return {
            "y": y,
            "action": value,
            "eigenvalues": w,
            "soft": v[:, 0],
            "converged": size <= 1e-6,
        }

    def batched(f):
        return jit_small(jax.vmap(f, (0, 0, None)))

    return SimpleNamespace(
        value=batched(S),
        gradient=batched(jax.grad(S)),
        approach=batched(approach),
        polish=batched(polish),
        saddle=batched(saddle),
        critical=jit_small(critical),
        landau=jit_small(landau),
    )


def warm_up(kern: SimpleNamespace, chart: Chart) -> Future:
    """Compile in the background the kernels that the search does not need at once.

    XLA compiles outside the interpreter lock, so this runs beside the search's own compilation.
    """
    y, t = np.asarray(chart.box).mean(axis=1), 0.5
    many = np.repeat(y[None], BATCH, axis=0), np.full(BATCH, t)

    def compile_all():
        kern.critical(y, t, chart)
        if y.size > 1:
            kern.gradient(*many, chart)
        kern.landau(y, np.ones_like(y), t, chart)
        kern.saddle(*many, chart)

    pool = ThreadPoolExecutor(1)
    future = pool.submit(compile_all)
    pool.shutdown(wait=False)
    return future
