"""Functions that sweeps in the tests run, also in worker processes."""

import time

import numpy as np


def product(points, configuration):
    """x y + c; slow where the configuration says so."""
    time.sleep(configuration.get("sleep", 0.0))
    return {"z": points["x"] * points["y"] + configuration["c"], "n": points["x"].astype(int)}


def trouble(points, configuration):
    """Raises at x = 2, gives NaN at x = 3, and does not find anything at x = 4."""
    del configuration
    if (points["x"] == 2).any():
        raise ArithmeticError("two is not possible")
    z = np.where(points["x"] == 3, np.nan, points["x"])
    z = np.where(points["x"] == 4, np.nan, z)
    return {"z": z, "status": np.where(points["x"] == 4, 2, 1)}
