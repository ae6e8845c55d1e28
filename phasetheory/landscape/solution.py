"""The phase finder's working values, and the way between scaled coordinates and the user's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

import jax
import numpy as np

from phasetheory._jax import jit_small
from phasetheory.landscape.branches import Branch
from phasetheory.landscape.kernels import Chart
from phasetheory.landscape.model import Landscape


@dataclass(frozen=True)
class Solution:
    """The finder's working values in scaled coordinates, kept for further questions."""

    landscape: Landscape
    kern: SimpleNamespace
    chart: Chart
    group: list[np.ndarray]
    branches: list[Branch]

    def control(self, t):
        """The control at t in [0, 1]."""
        lo, hi = self.chart.control
        u = lo + (hi - lo) * np.asarray(t)
        return np.exp(u) if self.landscape.control_scale == "log" else u

    def t_of(self, control):
        """The inverse of `control`."""
        u = np.log(control) if self.landscape.control_scale == "log" else np.asarray(control)
        lo, hi = self.chart.control
        return (u - lo) / (hi - lo)

    def control_rate(self, t):
        """d control / dt."""
        lo, hi = self.chart.control
        factor = self.control(t) if self.landscape.control_scale == "log" else 1.0
        return (hi - lo) * factor

    def observe(self, y, t) -> np.ndarray:
        """Order parameters (K, m) of points y (K, n) at t (K,)."""
        x = np.atleast_2d(y) * np.asarray(self.chart.scale)
        u = np.broadcast_to(self.control(t), (len(x),))
        return _observe(self.landscape, x, u, np.asarray(self.chart.theta))


@lru_cache(maxsize=64)
def _compiled(observe: Callable) -> Callable:
    return jit_small(jax.vmap(observe, (0, 0, None)))


def _observe(landscape: Landscape, x, u, theta) -> np.ndarray:
    if landscape.observe is None:
        return np.asarray(x)
    rows = np.arange(-(-len(x) // 256) * 256) % len(x)  # whole blocks: one compilation for all
    return np.asarray(_compiled(landscape.observe)(x[rows], u[rows], theta))[: len(x)]
