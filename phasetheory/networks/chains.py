"""Runs of many chains on one data set: warm-up, records, checkpoints between chunks."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from phasetheory.errors import InputError
from phasetheory.networks import checkpoints
from phasetheory.networks.attention import Network, Parameters, copy_start, prior_sample
from phasetheory.networks.energy import data
from phasetheory.networks.samplers import Problem, Sampler, State, advance, initial_state
from phasetheory.networks.task import CopyTask, expected_counts, pair_counts, sample_sequences

STARTS = ("prior", "small", "copy")
#: records between two checkpoints
CHUNK = 50


@dataclass(frozen=True)
class Plan:
    """How long and from where.

    Attributes:
        chains: number of chains, shared evenly by the starts.
        warmup: records thrown away while the step is adapted, a multiple of 50.
        draws: records kept, a multiple of 50.
        starts: among "prior" (a prior sample), "small" (a hundredth of one), and "copy" (a prior
            sample with the attention moved to the copied tokens).
        seed: of starts and noise.

    Raises:
        InputError: naming the value that is out of range.
    """

    chains: int = 8
    warmup: int = 300
    draws: int = 1000
    starts: tuple[str, ...] = ("prior", "copy")
    seed: int = 0

    def __post_init__(self):
        for name in ("warmup", "draws"):
            value = getattr(self, name)
            if value < CHUNK or value % CHUNK:
                raise InputError(f"{name} must be a positive multiple of {CHUNK}, not {value}")
        for start in self.starts:
            if start not in STARTS:
                raise InputError(f"a start is {', '.join(STARTS)}, not {start!r}")
        if not self.starts or self.chains < 1 or self.chains % len(self.starts):
            raise InputError(
                f"{self.chains} chains cannot be shared evenly by {len(self.starts)} starts"
            )
        if self.seed < 0:
            raise InputError(f"the seed must be 0 or above, not {self.seed}")

    @property
    def start_of_chain(self) -> tuple[str, ...]:
        """The start of each chain."""
        return tuple(np.repeat(self.starts, self.chains // len(self.starts)).tolist())


@dataclass(frozen=True)
class Chains:
    """What chains recorded.

    Attributes:
        observables: name -> values, shape (chains, draws).
        starts: the start of each chain.
        step: step size of each chain; acceptance: of each chain (1 without accept/reject).
        complete: whether all draws asked for were made.
        seconds: time spent in this call.
        state: where the chains stopped; a start for further ones.
    """

    observables: dict[str, np.ndarray]
    starts: tuple[str, ...]
    step: np.ndarray
    acceptance: np.ndarray
    complete: bool
    seconds: float
    state: State

    def select(self, chains) -> dict[str, np.ndarray]:
        """Observables of some chains only."""
        return {name: values[np.asarray(chains)] for name, values in self.observables.items()}


def problem(task: CopyTask, P: int, kappa: float, data_seed: int = 0, raw: bool = False) -> Problem:
    """A data set of P sequences, with the exact expectation of fresh data beside it.

    Args:
        raw: keep the sequences too, as SGLD needs them.
    """
    sequences = sample_sequences(task, P, data_seed)
    return Problem(
        data(task, pair_counts(task, sequences), kappa),
        data(task, expected_counts(task), kappa),
        jnp.asarray(sequences if raw else sequences[:1]),
    )


def starting_points(network: Network, problem: Problem, plan: Plan) -> Parameters:
    """Parameters of each chain, in units of the prior, with the axis of the chains first."""
    keys = jax.random.split(jax.random.key(plan.seed), plan.chains)
    points = []
    for key, start in zip(keys, plan.start_of_chain, strict=True):
        point = prior_sample(network, key)
        if start == "small":
            point = {name: 0.01 * x for name, x in point.items()}
        if start == "copy":
            point = copy_start(network, problem.train.shift, point)
        points.append(point)
    return jax.tree.map(lambda *x: jnp.stack(x), *points)


def sample_chains(
    network: Network,
    problem: Problem,
    sampler: Sampler,
    plan: Plan,
    *,
    initial: State | None = None,
    checkpoint: Path | None = None,
    label: dict[str, Any] | None = None,
    progress: Callable[[float], None] = lambda share: None,
    deadline: float = np.inf,
) -> Chains:
    """Sample the posterior of a network.

    The result depends on the settings and seeds alone, not on how often the run was interrupted:
    each chunk has its own key, and a checkpoint holds everything that the next one needs.

    Args:
        initial: chains to go on from, in place of the plan's starts (for sweeps of P).
        checkpoint: file of the state; where it exists, the run goes on from it.
        label: what else the run depends on (the data), for the checkpoint.
        progress: told the share of the work that is done.
        deadline: value of `time.monotonic` after which the run stops at the next checkpoint.

    Raises:
        InputError: if the checkpoint is unusable.
    """
    begun = time.monotonic()
    if initial is None:
        state = initial_state(network, sampler, starting_points(network, problem, plan), problem)
    else:
        state = initial
    state = _arrays(state)
    run = _run(network, sampler, plan, problem, label)
    warm, total = plan.warmup // CHUNK, (plan.warmup + plan.draws) // CHUNK
    names = _observables(network, sampler, state, problem)
    seen = {name: np.zeros((0, plan.chains)) for name in names}
    done = 0
    if checkpoint is not None:
        saved = checkpoints.load(checkpoint, run, (state, seen, 0))
        if saved is not None:
            state, seen, done = saved
            done = int(done)
    for chunk in range(done, total):
        if time.monotonic() > deadline:
            break
        key = jax.random.fold_in(jax.random.key(plan.seed + 1), chunk)
        heat = 0.0 if chunk >= warm else _heat(sampler, (chunk + 1) / warm)
        state, found = advance(
            key, state, problem, np.float64(heat), network=network, sampler=sampler, records=CHUNK
        )
        state = _arrays(state)
        if chunk >= warm:
            seen = {name: np.concatenate([seen[name], np.asarray(found[name])]) for name in names}
        done = chunk + 1
        if checkpoint is not None:
            checkpoints.save(checkpoint, run, (state, seen, done))
        progress(done / total)
    wanted = {name: values[: plan.draws].T for name, values in seen.items()}
    return Chains(
        wanted,
        plan.start_of_chain,
        np.asarray(state.step),
        np.asarray(state.accepted),
        done >= total,
        time.monotonic() - begun,
        state,
    )


def _heat(sampler: Sampler, share: float) -> float:
    if sampler.method != "sgld" or share >= 1:
        return 1.0
    return float(sampler.start ** (1 - share))


def _observables(network, sampler, state, problem) -> list[str]:
    shapes = jax.eval_shape(
        lambda state: advance(
            jax.random.key(0),
            state,
            problem,
            np.float64(0),
            network=network,
            sampler=sampler,
            records=CHUNK,
        )[1],
        state,
    )
    return sorted(shapes)


def _arrays(state: State) -> State:
    """The state with all leaves NumPy arrays, as a checkpoint gives them back."""
    return jax.tree.map(np.asarray, state)


def _run(network, sampler, plan, problem, label) -> dict[str, Any]:
    settings = asdict(plan)
    del settings["draws"]  # a run may be extended
    return {
        "network": asdict(network),
        "sampler": asdict(sampler),
        "plan": {**settings, "starts": list(plan.starts)},
        "data": {"P": float(problem.train.P), "kappa": float(problem.train.kappa), **(label or {})},
        "versions": {n: metadata.version(n) for n in ("phasetheory", "jax", "blackjax")},
    }
