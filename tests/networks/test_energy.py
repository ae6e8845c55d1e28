"""Energies against loops over sequences, and the marginal over W against theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasetheory.copytask import Setting, landscape
from phasetheory.networks.attention import Network, attention_matrix, prior_sample, weights
from phasetheory.networks.energy import (
    collapsed_energy,
    data,
    energy,
    minibatch_energy,
    posterior_of_weights,
    sample_weights,
)
from phasetheory.networks.task import CopyTask, expected_counts, pair_counts, sample_sequences

KAPPA = 0.7
NETWORKS = [
    Network("linear", 5, 3, var_g=2.0, var_w=0.5),
    Network("softmax", 5, 3, var_g=2.0, var_w=0.5),
    Network("softmax", 5, 3, head_dimension=4),
    Network("linear", 5, 3, head_dimension=2, embedding="fixed", embedding_dimension=7),
    Network("softmax", 5, 3, head_dimension=2, embedding="learnt", embedding_dimension=7),
]
TASKS = [CopyTask(5, 3), CopyTask(5, 3, tokens=(0.6, 0.3, 0.1), ones=2, cyclic=False)]


def case(network, task, P=40):
    sequences = sample_sequences(task, P, seed=0)
    return (
        prior_sample(network, jax.random.key(1)),
        data(task, pair_counts(task, sequences), KAPPA),
        sequences,
    )


def by_hand(network, task, parameters, sequences):
    A, W = attention_matrix(network, parameters), weights(network, parameters)
    total = 0.0
    for row in sequences:
        x = np.eye(task.V)[row]
        error = (task.shift @ x - np.asarray(A) @ x @ np.asarray(W))[task.predicted > 0]
        total += np.sum(error**2)
    prior = sum(float(np.sum(np.asarray(x) ** 2)) for x in parameters.values()) / 2
    return prior + total / (2 * KAPPA * task.positions)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_energy_is_the_sum_over_the_sequences(network, task):
    parameters, train, sequences = case(network, task)
    expected = by_hand(network, task, parameters, sequences)
    assert float(energy(network, parameters, train)) == pytest.approx(expected, rel=1e-12)
    whole = minibatch_energy(network, parameters, jnp.asarray(sequences), train)
    assert float(whole) == pytest.approx(expected, rel=1e-12)


def test_minibatches_are_unbiased():
    network, task = NETWORKS[1], TASKS[1]
    parameters, train, sequences = case(network, task)
    parts = [
        float(minibatch_energy(network, parameters, jnp.asarray(sequences[i : i + 8]), train))
        for i in range(0, 40, 8)
    ]
    assert np.mean(parts) == pytest.approx(float(energy(network, parameters, train)), rel=1e-12)
    assert np.std(parts) > 0.01 * np.mean(parts)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("task", TASKS)
def test_the_marginal_over_w_completes_the_square(network, task):
    """energy = collapsed energy - log det + half the square of W's distance from its mean."""
    parameters, train, _ = case(network, task)
    attention = {name: x for name, x in parameters.items() if name != "w"}
    posterior = posterior_of_weights(network, attention_matrix(network, attention), train)
    log_determinant = network.V * np.sum(np.log(np.diagonal(posterior.cholesky)))
    distance = posterior.cholesky.T @ (parameters["w"] - posterior.mean)
    expected = (
        float(collapsed_energy(network, attention, train))
        - log_determinant
        + float(np.sum(np.asarray(distance) ** 2)) / 2
    )
    assert float(energy(network, parameters, train)) == pytest.approx(expected, rel=1e-11)


def test_weights_are_drawn_from_their_posterior():
    network, task = NETWORKS[1], TASKS[0]
    parameters, train, _ = case(network, task)
    posterior = posterior_of_weights(network, attention_matrix(network, parameters), train)
    keys = jax.random.split(jax.random.key(3), 40_000)
    draws = np.asarray(jax.vmap(lambda k: sample_weights(posterior, k))(keys))
    covariance = np.linalg.inv(np.asarray(posterior.cholesky @ posterior.cholesky.T))
    spread = np.sqrt(np.diagonal(covariance))[:, None]
    assert np.abs((draws.mean(0) - posterior.mean) / spread).max() < 5 / 200
    found = np.einsum("nac,nbc->ab", draws - posterior.mean, draws - posterior.mean) / 120_000
    assert np.allclose(found, covariance, atol=0.02 * covariance.max())


@pytest.mark.parametrize("attention", ["linear", "softmax"])
def test_at_the_symmetric_point_it_is_the_action_of_the_level_tree(attention):
    """Written twice: in the networks from counts, in the theory from symbols."""
    L, V, P = 6, 3, 50.0
    setting = Setting(L=L, V=V, kappa=KAPPA, var_g=2.0, var_w=0.5)
    task = CopyTask(L, V)
    network = Network(attention, L, V, 2.0, 0.5)
    train = data(task, expected_counts(task, P), KAPPA)
    theory = landscape(attention, setting, P_range=(1.0, 1e4))
    theta = (*theory.parameters.values(), *theory.arrays)
    points = [(0.3, 0.1), (0.05, 0.2)] if attention == "linear" else [(0.5,), (2.0,)]
    found, expected = [], []
    for point in points:
        if attention == "linear":
            alpha, c_G = point
            A = (alpha - c_G) / L * np.ones((L, L)) + c_G * task.shift
            G = L * A
        else:
            # the gauge direction at the maximum of its Gaussian
            G = point[0] * (task.shift - 1 / L)
        attention_parameters = {"g": jnp.asarray(G) / network.var_g**0.5}
        found.append(float(collapsed_energy(network, attention_parameters, train)))
        expected.append(float(theory.action(jnp.array(point), P, theta)))
    # up to a constant: the mean square of the target
    assert found[0] - found[1] == pytest.approx(expected[0] - expected[1], rel=1e-10)


@pytest.mark.parametrize("network", NETWORKS)
def test_slopes_against_finite_differences(network):
    parameters, train, _ = case(network, TASKS[0])
    direction = prior_sample(network, jax.random.key(7))
    step = 1e-4

    def along(t):
        moved = {name: x + t * direction[name] for name, x in parameters.items()}
        return energy(network, moved, train)

    slope = jax.grad(lambda x: energy(network, x, train))(parameters)
    expected = sum(float(jnp.vdot(slope[name], direction[name])) for name in slope)
    assert float(along(step) - along(-step)) / (2 * step) == pytest.approx(expected, rel=1e-6)
