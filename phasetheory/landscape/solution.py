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
    """The finder's working values in scaled coordinates, kept for further questions.

    `group`: signed permutations that leave the action unchanged; `extent` (n, 2): lowest and
    highest coordinates of the minima found.
    """

    landscape: Landscape
    kern: SimpleNamespace
    chart: Chart
    group: list[np.ndarray]
    branches: list[Branch]
    extent: np.ndarray

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
        """Order parameters (K, m) of points y (K, n) at t, a number or (K,)."""
        x = np.atleast_2d(y) * np.asarray(self.chart.scale)
        if self.landscape.observe is None:
            return x
        return self._evaluate(_compiled(self.landscape.observe), x, t)

    def measure(self, y, t) -> np.ndarray:
        """Observables (K, k) of points y (K, n) at t, a number or (K,)."""
        x = np.atleast_2d(y) * np.asarray(self.chart.scale)
        if self.landscape.measure is None:
            return np.zeros((len(x), 0))
        return self._evaluate(_compiled(self.landscape.measure), x, t)

    def susceptibility(self, y, t, eigenvalues, modes) -> np.ndarray:
        """Covariance (K, m, m) of the order parameters, from the modes of the Hessian."""
        scale = np.asarray(self.chart.scale)
        x = np.atleast_2d(y) * scale
        if self.landscape.observe is None:
            J = np.broadcast_to(np.eye(x.shape[1]), (len(x), x.shape[1], x.shape[1]))
        else:
            J = self._evaluate(_compiled(self.landscape.observe, derivative=True), x, t)
        half = np.einsum("kmn,n,knj->kmj", J, scale, np.atleast_3d(modes))
        half = half / np.sqrt(np.atleast_2d(eigenvalues) * float(self.chart.unit))[:, None, :]
        return half @ np.swapaxes(half, 1, 2)

    def _evaluate(self, function: Callable, x, t) -> np.ndarray:
        u = np.broadcast_to(self.control(t), (len(x),))
        rows = np.arange(-(-len(x) // 256) * 256) % len(x)  # whole blocks: one compilation for all
        return np.asarray(function(x[rows], u[rows], self.chart.theta))[: len(x)]


@lru_cache(maxsize=64)
def _compiled(function: Callable, derivative: bool = False) -> Callable:
    return jit_small(jax.vmap(jax.jacfwd(function) if derivative else function, (0, 0, None)))
