"""Means over chains and data sets with their uncertainties."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasetheory.networks.diagnostics import LARGEST_RHAT, SMALLEST_ESS, Estimate, estimate

#: records that a chain must have for a standard error
FEWEST_DRAWS = 4


@dataclass(frozen=True)
class Value:
    """An observable, averaged over samples and data sets.

    Attributes:
        mean: mean over data sets of the means over samples.
        error: standard error that comparisons use (`combine`).
        mc_error: its part from the finite chains; zero for minima.
        between_error: standard error from the spread over data sets, which holds the former; None
            with one data set.
        rhat: largest over data sets (and groups of one step size); ess: smallest. None for minima.
        bias, bias_error: of the finite step, and its standard error; None where there is none.
        variance, variance_error: over samples at given data, mean over data sets. None for minima.
        trouble: why it has not converged; empty if it has.
    """

    mean: float
    error: float
    mc_error: float
    between_error: float | None
    rhat: float | None = None
    ess: float | None = None
    bias: float | None = None
    bias_error: float | None = None
    variance: float | None = None
    variance_error: float | None = None
    trouble: str = ""


def combine(means: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float | None]:
    """Mean over data sets, its Monte Carlo error, and its error from the spread over data sets.

    Args:
        means, errors: one of each for every data set, with independent chains.
    """
    K = len(means)
    mc = math.sqrt(math.fsum(e**2 for e in errors)) / K
    between = float(np.std(means, ddof=1)) / math.sqrt(K) if K > 1 else None
    return math.fsum(means) / K, mc, between


def total_error(mc: float, between: float | None) -> float:
    """The spread over data sets holds the noise of the chains already, so the two are not added;
    but few data sets may lie together by chance, and the error is no smaller than that noise."""
    return mc if between is None else max(mc, between)


def sampled(chains: Sequence[np.ndarray], halves: bool) -> Value:
    """A value from the samples of an observable.

    Args:
        chains: one array for each data set, shape (chains, draws).
        halves: whether every second chain ran at half the step. The value is then that of the full
            step, and ``2 (mean - mean at half the step)`` its bias, as the bias of a mean is
            proportional to the step.
    """
    full = [x[::2] if halves else x for x in chains]
    found = [estimate(x) for x in full]
    squares = [estimate((x - x.mean()) ** 2) for x in full]
    half = [estimate(x[1::2]) for x in chains] if halves else []
    mean, mc, between = combine([e.mean for e in found], [e.error for e in found])
    variance, variance_mc, variance_between = combine(
        [e.mean for e in squares], [e.error for e in squares]
    )
    bias = bias_error = None
    if halves:
        # the two groups see the same data: their difference has the noise of the chains only
        mean_half, mc_half, _ = combine([e.mean for e in half], [e.error for e in half])
        bias, bias_error = 2 * (mean - mean_half), 2 * math.hypot(mc, mc_half)
    rhat, ess = max(e.rhat for e in found + half), min(e.ess for e in found + half)
    return Value(
        mean,
        total_error(mc, between),
        mc,
        between,
        rhat,
        ess,
        bias,
        bias_error,
        variance,
        total_error(variance_mc, variance_between),
        _trouble(found + half),
    )


def minimum(values: Sequence[np.ndarray]) -> Value:
    """A value from trained networks.

    Args:
        values: for each data set those of the runs in its lowest minimum, which are one network up
            to symmetries and the precision of the training.
    """
    errors = [float(np.std(x)) for x in values]
    mean, mc, between = combine([float(np.mean(x)) for x in values], errors)
    return Value(mean, total_error(mc, between), mc, between)


def same(one: Sequence[np.ndarray], other: Sequence[np.ndarray], errors: float) -> bool:
    """Whether two groups of converged chains on the same data sets have the same mean, within some
    standard errors of the chains alone.

    Args:
        one, other: arrays (chains, draws), one for each data set.
    """
    a, b = ([estimate(x) for x in group] for group in (one, other))
    if not all(e.converged for e in a + b):
        return False
    mean_a, mc_a, _ = combine([e.mean for e in a], [e.error for e in a])
    mean_b, mc_b, _ = combine([e.mean for e in b], [e.error for e in b])
    return abs(mean_a - mean_b) <= errors * math.hypot(mc_a, mc_b)


def _trouble(found: Sequence[Estimate]) -> str:
    rhat, ess = max(e.rhat for e in found), min(e.ess for e in found)
    if not math.isfinite(rhat):
        return "chains that do not move, or too few draws"
    if rhat > LARGEST_RHAT:
        return f"R-hat {rhat:.2f}"
    return f"ESS {ess:.0f}" if ess < SMALLEST_ESS else ""
