"""Samplers where the stationary law is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from phasetheory.errors import InputError
from phasetheory.networks import CopyTask, Network, Plan, Sampler, problem, sample_chains
from phasetheory.networks.attention import attention_matrix
from phasetheory.networks.chains import starting_points
from phasetheory.networks.energy import data
from phasetheory.networks.samplers import Problem, largest_curvature
from phasetheory.networks.task import expected_counts

L, V = 6, 3
FLAT = Network("softmax", L, V, var_g=1e-12, var_w=0.5)  # A is uniform: W alone is sampled


def frozen_attention(P=30.0):
    """A quadratic energy: that of W at uniform attention, with expected data."""
    task = CopyTask(L, V)
    train = data(task, expected_counts(task, P), 1.0)
    return Problem(train, train, jnp.asarray(np.random.default_rng(0).integers(0, V, (30, L))))


def law(P=30.0):
    """Mean and variance of w_u: theory.md section 2 with r = b_u = L."""
    strength = FLAT.var_w * P / (V * L)
    return strength * L / (1 + strength * L), FLAT.var_w / (1 + strength * L)


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.2, 0.8])
def test_langevin_has_the_law_of_the_euler_scheme(fraction):
    """Variance T/(a (1 - a step/2)); in preconditioned coordinates a = 1, step = fraction."""
    found = sample_chains(
        FLAT,
        frozen_attention(),
        Sampler("langevin", fraction=fraction, thin=20),
        Plan(chains=32, warmup=50, draws=2000, starts=("prior",)),
    )
    w_u, (mean, variance) = found.observables["w_u"], law()
    assert w_u.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / w_u.size))
    assert found.step[::2] == pytest.approx(fraction, rel=1e-3)
    for chains, step in ((slice(0, None, 2), fraction), (slice(1, None, 2), fraction / 2)):
        values = w_u[chains]
        expected = variance / (1 - step / 2)
        # neighbouring records still correlate a little at the smallest step
        correlation = (1 - step) ** 20
        error = expected * np.sqrt(2 / values.size * (1 + correlation) / (1 - correlation))
        assert values.var() == pytest.approx(expected, abs=4 * error)


def test_hmc_has_the_exact_law():
    found = sample_chains(
        FLAT, frozen_attention(), Sampler("hmc"), Plan(chains=32, draws=2000, starts=("prior",))
    )
    w_u, (mean, variance) = found.observables["w_u"], law()
    assert w_u.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / w_u.size))
    assert w_u.var() == pytest.approx(variance, abs=4 * variance * np.sqrt(2 / w_u.size))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hmc", "langevin"])
@pytest.mark.parametrize("heads", [None, 4])
def test_without_data_the_prior_comes_out(method, heads):
    task = CopyTask(L, V)
    empty = data(task, expected_counts(task, 1e-9), 1.0)
    network = Network("linear", L, V, var_g=2.0, head_dimension=heads)
    found = sample_chains(
        network,
        Problem(empty, empty, jnp.zeros((1, L), int)),
        Sampler(method, fraction=0.02, thin=100),
        Plan(chains=8, draws=1000, starts=("prior",)),
    )
    # q = |G|^2/L^2 has the mean var_g; G = QK^T/sqrt(N) of normal Q and K the same
    q = found.observables["q"]
    spread = q.std() * np.sqrt(8 / q.size)
    assert q.mean() == pytest.approx(2.0, abs=5 * spread + 0.02 * 2.0 * (method == "langevin"))
    w = found.observables["w"]
    assert w.var() == pytest.approx(1 / (V - 1), rel=0.08)


@pytest.mark.slow
def test_sgld_agrees_with_hmc_within_its_measured_bias():
    network, case = Network("softmax", L, V), problem(CopyTask(L, V), 200, 1.0, raw=True)
    plan = Plan(chains=16, warmup=100, draws=500)
    a = {
        method: sample_chains(network, case, Sampler(method, thin=40), plan).observables["a"]
        for method in ("hmc", "sgld")
    }
    full, half = a["sgld"][::2], a["sgld"][1::2]
    error = np.sqrt(sum(x.mean(1).var() / len(x) for x in (a["hmc"], full, 4 * half)))
    extrapolated = 2 * half.mean() - full.mean()
    assert extrapolated == pytest.approx(a["hmc"].mean(), abs=5 * error)
    assert error < 0.02 * a["hmc"].mean()


def test_curvature_is_the_largest_eigenvalue():
    H = np.diag([1.0, 5.0, 2.0])
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    H = rotation @ H @ rotation.T
    found = largest_curvature(lambda x: x["x"] @ H @ x["x"] / 2, {"x": jnp.zeros(3)}, 50)
    assert float(found) == pytest.approx(5.0, rel=1e-6)


def test_copy_starts_copy():
    task = CopyTask(16, 4)
    case = problem(task, 100, 1.0)
    for network in (
        Network("softmax", 16, 4, var_g=4.0),
        Network("softmax", 16, 4, head_dimension=16),
    ):
        points = starting_points(network, case, Plan(chains=4, starts=("copy",)))
        A = np.asarray(jax.vmap(lambda x, n=network: attention_matrix(n, x))(points))
        assert (np.einsum("nij,ij->n", A, task.shift) / 16 > 0.4).all()


@pytest.mark.parametrize(
    "wrong", [{"method": "gibbs"}, {"fraction": 0.0}, {"fraction": 1.5}, {"thin": 0}, {"batch": 0}]
)
def test_bad_sampler(wrong):
    with pytest.raises(InputError):
        Sampler(**wrong)
