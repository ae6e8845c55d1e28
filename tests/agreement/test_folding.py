"""The sign convention of measured networks, against draws."""

import numpy as np
import pytest

from phasetheory.agreement.folding import folded


@pytest.mark.parametrize("mean", [(0.0, 0.0), (0.3, -0.2), (-0.5, 0.4), (3.0, 1.0)])
def test_mean_and_variance_are_those_of_turned_draws(mean):
    covariance = np.array([[0.25, 0.1], [0.1, 0.16]])
    draws = np.random.default_rng(1).multivariate_normal(mean, covariance, 2_000_000)
    turned = draws * np.sign(draws[:, :1])
    found, variance = folded(mean, covariance, 0)
    assert found == pytest.approx(turned.mean(axis=0), abs=1.5e-3)
    assert variance == pytest.approx(turned.var(axis=0), abs=1.5e-3)


def test_limits():
    """Far from zero the sign is a constant; at a mean of zero |x| averages sqrt(2 chi/pi)."""
    found, variance = folded([-9.0, 2.0], np.diag([1.0, 4.0]), 0)
    assert found == pytest.approx([9.0, -2.0]) and variance == pytest.approx([1.0, 4.0])
    found, variance = folded([0.0, 0.0], np.diag([4.0, 1.0]), 0)
    assert found == pytest.approx([2 * np.sqrt(2 / np.pi), 0.0])
    assert variance == pytest.approx([4 * (1 - 2 / np.pi), 1.0])


def test_without_fluctuations_only_the_sign():
    found, variance = folded([[-0.5, 0.2], [0.0, 0.1], [0.5, 0.2]], np.zeros((3, 2, 2)), 0)
    assert found == pytest.approx(np.array([[0.5, -0.2], [0.0, 0.1], [0.5, 0.2]]))
    assert variance == pytest.approx(np.zeros((3, 2)), abs=1e-15)
