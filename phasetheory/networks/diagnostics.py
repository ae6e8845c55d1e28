"""Whether chains have converged, and the standard errors of their means (ArviZ)."""

import math
from dataclasses import dataclass

import numpy as np
from arviz_stats.base.array import array_stats

#: above this R-hat, or below this effective sample size, chains have not converged
LARGEST_RHAT, SMALLEST_ESS = 1.05, 50.0


@dataclass(frozen=True)
class Estimate:
    """A mean over chains with its uncertainty.

    Attributes:
        mean, variance: over all chains and draws.
        error: standard error of the mean.
        rhat: rank-normalised split R-hat; ess: effective sample size.
        converged: whether both are within their limits.
    """

    mean: float
    error: float
    variance: float
    rhat: float
    ess: float
    converged: bool


def estimate(values: np.ndarray) -> Estimate:
    """The mean of an observable over chains, shape (chains, draws).

    Chains with fewer than four draws, that do not move at all or that hold a value that is not
    finite have not converged.
    """
    values = np.asarray(values, float)
    if values.shape[1] < 4:
        return Estimate(math.nan, math.inf, math.nan, math.inf, 0.0, False)
    mean, variance = float(np.mean(values)), float(np.var(values))
    if not (np.isfinite(values).all() and variance > 0):
        return Estimate(mean, math.inf, variance, math.inf, 0.0, False)
    ess, rhat, error = (
        float(np.asarray(statistic(values, chain_axis=0, draw_axis=1)))
        for statistic in (array_stats.ess, array_stats.rhat, array_stats.mcse)
    )
    converged = rhat <= LARGEST_RHAT and ess >= SMALLEST_ESS
    return Estimate(mean, error, variance, rhat, ess, bool(converged))
