"""Samplers of the posterior: full-batch Langevin, SGLD on minibatches, and HMC as the reference.

All advance many chains together, in the manner of blackjax: ``state -> state``, keys first. The
kernels themselves are blackjax's. Langevin and SGLD move (attention, W) and have the bias of a
finite step; HMC moves the attention alone, W being integrated out, and has none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from jaxtyping import Array, Float

from phasetheory.errors import InputError
from phasetheory.networks.attention import Network, Parameters, attention_matrix, weights
from phasetheory.networks.energy import (
    Data,
    collapsed_energy,
    energy,
    minibatch_energy,
    posterior_of_weights,
    sample_weights,
)
from phasetheory.networks.measure import measure

METHODS = ("hmc", "langevin", "sgld")
#: acceptance that the step of HMC is tuned to, and the length of a trajectory in units of the prior
ACCEPTANCE, TRAJECTORY, MOST_STEPS = 0.8, 1.5, 64


@dataclass(frozen=True)
class Sampler:
    """How a posterior is sampled.

    Attributes:
        method: "hmc" (W integrated out, unbiased), "langevin" (full batch) or "sgld".
        fraction: step of Langevin and SGLD times the largest curvature; the stationary variance
            in a direction of curvature a is too large by ``1/(1 - a step/2)``. Every second chain
            runs at half the step, so that the bias is measured in the same run.
        thin: steps of Langevin or SGLD for one record.
        batch: sequences in a minibatch of SGLD.
        start: SGLD warms up with a step that falls from `start` times the final one.

    Raises:
        InputError: for an unknown method or a number out of range.
    """

    method: str = "hmc"
    fraction: float = 0.1
    thin: int = 50
    batch: int = 64
    start: float = 3.0

    def __post_init__(self):
        if self.method not in METHODS:
            raise InputError(f"the method is {', '.join(METHODS)}, not {self.method!r}")
        if not 0 < self.fraction < 1:
            raise InputError(f"the step fraction must be between 0 and 1, not {self.fraction:g}")
        for name in ("thin", "batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")


class Problem(NamedTuple):
    """What the chains see: counts of the training data, exact expectations of fresh data, and the
    sequences (P, L) themselves, of which only SGLD needs more than the first."""

    train: Data
    fresh: Data
    sequences: Array


class State(NamedTuple):
    """Chains: each leaf of `position` has the axis of the chains first.

    Attributes:
        position: parameters in units of the prior; for HMC without W. For Langevin and SGLD "w" is
            in units of `precondition`.
        kernel: HMC's states and those of its step adaptation; empty for the others.
        step: step size of each chain, shape (chains,).
        precondition: matrix that "w" is multiplied with, shape (V, V); empty for HMC.
        accepted: mean acceptance of the last chunk, shape (chains,); 1 for the others.
    """

    position: Parameters
    kernel: Any
    step: Float[Array, " chains"]
    precondition: Any
    accepted: Float[Array, " chains"]


@partial(jax.jit, static_argnames=("network", "sampler"))
def initial_state(
    network: Network, sampler: Sampler, starts: Parameters, problem: Problem
) -> State:
    """Chains at given parameters (with the axis of the chains first, in units of the prior)."""
    chains = starts["w"].shape[0]
    ones = jnp.ones(chains)
    if sampler.method == "hmc":
        position = {name: x for name, x in starts.items() if name != "w"}
        log_density = _log_density(network, problem)
        hmc = jax.vmap(lambda x: blackjax.mcmc.hmc.init(x, log_density))(position)
        init, _, _ = dual_averaging_adaptation(ACCEPTANCE)
        return State(position, (hmc, init(0.05)), 0.05 * ones, (), ones)
    K = _preconditioner(network, starts, problem)
    inverse = jnp.linalg.inv(K)
    position = {**starts, "w": jax.vmap(lambda w: inverse @ w)(starts["w"])}
    return State(position, (), jnp.zeros(chains), K, ones)


def carried(
    network: Network, sampler: Sampler, state: State, before: Problem, problem: Problem
) -> State:
    """Chains that go on, from where they stand, on other data; their steps adapt again in warm-up.

    Args:
        before: the data that they have run on.
    """
    # the key is of no consequence: HMC's new state leaves the weights out again
    return initial_state(
        network, sampler, parameters(network, sampler, state, before, jax.random.key(0)), problem
    )


def parameters(network: Network, sampler: Sampler, state: State, problem: Problem, key: Array):
    """Parameters of each chain, W included; for HMC W is drawn from its exact posterior."""
    if sampler.method != "hmc":
        return _parameters(state.position, state.precondition)

    def draw(position, key):
        posterior = posterior_of_weights(
            network, attention_matrix(network, position), problem.train
        )
        return {**position, "w": sample_weights(posterior, key)}

    return jax.vmap(draw)(state.position, jax.random.split(key, state.step.shape[0]))


@partial(jax.jit, static_argnames=("network", "sampler", "records"))
def advance(
    key: Array,
    state: State,
    problem: Problem,
    heat: Float[Array, ""],
    *,
    network: Network,
    sampler: Sampler,
    records: int,
) -> tuple[State, dict[str, Array]]:
    """One chunk of sampling.

    Args:
        heat: 0 to sample with the step as it is; above 0 in warm-up, where the step is adapted:
            HMC's by dual averaging, that of the others to `heat` times the final one.

    Returns:
        The chains, and observables of each record and chain, shape (records, chains) each.
    """
    if sampler.method == "hmc":
        step = partial(_hmc_step, network, problem, heat)
    else:
        state = _adapt(network, sampler, state, problem, heat)
        step = partial(_langevin_steps, network, sampler, problem)

    def record(state, key):
        key_step, key_draw = jax.random.split(key)
        state, accepted = step(key_step, state)
        found = parameters(network, sampler, state, problem, key_draw)
        seen = jax.vmap(
            lambda x: measure(
                network.attention,
                attention_matrix(network, x),
                weights(network, x),
                problem.train,
                problem.fresh,
            )
        )(found)
        return state, (seen, accepted)

    state, (seen, accepted) = jax.lax.scan(record, state, jax.random.split(key, records))
    return state._replace(accepted=accepted.mean(axis=0)), seen


def _log_density(network: Network, problem: Problem):
    return lambda x: -collapsed_energy(network, x, problem.train)


def _hmc_step(network: Network, problem: Problem, heat, key, state: State):
    hmc, adaptation = state.kernel
    _, update, final = dual_averaging_adaptation(ACCEPTANCE)
    size = jnp.where(heat > 0, jnp.exp(adaptation.log_step_size), final(adaptation))
    key_jitter, key_chains = jax.random.split(key)
    # trajectories of one length would come back to where they started in a harmonic direction
    size = size * jax.random.uniform(key_jitter, minval=0.8, maxval=1.2)
    steps = jnp.clip(jnp.ceil(TRAJECTORY / size), 1, MOST_STEPS).astype(int)
    kernel: Callable = blackjax.mcmc.hmc.build_kernel()
    log_density = _log_density(network, problem)
    identity = jnp.ones(sum(x[0].size for x in jax.tree.leaves(hmc.position)))
    keys = jax.random.split(key_chains, state.step.shape[0])
    hmc, info = jax.vmap(lambda key, chain: kernel(key, chain, log_density, size, identity, steps))(
        keys, hmc
    )
    accepted = jnp.nan_to_num(info.acceptance_rate)
    adapted = update(adaptation, accepted.mean())
    adaptation = jax.tree.map(lambda a, b: jnp.where(heat > 0, a, b), adapted, adaptation)
    state = state._replace(
        position=hmc.position,
        kernel=(hmc, adaptation),
        step=jnp.full_like(state.step, final(adaptation)),
    )
    return state, accepted


def _parameters(position: Parameters, precondition: Array) -> Parameters:
    return {**position, "w": jnp.einsum("ab,nbc->nac", precondition, position["w"])}


def _preconditioner(network: Network, starts: Parameters, problem: Problem) -> Array:
    """``(precision of W)^(-1/2)`` at the mean over the starts, in units of the prior: W is much
    stiffer along the frequent directions of the data than the logits are."""

    def precision(x):
        cholesky = posterior_of_weights(
            network, attention_matrix(network, x), problem.train
        ).cholesky
        return cholesky @ cholesky.T

    values, modes = jnp.linalg.eigh(jax.vmap(precision)(starts).mean(axis=0))
    return (modes / jnp.sqrt(values)) @ modes.T


def _full_energy(network: Network, problem: Problem, precondition: Array):
    def value(position):
        x = {**position, "w": precondition @ position["w"]}
        return energy(network, x, problem.train)

    return value


def largest_curvature(value, position: Parameters, iterations: int = 20) -> Float[Array, ""]:
    """Largest absolute eigenvalue of the Hessian of an energy, by power iteration."""
    gradient = jax.grad(value)

    def iterate(_, vector):
        product = jax.jvp(gradient, (position,), (vector,))[1]
        norm = jnp.sqrt(sum(jnp.sum(x**2) for x in product.values()))
        return {name: x / norm for name, x in product.items()}

    keys = jax.random.split(jax.random.key(0), len(position))
    start = {
        name: jax.random.normal(key, x.shape)
        for key, (name, x) in zip(keys, position.items(), strict=True)
    }
    vector = jax.lax.fori_loop(0, iterations, iterate, iterate(0, start))
    product = jax.jvp(gradient, (position,), (vector,))[1]
    return jnp.abs(sum(jnp.vdot(vector[name], product[name]) for name in vector))


def _adapt(network: Network, sampler: Sampler, state: State, problem: Problem, heat) -> State:
    """In warm-up, the step from the largest curvature met by any chain."""
    value = _full_energy(network, problem, state.precondition)
    curvature = jax.vmap(partial(largest_curvature, value))(state.position).max()
    halves = jnp.where(jnp.arange(state.step.shape[0]) % 2 == 0, 1.0, 0.5)
    step = heat * sampler.fraction / curvature * halves
    return state._replace(step=jnp.where(heat > 0, step, state.step))


def _langevin_steps(network: Network, sampler: Sampler, problem: Problem, key, state: State):
    kernel = blackjax.sgmcmc.sgld.build_kernel()
    full = _full_energy(network, problem, state.precondition)

    def value(position, minibatch):
        if sampler.method == "langevin":
            return full(position)
        x = {**position, "w": state.precondition @ position["w"]}
        return minibatch_energy(network, x, minibatch, problem.train)

    def downhill(position, minibatch):
        return jax.tree.map(jnp.negative, jax.grad(value)(position, minibatch))

    def one(key, position, step):
        key_batch, key_noise = jax.random.split(key)
        size = (sampler.batch if sampler.method == "sgld" else 0,)
        rows = jax.random.randint(key_batch, size, 0, len(problem.sequences))
        return kernel(key_noise, position, downhill, problem.sequences[rows], step)

    def body(position, key):
        keys = jax.random.split(key, state.step.shape[0])
        return jax.vmap(one)(keys, position, state.step), None

    position, _ = jax.lax.scan(body, state.position, jax.random.split(key, sampler.thin))
    return state._replace(position=position), jnp.ones_like(state.step)
