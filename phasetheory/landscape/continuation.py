"""Pseudo-arclength continuation: a curve of solutions of N - 1 smooth equations in N unknowns.

A step goes along the tangent and back to the curve by Newton's method in the plane perpendicular to
it, so folds in any unknown are ordinary points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phasetheory.landscape.kernels import EPS

#: equations and their Jacobian at a point: (N - 1,), (N - 1, N)
Equations = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

MOST_NEWTON_STEPS = 12
#: Newton steps below this may have stopped shrinking for round-off
NEWTON_FLOOR = 1e-6
#: steps along the curve, in units of the unknowns
LARGEST_STEP = 0.05
SMALLEST_STEP = 1e-8
#: a step is repeated with half the length if the tangent turns by more than this cosine tells, or
#: if the point is further from the prediction than this share of the step
LEAST_COSINE = 0.97
LARGEST_CORRECTION = 0.3


@dataclass(frozen=True)
class Root:
    """A solution of square equations: z (N,), and a bound on the error of each unknown."""

    z: np.ndarray
    error: np.ndarray


def newton(equations: Equations, guess: np.ndarray) -> Root | None:
    """Newton's method for as many equations as unknowns, to round-off; None where it fails."""
    z, last = np.array(guess, float), np.inf
    for k in range(MOST_NEWTON_STEPS):
        F, J = equations(z)
        if not (np.isfinite(F).all() and np.isfinite(J).all()):
            return None
        try:
            inverse = np.linalg.inv(J)
        except np.linalg.LinAlgError:
            return None
        delta = -inverse @ F
        size = float(np.linalg.norm(delta))
        z = z + delta
        exact = size <= 4 * EPS * (1 + np.abs(z).max())
        if exact or (k > 1 and size <= NEWTON_FLOOR and size >= last / 2):
            # round-off is what the steps come down to; equations are known to some digits at best
            floor = 16 * EPS * (np.abs(inverse).sum(axis=1) + np.abs(z))
            return Root(z, 4 * np.abs(delta) + floor)
        last = size
    return None


def fixed(equations: Equations, index: int, value: float) -> Equations:
    """The equations with one more: the unknown at `index` has the value."""

    def square(z):
        F, J = equations(z)
        return np.append(F, z[index] - value), np.vstack([J, np.eye(z.size)[index]])

    return square


def tangent(equations: Equations, z: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The unit tangent of the curve at z, in the sense of `like`."""
    direction = np.linalg.svd(equations(z)[1])[2][-1]
    return direction * (1.0 if direction @ like >= 0 else -1.0)


def step(
    equations: Equations, z: np.ndarray, along: np.ndarray, length: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """The point of the curve about `length` further, and the tangent there.

    Returns:
        None where Newton's method fails or the point may lie on another curve.
    """
    guess = z + length * along

    def square(x):
        F, J = equations(x)
        return np.append(F, along @ (x - guess)), np.vstack([J, along])

    found = newton(square, guess)
    if found is None or np.linalg.norm(found.z - guess) > LARGEST_CORRECTION * length:
        return None
    new = tangent(equations, found.z, along)
    return (found.z, new) if new @ along >= LEAST_COSINE else None
