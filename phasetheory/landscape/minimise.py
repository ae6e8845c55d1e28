"""The adapter around jaxopt's minimisers; nothing else in the library calls them.

jaxopt returns normally when it stops at its iteration limit or on a NaN, so the adapter returns
what is needed to judge the result, and its callers judge it. Which solver, and why: see
docs/decisions.md.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import jaxopt


class Descent(NamedTuple):
    """Where the minimiser stopped: point (n,), its optimality error, iterations used."""

    x: Any
    error: Any
    iterations: Any


def projected_descent(
    objective: Callable, x0, box, iterations: int = 30, tolerance: float = 1e-3
) -> Descent:
    """Projected gradient descent with backtracking in a box, from one point; for use under vmap.

    Args:
        objective: ``objective(x) -> scalar``; should vary by about one over the box.
        x0: start, shape (n,).
        box: shape (n, 2).
        tolerance: stop where the projected gradient, in units of the box, is below it. Loose by
            default: the descent only has to reach a basin, a Newton method does the rest.

    Returns:
        A `Descent`; not converged where `error` exceeds the tolerance.
    """
    lo, width = box[:, 0], box[:, 1] - box[:, 0]
    solver = jaxopt.ProjectedGradient(
        lambda z: objective(lo + width * z),
        jaxopt.projection.projection_box,
        maxiter=iterations,
        tol=tolerance,
        acceleration=False,
        implicit_diff=False,
    )
    sides = (jnp.zeros_like(lo), jnp.ones_like(lo))
    z, state = solver.run((x0 - lo) / width, hyperparams_proj=sides)
    return Descent(lo + width * z, state.error, state.iter_num)
