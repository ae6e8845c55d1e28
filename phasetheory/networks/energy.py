"""Energies of a network on the copy task: minus the logarithm of its posterior, in nats.

``U = |parameters|^2/2 + (1/2 kappa R) sum over sequences |Y - A X W|^2`` with R predicted
positions. Three routes to it: from the counts of a data set (`energy`), from a minibatch
(`minibatch_energy`), and with W integrated out (`collapsed_energy`).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from phasetheory.networks.attention import Network, Parameters, attention_matrix, weights
from phasetheory.networks.task import CopyTask, PairCounts


class Data(NamedTuple):
    """A data set as an energy needs it; see `PairCounts`.

    Attributes:
        M: shape (L^2, V^2).
        shift: target matrix S, shape (L, L).
        predicted: shape (L,).
        target_square: sum of ``|y|^2``.
        P: number of sequences.
        kappa: ridge.
    """

    M: Float[Array, "LL VV"]
    shift: Float[Array, "L L"]
    predicted: Float[Array, " L"]
    target_square: Float[Array, ""]
    P: Float[Array, ""]
    kappa: Float[Array, ""]

    @property
    def temperature(self) -> Float[Array, ""]:
        """kappa R: the squared error enters the energy over twice this."""
        return self.kappa * self.predicted.sum()


def data(task: CopyTask, counts: PairCounts, kappa: float) -> Data:
    """Counts of a data set and a ridge, as arrays."""
    return Data(
        jnp.asarray(counts.M),
        jnp.asarray(task.shift),
        jnp.asarray(task.predicted),
        jnp.asarray(counts.target_square),
        jnp.asarray(float(counts.P)),
        jnp.asarray(float(kappa)),
    )


def prior_energy(parameters: Parameters) -> Float[Array, ""]:
    """Half the sum of squares, the parameters being in units of their priors."""
    return 0.5 * sum((jnp.sum(x**2) for x in parameters.values()), jnp.zeros(()))


def squared_error(A: Array, W: Array, data: Data) -> Float[Array, ""]:
    """``sum |Y - A X W|^2`` over a data set: one product with M and, in reverse, another."""
    kept = A * data.predicted[:, None]
    pairs = jnp.stack([W.T.ravel(), (W @ W.T).ravel()], axis=-1)
    over_tokens = data.M @ pairs
    overlap, square = (kept.T @ kept).ravel(), (data.shift.T @ A).ravel()
    return (
        data.target_square - 2 * jnp.vdot(square, over_tokens[:, 0]) + overlap @ over_tokens[:, 1]
    )


def energy(network: Network, parameters: Parameters, data: Data) -> Float[Array, ""]:
    """U of the parameters, from the counts."""
    A, W = attention_matrix(network, parameters), weights(network, parameters)
    return prior_energy(parameters) + squared_error(A, W, data) / (2 * data.temperature)


def minibatch_energy(
    network: Network, parameters: Parameters, sequences: Int[Array, "B L"], data: Data
) -> Float[Array, ""]:
    """An unbiased estimate of U from B of the P sequences."""
    A, W = attention_matrix(network, parameters), weights(network, parameters)
    X = jax.nn.one_hot(sequences, W.shape[0], dtype=W.dtype)
    error = data.shift @ X - A @ (X @ W)
    total = jnp.sum(error**2 * data.predicted[:, None]) * data.P / len(sequences)
    return prior_energy(parameters) + total / (2 * data.temperature)


class Posterior(NamedTuple):
    """The Gaussian posterior of W at a given A: V independent columns of one precision.

    Attributes:
        cholesky: of the precision in units of the prior, lower, shape (V, V).
        mean: of W in units of the prior, shape (V, V).
        gain: ``(1/2) tr(B^T precision^-1 B)`` with B in the same units, in nats.
    """

    cholesky: Float[Array, "V V"]
    mean: Float[Array, "V V"]
    gain: Float[Array, ""]


def posterior_of_weights(network: Network, A: Array, data: Data) -> Posterior:
    """The exact posterior of W given A."""
    V = network.V
    kept = A * data.predicted[:, None]
    pairs = jnp.stack([(data.shift.T @ A).ravel(), (kept.T @ kept).ravel()])
    B, Phi = (pairs @ data.M).reshape(2, V, V)
    precision = jnp.eye(V) + network.var_w * Phi / data.temperature
    linear = math.sqrt(network.var_w) * B.T / data.temperature
    cholesky = jnp.linalg.cholesky((precision + precision.T) / 2)
    mean = jax.scipy.linalg.cho_solve((cholesky, True), linear)
    return Posterior(cholesky, mean, jnp.vdot(linear, mean) / 2)


def collapsed_energy(network: Network, attention: Parameters, data: Data) -> Float[Array, ""]:
    """U with W integrated out, as a function of the attention's parameters alone (no "w")."""
    posterior = posterior_of_weights(network, attention_matrix(network, attention), data)
    log_determinant = network.V * jnp.sum(jnp.log(jnp.diagonal(posterior.cholesky)))
    constant = data.target_square / (2 * data.temperature)
    return prior_energy(attention) + constant + log_determinant - posterior.gain


def sample_weights(posterior: Posterior, key: Array) -> Float[Array, "V V"]:
    """W in units of its prior from its posterior."""
    noise = jax.random.normal(key, posterior.mean.shape)
    return posterior.mean + jax.scipy.linalg.solve_triangular(
        posterior.cholesky.T, noise, lower=False
    )
