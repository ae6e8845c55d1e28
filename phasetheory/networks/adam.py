"""Minima of the energy by Adam with the weight decay that belongs to the priors.

The decay is part of the energy (half the sum of squares in units of the prior), so that a minimum
is the maximum of the posterior.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from phasetheory.errors import InputError
from phasetheory.networks import checkpoints
from phasetheory.networks.attention import Network, attention_matrix, weights
from phasetheory.networks.chains import Plan, starting_points
from phasetheory.networks.energy import energy
from phasetheory.networks.measure import measure
from phasetheory.networks.samplers import Problem

#: steps between two checkpoints
CHUNK = 1000


@dataclass(frozen=True)
class Training:
    """How Adam trains.

    Attributes:
        steps: a multiple of 1000; the rate falls to zero over them as a cosine.
        rate: highest learning rate, in units of the priors.
        slope: a run has converged where half its squared gradient is below this, in nats: where
            the energy is at least as curved as the prior, the minimum is no further down.
        same: runs whose energies differ by less than this, in nats, are in one minimum.

    Raises:
        InputError: naming the value that is out of range.
    """

    steps: int = 10_000
    rate: float = 0.05
    slope: float = 1e-3
    same: float = 1e-2

    def __post_init__(self):
        if self.steps < CHUNK or self.steps % CHUNK:
            raise InputError(f"steps must be a positive multiple of {CHUNK}, not {self.steps}")
        if not self.rate > 0:
            raise InputError(f"the learning rate must be positive, not {self.rate:g}")


@dataclass(frozen=True)
class Minima:
    """Where the runs ended; every field has one entry per run.

    Attributes:
        observables: name -> values, shape (runs,).
        starts: the start of each run.
        energy: in nats, relative to that of a network that outputs zero with all parameters zero.
        slope: half the squared gradient, in nats.
        converged: whether the slope is small enough.
        lowest: whether the run is in the lowest minimum found; the others are metastable.
        complete: whether all steps were made (of the whole set of runs).
        seconds: time spent in this call.
    """

    observables: dict[str, np.ndarray]
    starts: tuple[str, ...]
    energy: np.ndarray
    slope: np.ndarray
    converged: np.ndarray
    lowest: np.ndarray
    complete: bool
    seconds: float


def train(
    network: Network,
    problem: Problem,
    training: Training,
    plan: Plan,
    *,
    checkpoint: Path | None = None,
    label: dict[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
    deadline: float = np.inf,
) -> Minima:
    """Train many networks at once, one per chain of the plan; arguments as in `sample_chains`.

    Raises:
        InputError: if the checkpoint is unusable.
    """
    begun = time.monotonic()
    points = starting_points(network, problem, plan)
    optimiser = _optimiser(training)
    state = jax.tree.map(np.asarray, (points, jax.vmap(optimiser.init)(points), 0))
    run = {
        "network": asdict(network),
        "training": asdict(training),
        "plan": {"chains": plan.chains, "starts": list(plan.starts), "seed": plan.seed},
        "data": {"P": float(problem.train.P), "kappa": float(problem.train.kappa), **(label or {})},
        "versions": {n: metadata.version(n) for n in ("phasetheory", "jax", "optax")},
    }
    if checkpoint is not None:
        state = checkpoints.load(checkpoint, run, state) or state
    points, memory, done = state
    done = int(done)
    while done < training.steps and time.monotonic() <= deadline:
        points, memory = jax.tree.map(
            np.asarray, _train(points, memory, problem, network=network, training=training)
        )
        done += CHUNK
        if checkpoint is not None:
            checkpoints.save(checkpoint, run, (points, memory, done))
        progress(done / training.steps)
    values, slope, seen = jax.tree.map(np.asarray, _finish(points, problem, network=network))
    converged = slope <= training.slope
    lowest = np.zeros(len(values), bool)
    if converged.any():
        lowest = converged & (values <= values[converged].min() + training.same)
    return Minima(
        seen,
        plan.start_of_chain,
        values,
        slope,
        converged,
        lowest,
        done >= training.steps,
        time.monotonic() - begun,
    )


def _optimiser(training: Training):
    return optax.adam(optax.cosine_decay_schedule(training.rate, training.steps))


@partial(jax.jit, static_argnames=("network", "training"))
def _train(points, memory, problem: Problem, *, network: Network, training: Training):
    optimiser = _optimiser(training)

    def one(point, memory):
        slope = jax.grad(lambda x: energy(network, x, problem.train))(point)
        change, memory = optimiser.update(slope, memory)
        return optax.apply_updates(point, change), memory

    def step(carry, _):
        return jax.vmap(one)(*carry), None

    return jax.lax.scan(step, (points, memory), length=CHUNK)[0]


@partial(jax.jit, static_argnames="network")
def _finish(points, problem: Problem, *, network: Network):
    """Energy, slope and observables of each run."""
    zero = problem.train.target_square / (2 * problem.train.temperature)

    def one(point):
        value, slope = jax.value_and_grad(lambda x: energy(network, x, problem.train))(point)
        A, W = attention_matrix(network, point), weights(network, point)
        seen = measure(network.attention, A, W, problem.train, problem.fresh)
        return value - zero, sum(jnp.sum(g**2) for g in slope.values()) / 2, seen

    return jax.vmap(one)(points)
