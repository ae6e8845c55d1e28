"""Fastest changes that are no transitions."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

#: a peak counts where it stands out from the lower of its surroundings by this factor
PROMINENCE = 1.5


def peaks(
    rate: Callable[[float], float], t: np.ndarray, values: np.ndarray
) -> list[tuple[float, float]]:
    """Interior maxima of a rate that stand out on both sides, as (t, rate), highest first.

    Args:
        rate: the rate at any t.
        t, values: its values at nodes, ascending in t.
    """
    found = []
    for k in np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])) + 1:
        left, right = values[: k + 1].min(), values[k:].min()
        if values[k] < PROMINENCE * max(left, right):
            continue
        # a peak that is lower than an end of the segment belongs to the singularity there
        best = minimize_scalar(
            lambda s: -rate(s),
            bounds=(t[k - 1], t[k + 1]),
            method="bounded",
            options={"xatol": 1e-9},
        )
        found.append((float(best.x), float(-best.fun)))
    return sorted(found, key=lambda peak: -peak[1])
