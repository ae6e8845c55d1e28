"""The equations that define special points of an action, as functions for Newton's method.

They are written for a scaled action ``S(z, chart)`` whose z starts with the n coordinates y and
goes on with whatever else is varied (the control t, a second parameter s). A soft direction v is
not an unknown: it comes from the Hessian bordered by a fixed vector `soft` near it, which keeps the
equations smooth where the Hessian is singular (the minimally augmented systems of Griewank and
Reddien).
"""

from collections.abc import Callable
from types import SimpleNamespace

import jax
import jax.numpy as jnp


def pieces(S: Callable) -> SimpleNamespace:
    """The pieces of the defining systems of an action.

    Args:
        S: pure JAX function ``(z[n + k], chart) -> scalar``, with ``chart.scale`` of shape (n,).

    Returns:
        Functions of (z, chart): `gradient` (n,) and `hessian` (n, n + k), the derivative of the
        gradient in z; and of (z, soft, chart), with `soft` of shape (n,): `softness`, `cubic` and
        `quartic`, scalars in the chart's units.
    """

    def gradient(z, chart):
        return jax.grad(S)(z, chart)[: len(chart.scale)]

    def hessian(z, chart):
        return jax.jacfwd(gradient)(z, chart)

    def border(H, soft):
        return jnp.block([[H, soft[:, None]], [soft[None], jnp.zeros((1, 1))]])

    def null(z, soft, chart):
        H = hessian(z, chart)[:, : soft.size]
        solved = jnp.linalg.solve(border(H, soft), jnp.zeros(soft.size + 1).at[-1].set(1.0))
        return solved[:-1], -solved[-1], H

    def softness(z, soft, chart):
        """v^T H v for the v with soft^T v = 1 that makes H v parallel to soft: it vanishes with
        det H, is smooth, and is the lowest eigenvalue where `soft` is its mode."""
        return null(z, soft, chart)[1]

    def along(f, z, v, order):
        """The derivative of that order of f(z, chart) along v."""
        step = jnp.zeros_like(z).at[: v.size].set(v)

        def derivative(f):
            return lambda x: jax.jvp(f, (x,), (1.0,))[1]

        def line(x):
            return f(z + x * step)

        for _ in range(order):
            line = derivative(line)
        return line(0.0)

    def cubic(z, soft, chart):
        """The third derivative of S along the unit v: zero, with softness, at a cusp."""
        v = null(z, soft, chart)[0]
        return along(lambda z: S(z, chart), z, v / jnp.linalg.norm(v), 3)

    def quartic(z, soft, chart):
        """The fourth derivative along the unit v after eliminating the stiff directions: zero, at
        a symmetric point with vanishing softness, where a line of second order ends."""
        v, _, H = null(z, soft, chart)
        v = v / jnp.linalg.norm(v)
        fourth = along(lambda z: S(z, chart), z, v, 4)
        coupling = along(lambda z: gradient(z, chart), z, v, 2)
        relief = jnp.linalg.solve(border(H, v), jnp.append(coupling, 0.0))[:-1]
        return fourth - 3 * coupling @ relief

    return SimpleNamespace(
        gradient=gradient, hessian=hessian, softness=softness, cubic=cubic, quartic=quartic
    )
