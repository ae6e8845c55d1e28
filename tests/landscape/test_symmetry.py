"""Symmetries read off the values of an action."""

import numpy as np
import pytest

from phasetheory.landscape.kernels import Chart, kernels
from phasetheory.landscape.symmetry import generators, signed_permutations

RNG = np.random.default_rng(3)


def found(action, n, scale=None):
    kern = kernels(action, False)
    chart = Chart(
        theta=np.zeros(0),
        scale=np.ones(n) if scale is None else np.array(scale),
        control=np.array([0.0, 1.0]),
        unit=np.array(1.0),
        box=np.array([[-3.0, 3.0]] * n),
        generators=np.zeros((0, n, n + 1)),
    )
    points, times = RNG.normal(size=(128, n)), RNG.uniform(size=128)
    return (
        signed_permutations(kern, chart, points, times),
        generators(kern, chart, points, times),
    )


def test_square_symmetry():
    """x^4 + y^4 has the eight signed permutations and no continuous symmetry."""
    group, fields = found(lambda x, u, _: x[0] ** 4 + x[1] ** 4 + u * x[0] * x[1] * 0, 2)
    assert len(group) == 8
    assert fields.shape[0] == 0


def test_rotations_also_in_other_units():
    """A rotation stays a symmetry where one variable is measured in other units."""

    def action(x, u, _):
        return (x[0] ** 2 + (1e3 * x[1]) ** 2 - u) ** 2

    _, fields = found(action, 2, scale=[1.0, 1e-3])
    assert fields.shape[0] == 1
    A, b = fields[0, :, :2], fields[0, :, 2]
    assert pytest.approx(0, abs=1e-8) == np.abs(A + A.T).max() + np.abs(b).max()


def test_o3_has_three_generators():
    _, fields = found(lambda x, u, _: ((x**2).sum() - u) ** 2, 3)
    assert fields.shape[0] == 3


def test_a_tilt_breaks_everything():
    group, fields = found(lambda x, u, _: (x**4).sum() + 0.1 * x[0] + 0.03 * x[1], 2)
    assert len(group) == 1
    assert fields.shape[0] == 0
