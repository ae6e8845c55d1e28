"""What a sweep computes: points on a grid of labelled axes, and the function that does them."""

import importlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasetheory.errors import InputError


@dataclass(frozen=True)
class Result:
    """One value that a point gives.

    Attributes:
        name: of the array.
        description: what it is, with its unit.
        dtype: of NumPy, a number.
        optional: whether a point without it (NaN) can be done.
    """

    name: str
    description: str = ""
    dtype: str = "float64"
    optional: bool = False


@dataclass(frozen=True)
class Plan:
    """A grid of points and the function that computes them.

    Attributes:
        axes: pairs of a name and its distinct values; the points are their product, the last axis
            running fastest. Seeds are an axis like any other.
        function: import path ``module:name`` of a function ``(points, configuration) -> results``.
            `points` maps each axis to an array (B,) of values, results map names to arrays (B,);
            "status" among them gives codes of `Status`. A point's values must not depend on which
            others it is computed with.
        results: what the function gives.
        configuration: fixed values that the function gets, as JSON values.
        batch: points computed in one call.

    Raises:
        InputError: naming what is wrong.
    """

    axes: tuple[tuple[str, tuple[float, ...]], ...]
    function: str
    results: tuple[Result, ...]
    configuration: dict[str, Any] = field(default_factory=dict)
    batch: int = 64

    def __post_init__(self):
        if not self.axes:
            raise InputError("a sweep needs at least one axis")
        for name, values in self.axes:
            if not values:
                raise InputError(f"the axis {name} has no values")
            if len(set(values)) < len(values):
                raise InputError(f"the axis {name} has a value twice")
            if not all(math.isfinite(value) for value in values):
                raise InputError(f"the axis {name} has a value that is not finite")
        names = [name for name, _ in self.axes] + [result.name for result in self.results]
        if len(set(names)) < len(names) or "status" in names or "point" in names:
            raise InputError("axes and results need distinct names, other than status and point")
        if self.batch < 1:
            raise InputError(f"a batch needs at least 1 point, not {self.batch}")
        try:
            json.dumps(self.configuration, allow_nan=False)
        except (TypeError, ValueError):
            raise InputError("the configuration must consist of finite JSON values") from None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for _, values in self.axes)

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)

    @property
    def batches(self) -> int:
        """Number of batches."""
        return -(-self.size // self.batch)

    def indices(self, batch: int) -> np.ndarray:
        """The points of a batch, by their place in the product of the axes."""
        return np.arange(batch * self.batch, min((batch + 1) * self.batch, self.size))

    def points(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the axes at points, shape (B,) each."""
        places = np.unravel_index(indices, self.shape)
        return {
            name: np.asarray(values)[place]
            for (name, values), place in zip(self.axes, places, strict=True)
        }

    def fixed(self) -> dict[str, Any]:
        """What stays the same when a sweep is extended, as JSON values."""
        return {
            "axes": [name for name, _ in self.axes],
            "function": self.function,
            "results": [[r.name, r.dtype] for r in self.results],
            "configuration": self.configuration,
        }


def load_function(path: str) -> Callable:
    """The function of an import path ``module:name``.

    Raises:
        InputError: if there is none.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"there is no function {path!r}: {error}") from None
