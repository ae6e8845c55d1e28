"""Means, standard errors and biases on numbers that are known."""

import numpy as np
import pytest

from phasetheory.agreement.values import combine, minimum, same, sampled, total_error


def chains(mean, scale, seed, count=4, draws=500):
    return mean + scale * np.random.default_rng(seed).normal(size=(count, draws))


def test_errors_of_data_sets():
    mean, mc, between = combine([1.0, 2.0, 3.0], [0.3, 0.0, 0.4])
    assert (mean, mc, between) == (2.0, pytest.approx(0.5 / 3), pytest.approx(1 / 3**0.5))
    assert combine([1.0], [0.1]) == (1.0, 0.1, None)
    assert total_error(0.1, None) == 0.1
    assert total_error(0.1, 0.3) == 0.3
    assert total_error(0.1, 0.01) == 0.1  # data sets that lie together by chance


def test_spread_over_data_sets_covers_the_truth():
    """The mean over data sets is within three errors of that of all data, about always."""
    rng = np.random.default_rng(0)
    inside = 0
    for trial in range(20):
        values = [chains(rng.normal(scale=0.2), 1.0, (trial, k)) for k in range(8)]
        value = sampled(values, halves=False)
        assert value.mc_error == pytest.approx(1 / np.sqrt(8 * 2000), rel=0.2)
        assert value.between_error is not None and value.between_error > value.mc_error
        inside += abs(value.mean) <= 3 * value.error
    assert inside >= 18


def test_variance_over_samples_leaves_the_data_out():
    value = sampled([chains(k, 0.5, k) for k in range(4)], halves=False)
    assert value.variance == pytest.approx(0.25, abs=4 * value.variance_error)
    assert value.variance_error < 0.02
    assert value.trouble == "" and value.rhat < 1.01 and value.ess > 1000


def test_bias_of_the_step():
    """Full steps at 1.2, half steps at 1.1: the limit is 1.0, the bias 0.2."""
    groups = []
    for k in range(3):
        values = chains(0.0, 0.1, k, count=8)
        values[::2] += 1.2
        values[1::2] += 1.1
        groups.append(values)
    value = sampled(groups, halves=True)
    assert value.mean == pytest.approx(1.2, abs=0.01)
    assert value.bias == pytest.approx(0.2, abs=3 * value.bias_error)
    assert value.trouble == ""  # R-hat is of each group for itself
    assert value.variance == pytest.approx(0.01, rel=0.1)


def test_chains_apart_have_not_converged():
    values = chains(0.0, 0.1, 0)
    values[0] += 1.0
    assert sampled([values], halves=False).trouble.startswith("R-hat")
    still = sampled([np.ones((4, 100))], halves=False)
    assert still.trouble and still.mean == 1.0
    slow = np.cumsum(np.random.default_rng(0).normal(size=(2, 60)), axis=1)
    assert sampled([slow], halves=False).trouble


def test_same_mean_within_errors_of_the_chains():
    one = [chains(k, 0.1, k) for k in range(3)]
    other = [chains(k, 0.1, 10 + k) for k in range(3)]
    assert same(one, other, 3.0)
    assert not same(one, [x + 0.05 for x in other], 3.0)


def test_minimum():
    value = minimum([np.array([0.3, 0.3]), np.array([0.4])])
    assert value.mean == pytest.approx(0.35) and value.error == pytest.approx(0.05)
    assert value.rhat is None and value.variance is None and value.trouble == ""
