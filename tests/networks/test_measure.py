"""Observables of networks, against their definitions on sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasetheory.networks.chains import problem
from phasetheory.networks.measure import measure
from phasetheory.networks.task import CopyTask, sample_sequences

TASKS = [CopyTask(7, 3), CopyTask(7, 3, ones=2), CopyTask(7, 3, cyclic=False)]


def at(task, attention, A, W, P=20):
    data = problem(task, P, 1.0)
    seen = measure(attention, jnp.asarray(A), jnp.asarray(W), data.train, data.fresh)
    return {name: float(x) for name, x in seen.items()}


@pytest.mark.parametrize("task", TASKS[:2])
def test_symmetric_matrices_give_their_amplitudes_back(task):
    J, S, s = np.ones((7, 7)) / 7, task.shift, task.ones
    seen = at(task, "linear", 0.3 * J + 0.2 * S, np.diag([1.0, 2.0, 3.0]))
    assert seen["c_1"] == pytest.approx(0.3)
    assert seen["c_G"] == pytest.approx(0.2)
    assert seen["alpha"] == pytest.approx(0.3 + 0.2 * s)
    assert seen["coverage"] == pytest.approx(1.0)
    assert seen["w_u"] == pytest.approx(2.0)
    assert seen["w"] == pytest.approx(2.0)
    seen = at(task, "softmax", 0.4 * J + 0.6 * S / s, np.eye(3))
    assert seen["a_G"] == pytest.approx(0.6)
    assert seen["a"] == pytest.approx(0.4 / 7 + 0.6 / s)


@pytest.mark.parametrize("task", TASKS)
def test_signs_and_relabelled_positions_change_nothing(task):
    rng = np.random.default_rng(0)
    A, W = rng.normal(size=(7, 7)), rng.normal(size=(3, 3))
    seen = at(task, "linear", A, W)
    for name, value in at(task, "linear", -A, -W).items():
        assert value == pytest.approx(seen[name])
    assert seen["alpha"] >= 0
    if task.cyclic:
        # A S^T -> Pi A S^T Pi^T
        Pi = np.eye(7)[rng.permutation(7)]
        moved = Pi @ A @ np.linalg.inv(task.shift) @ Pi.T @ task.shift
        other = at(task, "linear", moved, W)
        for name in ("alpha", "c_G", "q", "coverage", "test_loss"):
            if task.ones == 1:
                assert other[name] == pytest.approx(seen[name])


@pytest.mark.parametrize("task", TASKS)
def test_losses_are_means_over_sequences_and_positions(task):
    key = jax.random.key(0)
    A = jax.nn.softmax(jax.random.normal(key, (7, 7)), axis=-1)
    W = jax.random.normal(key, (3, 3))
    seen = at(task, "softmax", A, W)

    def loss(sequences):
        X = np.eye(3)[sequences]
        error = task.shift @ X - np.asarray(A) @ X @ np.asarray(W)
        return np.sum(error[:, task.predicted > 0] ** 2, axis=(1, 2)) / task.positions

    assert seen["train_loss"] == pytest.approx(loss(sample_sequences(task, 20, 0)).mean())
    fresh = loss(sample_sequences(task, 50_000, 5))
    assert seen["test_loss"] == pytest.approx(fresh.mean(), abs=5 * fresh.std() / 50_000**0.5)


def test_coverage_of_noise_is_small():
    rng = np.random.default_rng(1)
    assert at(TASKS[0], "linear", rng.normal(size=(7, 7)), np.eye(3))["coverage"] < 0.3
