"""Networks of the copy task, sampled or trained at several P, as rows of values with errors."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phasetheory.agreement.theory import COMPARED
from phasetheory.agreement.values import FEWEST_DRAWS, Value, minimum, same, sampled
from phasetheory.agreement.verdict import ERRORS
from phasetheory.copytask import Setting
from phasetheory.errors import InputError
from phasetheory.networks import (
    Chains,
    CopyTask,
    Minima,
    Network,
    Plan,
    Problem,
    Sampler,
    Training,
    problem,
    sample_chains,
    train,
)
from phasetheory.networks.samplers import METHODS, carried

#: bytes that one array of data may take
LARGEST_ARRAY = 2**31
#: the two directions of a sweep, and the start of its first point
SWEEPS = {"up": "prior", "down": "copy"}


@dataclass(frozen=True)
class Measurement:
    """What is measured, and how.

    Attributes:
        attention: "linear" or "softmax".
        setting: of the task and its network.
        P: numbers of sequences, ascending and distinct.
        cyclic: whether positions lie on a ring.
        method: "hmc", "langevin", "sgld" or "adam".
        chains: chains (or runs of Adam) on each data set, shared evenly by the starts.
        warmup, draws: records of each chain thrown away and kept; without meaning for Adam.
        datasets: number K of data sets at each P; those of a larger P hold those of a smaller one.
        seed: of data sets, starts and noise.
        starts: where chains start, "prior", "small" or "copy".
        hysteresis: instead of that, the points are run upwards and downwards, each from the chains
            of the one before; chains are shared evenly by the two directions.
        training: how Adam trains.

    Raises:
        InputError: naming the value that is out of range.
    """

    attention: str
    setting: Setting
    P: tuple[int, ...]
    cyclic: bool = True
    method: str = "hmc"
    chains: int = 8
    warmup: int = 300
    draws: int = 1000
    datasets: int = 4
    seed: int = 0
    starts: tuple[str, ...] = ("prior", "copy")
    hysteresis: bool = False
    training: Training = field(default_factory=Training)

    def __post_init__(self):
        if self.method not in (*METHODS, "adam"):
            raise InputError(f"the method is {', '.join(METHODS)} or adam, not {self.method!r}")
        if not self.P or list(self.P) != sorted(set(self.P)):
            raise InputError("P must be distinct numbers in ascending order, at least one")
        if self.P[0] < 1 or self.P[-1] > 10**8:
            wrong = self.P[0] if self.P[0] < 1 else self.P[-1]
            raise InputError(f"P must be from 1 to 10^8 sequences, not {wrong}")
        if not 1 <= self.datasets <= 10**4:
            raise InputError(f"datasets must be from 1 to 10^4, not {self.datasets}")
        if len(set(self.starts)) < len(self.starts):
            raise InputError("each start can be given once")
        if self.hysteresis and self.method == "adam":
            raise InputError("hysteresis needs a sampler: hmc, langevin or sgld")
        self.plan("", self.P[0], 0)
        share = self.chains // (2 if self.hysteresis else len(self.starts))
        # R-hat needs two chains, and every second chain may run at half the step
        fewest = {"adam": 1, "hmc": 2}.get(self.method, 4)
        if share < fewest or (self.halves and share % 2):
            raise InputError(
                f"{self.method} needs {'an even number of ' * self.halves}chains for each start, "
                f"at least {fewest}, not {share}"
            )
        L, V = self.setting.L, self.setting.V
        _check_memory(8 * (L * V) ** 2, f"the counts of pairs at L = {L} and V = {V}", "L or V")
        _check_memory(8 * self.P[-1] * L, f"{self.P[-1]} sequences of length {L}", "P or L")

    @property
    def halves(self) -> bool:
        """Whether every second chain runs at half the step."""
        return self.method in ("langevin", "sgld")

    @property
    def task(self) -> CopyTask:
        s = self.setting
        return CopyTask(s.L, s.V, s.tokens, s.ones, self.cyclic)

    @property
    def network(self) -> Network:
        s = self.setting
        return Network(
            self.attention,
            s.L,
            s.V,
            var_g=s.var_g,
            var_w=s.var_w,
            head_dimension=s.head_dimension,
        )

    @property
    def data_seeds(self) -> tuple[int, ...]:
        """The seed of each data set, the same at every P."""
        return tuple(_seed(self.seed, 0, k) for k in range(self.datasets))

    def plan(self, sweep: str, P: int, k: int) -> Plan:
        """The chains of one data set; `sweep` is "up" or "down" with hysteresis, else empty."""
        chains, starts = self.chains, self.starts
        if self.hysteresis:
            if chains % 2:
                raise InputError(f"{chains} chains cannot be shared evenly by up and down")
            chains, starts = chains // 2, (SWEEPS[sweep or "up"],)
        direction = ("", *SWEEPS).index(sweep)
        seed = _seed(self.seed, 1 + direction, P, k)
        if self.method == "adam":
            return Plan(chains, starts=starts, seed=seed)
        return Plan(chains, self.warmup, self.draws, starts, seed)

    def data_set(self, P: int, k: int) -> Problem:
        return problem(
            self.task, P, self.setting.kappa, self.data_seeds[k], raw=self.method == "sgld"
        )

    def settings(self) -> dict[str, Any]:
        """All that the numbers of a single point depend on, as JSON values; P is not part of it
        unless each point goes on from the one before, nor is the number of draws, as a run may be
        made longer."""
        values = asdict(self)
        for name in ("P", "draws") if not self.hysteresis else ():
            del values[name]
        tokens = self.setting.tokens
        values["setting"]["tokens"] = None if tokens is None else list(tokens)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }


@dataclass(frozen=True)
class Dropped:
    """A run of Adam that did not end in the lowest minimum of its data set.

    Attributes:
        P, dataset, run, start: which it is; `dataset` and `run` count from 0.
        energy: in nats; above: its energy above the lowest; None where no run converged.
        slope: half its squared gradient, in nats.
        converged: whether it is in a minimum at all.
        observables: by name.
    """

    P: int
    dataset: int
    run: int
    start: str
    energy: float
    above: float | None
    slope: float
    converged: bool
    observables: dict[str, float]


@dataclass(frozen=True)
class Row:
    """What was measured at one P from one start.

    Attributes:
        P: number of sequences.
        start: that of the chains; "all" where starts agree and are taken together; "up" or "down";
            "lowest" for the lowest minimum found by Adam.
        values: by name of the observable; empty where nothing was measured.
        datasets: number of data sets in the values.
        draws: fewest records of a chain; 0 for Adam.
        step, acceptance: means over chains and data sets; None for Adam.
        trouble: why the row as a whole has not converged; empty if it has.
        dropped: runs of Adam outside the lowest minimum.
        seconds: time spent in this call.
    """

    P: int
    start: str
    values: dict[str, Value]
    datasets: int
    draws: int = 0
    step: float | None = None
    acceptance: float | None = None
    trouble: str = ""
    dropped: tuple[Dropped, ...] = ()
    seconds: float = 0.0


def measure(
    measurement: Measurement,
    *,
    checkpoint: Callable[[str], Path | None] = lambda name: None,
    progress: Callable[[float], None] = lambda share: None,
    budget: float = math.inf,
) -> Iterator[list[Row]]:
    """The rows of each P in turn (with hysteresis, upwards and then downwards).

    Args:
        checkpoint: gives the file of a run by its name; runs go on from files that exist.
        progress: told the share of all work that is done.
        budget: seconds, shared evenly by the runs that are left; a run that spends its share stops.

    Raises:
        InputError: if a checkpoint is unusable.
    """
    sweeps = tuple(SWEEPS) if measurement.hysteresis else ("",)
    end = time.monotonic() + budget
    total = len(sweeps) * len(measurement.P) * measurement.datasets
    done = 0
    for sweep in sweeps:
        states: dict[int, tuple[Chains, Problem]] = {}
        for P in reversed(measurement.P) if sweep == "down" else measurement.P:
            found = []
            for k in range(measurement.datasets):
                now = time.monotonic()
                name = f"P{P}-data{k}" + (f"-{sweep}" if sweep else "")
                data = measurement.data_set(P, k)
                run = _run(
                    measurement,
                    sweep,
                    P,
                    k,
                    data,
                    states.get(k),
                    checkpoint(name),
                    lambda share, done=done: progress((done + share) / total),
                    now + max(end - now, 0.0) / (total - done),
                )
                if isinstance(run, Chains) and sweep:
                    states[k] = run, data
                found.append(run)
                done += 1
                progress(done / total)
            if measurement.method == "adam":
                yield [trained_row(measurement, P, found)]
            else:
                yield sampled_rows(measurement, P, sweep, found)


def _run(measurement, sweep, P, k, data, before, checkpoint, progress, deadline):
    plan = measurement.plan(sweep, P, k)
    common = {
        "checkpoint": checkpoint,
        "label": {"settings": measurement.settings(), "dataset": k, "sweep": sweep},
        "progress": progress,
        "deadline": deadline,
    }
    if measurement.method == "adam":
        return train(measurement.network, data, measurement.training, plan, **common)
    sampler, initial = Sampler(measurement.method), None
    if before is not None:
        chains, seen = before
        initial = carried(measurement.network, sampler, chains.state, seen, data)
    return sample_chains(measurement.network, data, sampler, plan, initial=initial, **common)


def sampled_rows(measurement: Measurement, P: int, sweep: str, runs: Sequence[Chains]) -> list[Row]:
    """Rows of chains on K data sets: one for each start, or one in all where the starts agree in
    every order parameter within three standard errors of the chains."""
    usable = [run for run in runs if run.observables["q"].shape[1] >= FEWEST_DRAWS]
    groups = {
        start: [run.select([s == start for s in run.starts]) for run in usable]
        for start in dict.fromkeys(runs[0].starts)
    }
    trouble = ""
    if any(not run.complete for run in runs):
        fewest = min(run.observables["q"].shape[1] for run in runs)
        trouble = f"budget spent after {fewest} of {measurement.draws} draws"
    if len(groups) > 1 and usable and _agree(measurement, list(groups.values())):
        groups = {"all": [run.observables for run in usable]}
    rows = []
    for start, group in groups.items():
        names = sorted(group[0]) if group else []
        rows.append(
            Row(
                P,
                sweep or start,
                {n: sampled([seen[n] for seen in group], measurement.halves) for n in names},
                len(usable),
                min(run.observables["q"].shape[1] for run in runs),
                float(np.mean([run.step for run in runs])),
                float(np.mean([run.acceptance for run in runs])),
                trouble,
                seconds=sum(run.seconds for run in runs),
            )
        )
    return rows


def _agree(measurement: Measurement, groups) -> bool:
    """Whether the chains from all starts have the same means."""
    names = [n for n in COMPARED[measurement.attention] if n in groups[0][0]]
    steps = 2 if measurement.halves else 1
    return all(
        same([g[name][::steps] for g in groups[0]], [g[name][::steps] for g in other], ERRORS)
        for other in groups[1:]
        for name in names
    )


def trained_row(measurement: Measurement, P: int, runs: Sequence[Minima]) -> Row:
    """The lowest minimum that Adam found on each of K data sets, and the runs outside it."""
    usable = [run for run in runs if run.lowest.any()]
    trouble = ""
    if any(not run.complete for run in runs):
        trouble = "budget spent before the end of training"
    elif len(usable) < len(runs):
        slope = min(float(run.slope.min()) for run in runs if not run.lowest.any())
        trouble = (
            f"in {len(runs) - len(usable)} of {len(runs)} data sets no run came to a minimum "
            f"(half the squared gradient is {slope:.2g} at best)"
        )
    seen = [{**run.observables, "energy": run.energy} for run in usable]
    names = sorted(seen[0]) if seen else []
    return Row(
        P,
        "lowest",
        {
            n: minimum([s[n][run.lowest] for s, run in zip(seen, usable, strict=True)])
            for n in names
        },
        len(usable),
        trouble=trouble,
        dropped=tuple(d for k, run in enumerate(runs) for d in _dropped(P, k, run)),
        seconds=sum(run.seconds for run in runs),
    )


def _dropped(P: int, k: int, run: Minima) -> list[Dropped]:
    lowest = float(run.energy[run.lowest].min()) if run.lowest.any() else None
    return [
        Dropped(
            P,
            k,
            i,
            run.starts[i],
            float(run.energy[i]),
            None if lowest is None else float(run.energy[i]) - lowest,
            float(run.slope[i]),
            bool(run.converged[i]),
            {name: float(values[i]) for name, values in run.observables.items()},
        )
        for i in np.flatnonzero(~run.lowest).tolist()
    ]


def _check_memory(size: int, what: str, smaller: str) -> None:
    if size > LARGEST_ARRAY:
        raise InputError(
            f"{what} need {size / 2**30:.3g} GiB, more than {LARGEST_ARRAY / 2**30:g}; "
            f"choose a smaller {smaller}"
        )


def _seed(*numbers: int) -> int:
    """A seed for a purpose: streams of neighbouring seeds would have keys in common."""
    if numbers[0] < 0:
        raise InputError(f"the seed must be 0 or above, not {numbers[0]}")
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
