"""Runs that are interrupted come to the same numbers, and never go on from another run's state."""

import time

import numpy as np
import pytest

from phasetheory.errors import InputError
from phasetheory.networks import (
    CopyTask,
    Network,
    Plan,
    Sampler,
    Training,
    estimate,
    problem,
    sample_chains,
    train,
)

TASK, NETWORK = CopyTask(5, 3), Network("softmax", 5, 3)
PLAN = Plan(chains=4, warmup=100, draws=150)


class Stopped(Exception):
    pass


def stop_after(share):
    def progress(done):
        if done > share:
            raise Stopped

    return progress


@pytest.mark.parametrize("method", ["hmc", "langevin", "sgld"])
def test_an_interrupted_run_gives_the_same_numbers(method, tmp_path):
    case = problem(TASK, 60, 1.0, raw=True)
    sampler = Sampler(method, thin=5, batch=8)
    whole = sample_chains(NETWORK, case, sampler, PLAN)
    file = tmp_path / "chains.npz"
    for share in (0.3, 0.7):
        with pytest.raises(Stopped):
            sample_chains(NETWORK, case, sampler, PLAN, checkpoint=file, progress=stop_after(share))
    resumed = sample_chains(NETWORK, case, sampler, PLAN, checkpoint=file)
    assert resumed.complete
    for name, values in whole.observables.items():
        assert values.shape == (4, 150)
        assert np.array_equal(values, resumed.observables[name])


def test_training_resumes_to_the_same_numbers(tmp_path):
    case, training, file = problem(TASK, 60, 1.0), Training(steps=4000), tmp_path / "adam.npz"
    whole = train(NETWORK, case, training, PLAN)
    with pytest.raises(Stopped):
        train(NETWORK, case, training, PLAN, checkpoint=file, progress=stop_after(0.4))
    resumed = train(NETWORK, case, training, PLAN, checkpoint=file)
    assert np.array_equal(whole.energy, resumed.energy)
    assert np.array_equal(whole.observables["a"], resumed.observables["a"])


def test_a_deadline_stops_early_and_says_so():
    found = sample_chains(
        NETWORK, problem(TASK, 60, 1.0), Sampler(), PLAN, deadline=time.monotonic() - 1
    )
    assert not found.complete
    assert found.observables["a"].shape == (4, 0)
    assert not estimate(found.observables["a"]).converged


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(tmp_path):
    case, file = problem(TASK, 60, 1.0), tmp_path / "chains.npz"
    sample_chains(NETWORK, case, Sampler(), PLAN, checkpoint=file)
    with pytest.raises(InputError, match="other plan"):
        other = Plan(chains=4, warmup=100, draws=150, seed=1)
        sample_chains(NETWORK, case, Sampler(), other, checkpoint=file)
    with pytest.raises(InputError, match="other data"):
        sample_chains(NETWORK, problem(TASK, 61, 1.0), Sampler(), PLAN, checkpoint=file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(InputError, match="cannot read the checkpoint"):
        sample_chains(NETWORK, case, Sampler(), PLAN, checkpoint=file)


def test_a_run_can_be_extended(tmp_path):
    case, file = problem(TASK, 60, 1.0), tmp_path / "chains.npz"
    short = sample_chains(NETWORK, case, Sampler(), PLAN, checkpoint=file)
    longer = Plan(chains=4, warmup=100, draws=250)
    found = sample_chains(NETWORK, case, Sampler(), longer, checkpoint=file)
    whole = sample_chains(NETWORK, case, Sampler(), longer)
    assert np.array_equal(found.observables["a"][:, :150], short.observables["a"])
    assert np.array_equal(found.observables["a"], whole.observables["a"])


def test_chains_in_different_states_have_not_converged():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 500))
    assert estimate(values).converged
    assert abs(estimate(values).mean) < 5 * estimate(values).error
    values[:2] += 3
    assert not estimate(values).converged
    assert not estimate(np.full((4, 500), np.nan)).converged
    slow = np.cumsum(rng.normal(size=(4, 500)), axis=1)
    assert not estimate(slow).converged


@pytest.mark.parametrize(
    "wrong",
    [
        {"chains": 3},
        {"chains": 0},
        {"draws": 10},
        {"warmup": 0},
        {"starts": ("middle",)},
        {"starts": ()},
        {"seed": -1},
    ],
)
def test_bad_plan(wrong):
    with pytest.raises(InputError):
        Plan(**wrong)
