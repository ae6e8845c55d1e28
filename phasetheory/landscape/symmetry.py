"""Symmetries of an action, read off its values: signed permutations, continuous groups."""

from itertools import permutations, product

import numpy as np

from phasetheory.landscape.kernels import Chart
from phasetheory.landscape.search import in_batches

_TOLERANCE = 1e-9


def signed_permutations(kern, chart: Chart, points, times) -> list[np.ndarray]:
    """All signed permutations of the coordinates x that leave the action unchanged.

    Args:
        points: (K, n) test points in y, times: (K,).

    Returns:
        Matrices (n, n) acting on y, the identity first. Beyond four variables only sign changes
        are tried.
    """
    n = points.shape[1]
    scale = np.asarray(chart.scale)
    base = in_batches(kern.value, chart, points, times)["value"]
    size = np.abs(base - base.mean()).max() + 1e-300
    group = []
    orders = permutations(range(n)) if n <= 4 else [tuple(range(n))]
    for order in orders:
        for signs in product((1.0, -1.0), repeat=n):
            in_x = np.zeros((n, n))
            in_x[np.arange(n), order] = signs
            in_y = in_x * scale[None, :] / scale[:, None]
            values = in_batches(kern.value, chart, points @ in_y.T, times)["value"]
            if np.all(np.abs(values - base) <= _TOLERANCE * size):
                group.append(in_y)
    return group


def generators(kern, chart: Chart, points, times) -> np.ndarray:
    """Generators of the continuous affine symmetries of the action.

    A field ``A y + b`` is a symmetry where ``grad S . (A y + b) = 0`` everywhere: a linear problem
    for (A, b), solved at random points.

    Returns:
        Shape (m, n, n + 1): A and b of each independent generator; m = 0 where there is none.
    """
    n = points.shape[1]
    if n == 1:
        return np.zeros((0, 1, 2))  # a one-dimensional symmetry would make the action constant
    slopes = in_batches(kern.gradient, chart, points, times)["value"]
    slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-300)
    reach = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    rows = (slopes[:, :, None] * reach[:, None, :]).reshape(len(points), n * (n + 1))
    _, singular, fields = np.linalg.svd(rows)
    null = fields[singular <= _TOLERANCE * singular[0]]
    return null.reshape(-1, n, n + 1)
