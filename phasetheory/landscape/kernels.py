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

import phasetheory._jax  # noqa: F401  (64 bits)
from phasetheory.landscape.minimise import projected_descent

EPS = float(np.finfo(float).eps)
#: batched kernels run in batches of this size, so that one compilation serves all
BATCH = 512
GAUGE_STIFFNESS = 10.0


class Chart(NamedTuple):
    """The scaled coordinates of one landscape, passed to every kernel.

    ``theta`` (k,), ``scale`` (n,), ``control`` (2,): lowest and highest control (their logarithms
    on a logarithmic scale), ``unit``: scalar, ``box`` (n, 2) in y, ``generators`` (m, n, n + 1):
    affine symmetries, each a matrix and a shift.
    """

    theta: Any
    scale: Any
    control: Any
    unit: Any
    box: Any
    generators: Any


@lru_cache(maxsize=64)
def kernels(action: Callable, log: bool) -> SimpleNamespace:
    """The kernels of one action, each compiled on first use."""

    def S(y, t, chart: Chart):
        lo, hi = chart.control
        u = lo + (hi - lo) * t
        return action(y * chart.scale, jnp.exp(u) if log else u, chart.theta) / chart.unit

    gradient = jax.grad(S)
    hessian = jax.hessian(S)
    both = jax.value_and_grad(S)
    control_force = jax.grad(jax.grad(S, 1), 0)  # d/dt of the gradient

    def stiff_hessian(y, t, chart):
        """The Hessian, with the directions of continuous symmetries made stiff."""
        H = hessian(y, t, chart)
        if not chart.generators.shape[0]:
            return H
        tangents = chart.generators[:, :, :-1] @ y + chart.generators[:, :, -1]
        weight, directions = jnp.linalg.eigh(tangents.T @ tangents)
        moving = jnp.where(weight > 1e-12, 1.0, 0.0)
        # curvatures are of order one in the chart; a constant keeps dH/dt that of the others
        return H + GAUGE_STIFFNESS * (directions * moving) @ directions.T

    def critical(guess, t, chart):
        """Newton's method to the critical point next to `guess`, of any index, and its properties.

        `contraction` is the worst ratio of successive steps above round-off: below 1/4 the limit is
        the critical point that belongs to the guess, and not one of another branch.
        """

        def step(y):
            w, v = jnp.linalg.eigh(stiff_hessian(y, t, chart))
            tiny = EPS * jnp.max(jnp.abs(w)) + 1e-300
            w = jnp.where(jnp.abs(w) < tiny, tiny, w)
            # round-off of the gradient (the chart makes curvatures of order one), amplified
            size = (1 + jnp.max(jnp.abs(w))) * (1 + jnp.max(jnp.abs(y))) + jnp.abs(S(y, t, chart))
            noise = 8 * EPS * size / jnp.min(jnp.abs(w))
            return -v @ ((v.T @ gradient(y, t, chart)) / w), noise

        def body(state):
            y, k, first, last, worst, _ = state
            delta, noise = step(y)
            size = jnp.linalg.norm(delta)
            ratio = jnp.where((k > 0) & (size > 100 * noise), size / last, 0.0)
            small = size <= noise
            stalled = (k > 1) & (size >= last / 2) & (size <= 1e-6)
            first = jnp.where(k == 0, size, first)
            return y + delta, k + 1, first, size, jnp.maximum(worst, ratio), small | stalled

        start = (guess, 0, jnp.inf, jnp.inf, 0.0, False)
        y, _, first, last, worst, done = jax.lax.while_loop(
            lambda state: ~state[-1] & (state[1] < 12) & (state[3] == state[3]), body, start
        )
        value, slope = jax.value_and_grad(S, 1)(y, t, chart)
        w, v = jnp.linalg.eigh(stiff_hessian(y, t, chart))
        force = control_force(y, t, chart)
        safe = jnp.where(jnp.abs(w) < 1e-300, 1e-300, w)
        y_dot = -v @ ((v.T @ force) / safe)
        curvature = jax.grad(jax.grad(S, 1), 1)(y, t, chart) + force @ y_dot
        H_dot = jax.jvp(lambda y, t: hessian(y, t, chart), (y, t), (y_dot, jnp.ones_like(t)))[1]
        return {
            "y": y,
            "converged": done,
            "first": first,
            "last": last,
            "contraction": worst,
            "action": value,
            "slope": slope,
            "curvature": curvature,
            "y_dot": y_dot,
            "eigenvalues": w,
            "modes": v,
            "eigenvalues_dot": jnp.sum(v * (H_dot @ v), axis=0),
        }

    def polish(y, t, chart):
        """Descent by shifted Newton steps inside the box, to round-off."""
        lo, hi = chart.box[:, 0], chart.box[:, 1]
        width = hi - lo

        def body(state):
            y, value, radius, k, _, broken = state
            g = gradient(y, t, chart)
            w, v = jnp.linalg.eigh(hessian(y, t, chart))
            floor = 1e-10 * jnp.max(jnp.abs(w)) + 1e-300
            delta = -v @ ((v.T @ g) / jnp.maximum(jnp.abs(w), floor))
            size = jnp.max(jnp.abs(delta) / width)
            delta = delta * jnp.minimum(1.0, radius / jnp.maximum(size, 1e-300))
            trial = jnp.clip(y + delta, lo, hi)
            value_new, g_new = both(trial, t, chart)
            bad = ~(jnp.isfinite(value_new) & jnp.all(jnp.isfinite(g_new)))
            slack = 4 * EPS * jnp.abs(value)
            better = (value_new < value) | (
                (value_new <= value + slack) & (jnp.linalg.norm(g_new) < jnp.linalg.norm(g))
            )
            accept = better & ~bad
            moved = jnp.max(jnp.abs(trial - y)) <= 1e-13 * (1e-3 + jnp.max(jnp.abs(y)))
            radius = jnp.where(accept, jnp.minimum(2 * radius, 1.0), radius / 4)
            done = moved | (radius < 1e-14)
            y, value = jnp.where(accept, trial, y), jnp.where(accept, value_new, value)
            return y, value, radius, k + 1, done, broken | bad

        start = (jnp.clip(y, lo, hi), S(jnp.clip(y, lo, hi), t, chart), 0.5, 0, False, False)
        y, value, _, _, done, broken = jax.lax.while_loop(
            lambda state: ~state[4] & (state[3] < 80), body, start
        )
        g = gradient(y, t, chart)
        H = hessian(y, t, chart)
        edge = 1e-7 * width
        outward = ((y <= lo + edge) & (g > 0)) | ((y >= hi - edge) & (g < 0))
        return {
            "y": y,
            "action": value,
            "gradient": jnp.linalg.norm(g),
            "hessian": H,
            "eigenvalues": jnp.linalg.eigvalsh(H),
            "on_bound": jnp.any(outward),
            "done": done,
            "broken": broken | ~jnp.isfinite(value),
        }

    def approach(y, t, chart):
        """Into a basin, from afar: projected gradient descent in the box."""
        zero, slope = both(y, t, chart)
        size = jnp.maximum(jnp.linalg.norm(slope * (chart.box[:, 1] - chart.box[:, 0])), 1e-300)

        def objective(y, t, chart, zero, size):
            return (S(y, t, chart) - zero) / size

        found = projected_descent(objective, y, chart.box, t, chart, zero, size)
        return jnp.where(jnp.all(jnp.isfinite(found.x)), found.x, y)

    def landau(y, v, t, chart):
        """Derivatives of S along v: third, fourth, d/dy of v.H.v; and the stiff Hessian."""

        def along(s, order):
            if order == 0:
                return S(y + s * v, t, chart)
            return jax.jvp(lambda s: along(s, order - 1), (s,), (1.0,))[1]

        H = stiff_hessian(y, t, chart)
        coupling = jax.grad(lambda y: v @ hessian(y, t, chart) @ v)(y)
        return {"third": along(0.0, 3), "fourth": along(0.0, 4), "coupling": coupling, "hessian": H}

    def saddle(y, t, chart):
        """Eigenvector following: up along the softest mode, down along all others."""
        lo, hi = chart.box[:, 0], chart.box[:, 1]

        def body(state):
            y, k, _ = state
            w, v = jnp.linalg.eigh(stiff_hessian(y, t, chart))
            sign = jnp.where(jnp.arange(w.size) == 0, -1.0, 1.0)
            floor = 1e-8 * jnp.max(jnp.abs(w)) + 1e-300
            delta = -v @ (sign * (v.T @ gradient(y, t, chart)) / jnp.maximum(jnp.abs(w), floor))
            size = jnp.linalg.norm(delta)
            delta = delta * jnp.minimum(1.0, 0.1 / jnp.maximum(size, 1e-300))
            return jnp.clip(y + delta, lo, hi), k + 1, size

        y, _, size = jax.lax.while_loop(
            lambda state: (state[2] > 1e-11) & (state[1] < 100), body, (y, 0, jnp.inf)
        )
        w, v = jnp.linalg.eigh(stiff_hessian(y, t, chart))
        return {
            "y": y,
            "action": S(y, t, chart),
            "eigenvalues": w,
            "soft": v[:, 0],
            "converged": size <= 1e-6,
        }

    def batched(f):
        return jax.jit(jax.vmap(f, (0, 0, None)))

    return SimpleNamespace(
        value=batched(S),
        gradient=batched(gradient),
        approach=batched(approach),
        polish=batched(polish),
        saddle=batched(saddle),
        critical=jax.jit(critical),
        landau=jax.jit(landau),
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
