"""The copy task as data, against loops over the sequences."""

import numpy as np
import pytest

from phasetheory.errors import InputError
from phasetheory.networks.task import CopyTask, expected_counts, pair_counts, sample_sequences

TASKS = [
    CopyTask(5, 3),
    CopyTask(6, 2, tokens=(0.8, 0.2)),
    CopyTask(5, 3, ones=2),
    CopyTask(5, 3, ones=2, cyclic=False),
]


@pytest.mark.parametrize("task", TASKS)
def test_counts_are_sums_over_the_sequences(task):
    sequences = sample_sequences(task, 50, seed=1)
    counts = pair_counts(task, sequences)
    L, V = task.L, task.V
    M, square = np.zeros((L, L, V, V)), 0.0
    for row in sequences:
        x = np.eye(V)[row]
        M += np.einsum("jb,kc->jkbc", x, x)
        square += np.sum((task.shift @ x) ** 2)
    assert np.array_equal(counts.M, M.reshape(L * L, V * V))
    assert counts.target_square == square
    assert counts.P == 50


@pytest.mark.parametrize("task", TASKS)
def test_expected_counts_are_the_mean_of_many_sequences(task):
    P = 40_000
    found = pair_counts(task, sample_sequences(task, P, seed=2))
    expected = expected_counts(task)
    # a count is a sum of P independent 0 or 1
    error = np.sqrt(np.maximum(expected.M * (1 - expected.M), 1e-9) / P)
    assert np.abs((found.M / P - expected.M) / error).max() < 5
    assert found.target_square / P == pytest.approx(expected.target_square, rel=0.02)


def test_a_target_is_the_token_before():
    task = CopyTask(4, 4)
    x = np.eye(4)
    assert np.array_equal(task.shift @ x, x[[3, 0, 1, 2]])
    assert np.array_equal(CopyTask(4, 4, cyclic=False).predicted, [0, 1, 1, 1])


def test_the_first_sequences_of_a_longer_set_are_the_same():
    task = CopyTask(5, 3)
    assert np.array_equal(sample_sequences(task, 7, 3), sample_sequences(task, 20, 3)[:7])


def test_frequencies_are_the_probabilities():
    task = CopyTask(4, 3, tokens=(0.7, 0.3, 0.0))
    counts = np.bincount(sample_sequences(task, 10_000, 0).ravel(), minlength=3)
    assert counts[2] == 0
    assert counts[0] / counts.sum() == pytest.approx(0.7, abs=5 * np.sqrt(0.21 / 40_000))


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        ({"L": 1}, "L must be"),
        ({"V": 1}, "V must be"),
        ({"ones": 5}, "ones must be below"),
        ({"tokens": (0.5, 0.5)}, "V is 3"),
        ({"tokens": (0.5, 0.6, -0.1)}, "sum to 1"),
    ],
)
def test_bad_input(wrong, sentence):
    with pytest.raises(InputError, match=sentence):
        CopyTask(**{"L": 5, "V": 3, **wrong})


@pytest.mark.parametrize("P, seed", [(0, 0), (10**9, 0), (5, -1)])
def test_bad_data(P, seed):
    with pytest.raises(InputError):
        sample_sequences(CopyTask(5, 3), P, seed)
