"""Section 6 of the theory note: averages and minima found by code that shares nothing with ours."""

import numpy as np
import pytest

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


def differs(*values, why):
    """A row of the note that unbiased samples contradict; the test fails where they do not."""
    return pytest.param(*values, marks=pytest.mark.xfail(strict=True, reason=why))


#: attention, L, var_g, P and the sampled column; one data set, Langevin chains
SAMPLED = [
    differs(
        "linear",
        16,
        1.0,
        200,
        {"alpha": 0.194, "c_G": 0.006},
        why="HMC: alpha 0.1997, c_G 0.0090 +- 0.0002; meanfield 0.2041, 0.0095",
    ),
    ("linear", 16, 1.0, 300, {"alpha": 0.250, "c_G": 0.025}),
    differs(
        "linear",
        16,
        1.0,
        500,
        {"alpha": 0.302, "c_G": 0.118},
        why="HMC: alpha 0.2865 +- 0.0006, c_G 0.1260; meanfield 0.2843, 0.1279",
    ),
    ("softmax", 16, 1.0, 200, {"a": 0.127}),
    ("softmax", 16, 1.0, 300, {"a": 0.334}),
    ("softmax", 16, 1.0, 500, {"a": 0.455}),
    ("softmax", 16, 1.0, 1000, {"a": 0.556}),
    differs(
        "softmax",
        32,
        4.0,
        300,
        {"a": 0.040},
        why="HMC: a 0.0441 +- 0.0004; rows copy for short times, which Langevin chains see late",
    ),
    ("softmax", 32, 4.0, 450, {"a": 0.432}),
    ("softmax", 32, 4.0, 600, {"a": 0.552}),
    ("softmax", 32, 4.0, 1500, {"a": 0.698}),
]


@pytest.mark.slow
@pytest.mark.parametrize("attention, L, var_g, P, reference", SAMPLED)
def test_sampled_column(attention, L, var_g, P, reference):
    """Within three errors of the two data sets and their chains, and the note's bias of 2 %.

    The spread between data sets is measured over six of ours; the note's number has that of one.
    """
    network = Network(attention, L, 4, var_g)
    means = {name: [] for name in reference}
    for seed in range(6):
        found = sample_chains(
            network, problem(CopyTask(L, 4), P, 1.0, seed), Sampler(), Plan(draws=500)
        )
        for name in reference:
            result = estimate(found.observables[name])
            assert result.converged
            means[name].append(result.mean)
    for name, value in reference.items():
        spread = np.std(means[name], ddof=1)
        tolerance = 3 * spread * np.sqrt(1 + 1 / 6) + 0.02 * value
        assert np.mean(means[name]) == pytest.approx(value, abs=tolerance + 5e-4)
        assert tolerance < max(0.2 * value, 0.02)


#: attention, L, var_g, P and the column of Adam
ADAM = [
    ("linear", 16, 1.0, 50, {"alpha": 0.0, "c_G": 0.0}),
    ("linear", 16, 1.0, 100, {"alpha": 0.155, "c_G": 0.007}),
    ("linear", 16, 1.0, 300, {"alpha": 0.226, "c_G": 0.117}),
    ("softmax", 16, 1.0, 130, {"a": 0.215}),
    ("softmax", 16, 1.0, 500, {"a": 0.440}),
    ("softmax", 32, 4.0, 160, {"a": 0.308}),
]


@pytest.mark.slow
@pytest.mark.parametrize("attention, L, var_g, P, reference", ADAM)
def test_column_of_adam(attention, L, var_g, P, reference):
    """Half a unit of the third digit, beyond three spreads between data sets."""
    means = {name: [] for name in reference}
    for seed in range(6):
        found = train(
            Network(attention, L, 4, var_g),
            problem(CopyTask(L, 4), P, 1.0, seed),
            Training(),
            Plan(starts=("small", "copy")),
        )
        assert found.lowest.any()
        for name in reference:
            means[name].append(found.observables[name][found.lowest].mean())
    for name, value in reference.items():
        spread = np.std(means[name], ddof=1)
        assert np.mean(means[name]) == pytest.approx(value, abs=3 * spread + 5e-4)
        assert spread < 0.02


def test_the_metastable_state_is_reported_and_left_out():
    """Softmax at L = 32, P = 130: small starts stay at a = 0.048, the minimum is at 0.275."""
    found = train(
        Network("softmax", 32, 4, 4.0),
        problem(CopyTask(32, 4), 130, 1.0),
        Training(),
        Plan(starts=("small", "copy")),
    )
    a = found.observables["a"]
    assert found.converged.all()
    assert a[:4] == pytest.approx(0.048, abs=2e-3)
    assert a[4:] == pytest.approx(0.275, abs=5e-3)
    assert found.lowest.tolist() == [False] * 4 + [True] * 4
    assert (found.energy[:4] > found.energy[4:] + 1).all()
