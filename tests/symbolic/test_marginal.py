"""The moments of the task and the marginal over W, by routes that share nothing with the package.

Brute force here means: all V**L sequences one by one, numerical quadrature, or the full Gaussian
of the V*V entries of W with explicit (Kronecker) design matrices.
"""

from itertools import product

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import linear_derivation
from phasetheory.symbolic.marginal import (
    beta,
    field,
    marginal_steps,
    matrix_marginal_step,
    phi,
    precision,
    token_moment,
    total_M,
    trace_M,
)
from phasetheory.symbolic.symbols import LAMBDA, L, P, V, b, b_u, kappa, lam, q, r, sigma_w

STEP = {step.key: step for step in marginal_steps()}
DATA_ACTION = lower(
    STEP["data_action"].value.subs(lam, LAMBDA), [r, q, b_u, b, L, V, P, kappa, sigma_w]
)
MODEL = [L, V, P, kappa, sigma_w]
POSTERIOR = [
    lower(entry.rhs.subs(lam, LAMBDA), [r, q, b_u, b, *MODEL])
    for entry in STEP["posterior"].expression
]


def shift(n):
    """S with (S x)_i = x_{i-1}, written out."""
    S = np.zeros((n, n))
    for i in range(n):
        S[i, (i - 1) % n] = 1
    return S


def one_hot(tokens, n_symbols):
    return (np.asarray(tokens)[..., None] == np.arange(n_symbols)).astype(float)


def attention(rng, n, kind):
    """A random L x L matrix: any real entries, or non-negative rows that sum to one."""
    A = rng.normal(size=(n, n))
    return A if kind == "real" else np.exp(A) / np.exp(A).sum(1, keepdims=True)


def invariants_of(A):
    S, one = shift(len(A)), np.ones(len(A))
    return np.sum((A @ one) ** 2), np.sum(A**2), one @ A.T @ S @ one, np.trace(A.T @ S)


def value_of_marginal(Phi, B, n, width, ridge):
    """The step `marginal` itself, with explicit 40-digit matrices in its matrix symbols."""
    size = len(Phi)
    expression = matrix_marginal_step().value.subs(
        {L: n, kappa: sp.Float(ridge, 40), sigma_w: sp.Float(width, 40), V: size}
    )
    matrices = {"Phi": Phi, "B": B}
    symbols = {s.name: s for s in expression.atoms(sp.MatrixSymbol)}
    assert set(symbols) == set(matrices)
    explicit = {sp.Identity(size): sp.ImmutableMatrix(sp.eye(size))}
    for name, M in matrices.items():
        entries = [sp.Float(float(x), 40) for x in M.flat]
        explicit[symbols[name]] = sp.ImmutableMatrix(size, size, entries)
    return float(expression.subs(explicit).doit())


# ---- moments of the tokens ----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_symbols"), [(1, 3), (2, 4), (3, 3), (4, 2), (5, 2)])
def test_token_moment_is_the_average_over_all_sequences(n, n_symbols):
    """Every one of the V**L sequences, weighted with its probability, for random p and M."""
    rng = np.random.default_rng(10 * n + n_symbols)
    p, M = rng.dirichlet(np.ones(n_symbols)), rng.normal(size=(n, n))
    mean = np.zeros((n_symbols, n_symbols))
    for tokens in product(range(n_symbols), repeat=n):
        X = one_hot(tokens, n_symbols)
        mean += np.prod(p[list(tokens)]) * X.T @ M @ X
    derived = np.array(token_moment(list(p), np.trace(M), M.sum()).tolist(), float)
    np.testing.assert_allclose(derived, mean, rtol=0, atol=1e-13)


def test_token_moment_keeps_symbols_and_impossible_tokens():
    """Symbolic probabilities work, and a token of probability zero has a zero row and column."""
    s, t = sp.symbols("s t")
    matrix = token_moment([s, 1 - s], t, 0)
    assert sp.expand(matrix - sp.Matrix([[1, -1], [-1, 1]]) * t * s * (1 - s)) == sp.zeros(2)
    dead = token_moment([0, sp.Rational(1, 3), sp.Rational(2, 3)], 2, 5)
    assert dead.row(0).is_zero_matrix and dead.col(0).is_zero_matrix
    assert dead[1, 2] == sp.Rational(2, 9) * (5 - 2)


@pytest.mark.parametrize("n_symbols", [2, 3, 7])
def test_spectrum_for_uniform_tokens(n_symbols):
    """m_u belongs to the constant vector, m_perp fills the other V - 1 dimensions."""
    rng = np.random.default_rng(n_symbols)
    M = rng.normal(size=(5, 5))
    mean = np.array(
        token_moment([sp.Rational(1, n_symbols)] * n_symbols, np.trace(M), M.sum()).tolist(), float
    )
    m_u, m_perp = (
        float(e.rhs.subs({trace_M: np.trace(M), total_M: M.sum(), V: n_symbols}))
        for e in STEP["spectrum"].expression
    )
    np.testing.assert_allclose(mean @ np.ones(n_symbols), m_u * np.ones(n_symbols), atol=1e-13)
    expected = np.sort([m_u] + [m_perp] * (n_symbols - 1))
    np.testing.assert_allclose(np.linalg.eigvalsh(mean), expected, atol=1e-13)


# ---- one mode ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_gaussian_integral_against_quadrature(seed):
    rng = np.random.default_rng(seed)
    stiffness, force = rng.uniform(0.2, 5), rng.normal(scale=2)
    numerical, _ = quad(
        lambda w: np.exp(-stiffness * w**2 / 2 + force * w), -np.inf, np.inf, epsabs=0, epsrel=1e-11
    )
    derived = float(STEP["gaussian"].value.subs({precision: stiffness, field: force}))
    assert derived == pytest.approx(numerical, rel=1e-10)


def random_mode(rng):
    """(sigma_w, kappa, L, phi, beta) of moderate size."""
    return (
        rng.uniform(0.3, 2),
        rng.uniform(0.3, 2),
        int(rng.integers(2, 9)),
        *(
            rng.uniform(0.1, 9),
            rng.normal(scale=3),
        ),
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_mode_against_quadrature_over_w(seed):
    """-log of the average, over the prior of w, of exp(-phi w^2/2 kappa L + beta w/kappa L)."""
    width, ridge, n, strength, overlap = random_mode(np.random.default_rng(seed))

    def integrand(w):
        prior = np.exp(-(w**2) / (2 * width**2)) / np.sqrt(2 * np.pi * width**2)
        return prior * np.exp((-strength * w**2 / 2 + overlap * w) / (ridge * n))

    numerical = -np.log(quad(integrand, -np.inf, np.inf, epsabs=0, epsrel=1e-11)[0])
    values = {sigma_w: width, kappa: ridge, L: n, phi: strength, beta: overlap}
    assert float(STEP["one_mode"].value.subs(values)) == pytest.approx(numerical, abs=1e-9)


def test_one_mode_without_data_costs_nothing():
    assert STEP["one_mode"].value.subs({phi: 0, beta: 0}) == 0


# ---- the marginal over all of W ------------------------------------------------------------------


def brute_force_marginal(tokens, A, n_symbols, width, ridge):
    """-log of the average, over the prior of W, of exp(-loss/2 kappa), constants included.

    vec(A X W) = (1 kron A X) vec(W) with vec stacking columns; Phi and B never appear.
    """
    n, size = len(A), n_symbols**2
    S = shift(n)
    designs = [np.kron(np.eye(n_symbols), A @ one_hot(t, n_symbols)) for t in tokens]
    targets = [(S @ one_hot(t, n_symbols)).flatten(order="F") for t in tokens]
    scale = ridge * n
    curvature = np.eye(size) / width**2 + sum(D.T @ D for D in designs) / scale
    pull = sum(D.T @ y for D, y in zip(designs, targets, strict=True)) / scale
    constant = sum(y @ y for y in targets) / (2 * scale)
    sign, logdet = np.linalg.slogdet(width**2 * curvature)
    assert sign == 1
    return constant + logdet / 2 - pull @ np.linalg.solve(curvature, pull) / 2


@pytest.mark.parametrize("kind", ["real", "stochastic"])
@pytest.mark.parametrize(("n", "n_symbols", "n_data"), [(2, 2, 1), (3, 2, 4), (4, 3, 3), (3, 4, 6)])
def test_marginal_is_the_full_gaussian_integral(kind, n, n_symbols, n_data):
    """The matrix form plus P/2 kappa, for explicit data and an attention without any symmetry."""
    rng = np.random.default_rng([n, n_symbols, n_data, kind == "real"])
    A, width, ridge = attention(rng, n, kind), rng.uniform(0.3, 3), rng.uniform(0.1, 3)
    tokens = rng.integers(n_symbols, size=(n_data, n))
    S, Xs = shift(n), [one_hot(t, n_symbols) for t in tokens]
    Phi = sum(X.T @ A.T @ A @ X for X in Xs)
    B = sum(X.T @ A.T @ S @ X for X in Xs)
    derived = value_of_marginal(Phi, B, n, width, ridge) + n_data / (2 * ridge)
    expected = brute_force_marginal(tokens, A, n_symbols, width, ridge)
    assert derived == pytest.approx(expected, rel=1e-10, abs=1e-9)


def test_brute_force_is_the_density_of_the_data():
    """The reference above against the other side of the same Gaussian: the density of the targets.

    exp(-marginal) is N(vec Y; 0, kappa L + sigma_w^2 D D^T) times (2 pi kappa L)^(PLV/2).
    """
    rng = np.random.default_rng(1)
    n, n_symbols, width, ridge = 3, 2, 0.8, 0.6
    A, tokens = attention(rng, n, "real"), rng.integers(n_symbols, size=(4, n))
    designs = [np.kron(np.eye(n_symbols), A @ one_hot(t, n_symbols)) for t in tokens]
    D = np.vstack(designs)
    y = np.concatenate([(shift(n) @ one_hot(t, n_symbols)).flatten(order="F") for t in tokens])
    C = ridge * n * np.eye(len(y)) + width**2 * D @ D.T
    density = -y @ np.linalg.solve(C, y) / 2 - np.linalg.slogdet(2 * np.pi * C)[1] / 2
    expected = -density - len(y) / 2 * np.log(2 * np.pi * ridge * n)
    assert brute_force_marginal(tokens, A, n_symbols, width, ridge) == pytest.approx(
        expected, abs=1e-10
    )


# ---- means over the data -------------------------------------------------------------------------


def mean_matrices(A, n_symbols, n_data):
    """Exact means of Phi and B for uniform tokens, from `token_moment`."""
    S, uniform = shift(len(A)), [sp.Rational(1, n_symbols)] * n_symbols
    return (
        np.array(token_moment(uniform, np.trace(M), M.sum()).tolist(), float) * n_data
        for M in (A.T @ A, A.T @ S)
    )


@pytest.mark.parametrize("kind", ["pooling and copying", "real", "stochastic"])
@pytest.mark.parametrize(("n", "n_symbols"), [(3, 2), (5, 4), (4, 3)])
def test_closed_form_is_the_matrix_form_at_mean_data(kind, n, n_symbols):
    rng = np.random.default_rng([n, n_symbols, len(kind)])
    c_1, c_G = rng.normal(size=2)
    if kind == "pooling and copying":
        A = c_1 * np.ones((n, n)) / n + c_G * shift(n)
    else:
        A = attention(rng, n, kind)
    n_data, width, ridge = rng.uniform(1, 60), rng.uniform(0.3, 3), rng.uniform(0.1, 3)
    matrix_form = value_of_marginal(*mean_matrices(A, n_symbols, n_data), n, width, ridge)
    closed_form = DATA_ACTION(*invariants_of(A), n, n_symbols, n_data, ridge, width)
    assert float(closed_form) == pytest.approx(matrix_form, rel=1e-10, abs=1e-10)


def test_average_over_many_sequences_approaches_the_mean():
    """Phi/P and B/P of 20 000 sequences, within five standard errors and within 3 % of the mean."""
    rng = np.random.default_rng(5)
    n, n_symbols, n_data = 6, 3, 20_000
    A, S = attention(rng, n, "real"), shift(n)
    X = one_hot(rng.integers(n_symbols, size=(n_data, n)), n_symbols)
    for M, mean in zip((A.T @ A, A.T @ S), mean_matrices(A, n_symbols, 1), strict=True):
        samples = np.einsum("pia,ij,pjb->pab", X, M, X, optimize=True)
        error = samples.std(0, ddof=1) / np.sqrt(n_data)
        deviation = (samples.mean(0) - mean) / error
        assert np.abs(deviation).max() < 5
        assert np.sqrt(np.mean(deviation**2)) < 2  # nine entries: not all at the edge
        assert error.max() < 0.03 * np.abs(mean).max()


# ---- the posterior of W --------------------------------------------------------------------------


def test_one_mode_posterior_against_quadrature():
    """Mean and variance of the density prior(w) exp(...), for both eigenspaces of the means."""
    rng = np.random.default_rng(3)
    n, n_symbols, n_data, ridge, width = 5, 3, 12.0, 0.7, 1.4
    A = attention(rng, n, "real")
    R, Q, B_u, B = invariants_of(A)
    numbers = (R, Q, B_u, B, n, n_symbols, n_data, ridge, width)
    w_u, w, v_u, v = (float(f(*numbers)) for f in POSTERIOR)
    for derived, strength, overlap in ((w_u, v_u), R, B_u), ((w, v), Q, B):
        strength, overlap = n_data * strength / n_symbols, n_data * overlap / n_symbols
        scale = (strength + ridge * n / width**2) / (ridge * n)  # only to place the quadrature
        centre, spread = derived[0], 12 / np.sqrt(scale)
        grid = np.linspace(centre - spread, centre + spread, 4001)
        log_density = -(grid**2) / (2 * width**2) + (overlap * grid - strength * grid**2 / 2) / (
            ridge * n
        )
        density = np.exp(log_density - log_density.max())
        density /= density.sum()
        mean = density @ grid
        assert derived[0] == pytest.approx(mean, abs=1e-10)
        assert derived[1] == pytest.approx(density @ (grid - mean) ** 2, rel=1e-9)


def test_posterior_of_all_of_W_from_its_curvature():
    """Mean W and covariance of the V*V Gaussian at mean data, by an explicit solve."""
    rng = np.random.default_rng(8)
    n, n_symbols, n_data, ridge, width = 4, 3, 9.0, 0.4, 1.7
    A = attention(rng, n, "stochastic")
    Phi, B = mean_matrices(A, n_symbols, n_data)
    curvature = np.kron(np.eye(n_symbols), Phi) / (ridge * n) + np.eye(n_symbols**2) / width**2
    covariance = np.linalg.inv(curvature)
    W = (covariance @ B.flatten(order="F") / (ridge * n)).reshape(n_symbols, -1, order="F")
    numbers = (*invariants_of(A), n, n_symbols, n_data, ridge, width)
    w_u, w, v_u, v = (float(f(*numbers)) for f in POSTERIOR)
    flat = np.ones((n_symbols, n_symbols)) / n_symbols
    np.testing.assert_allclose(W, w_u * flat + w * (np.eye(n_symbols) - flat), atol=1e-12)
    block = v_u * flat + v * (np.eye(n_symbols) - flat)
    np.testing.assert_allclose(covariance, np.kron(np.eye(n_symbols), block), atol=1e-12)


def test_the_gain_and_the_cost_are_what_the_posterior_says():
    """The best value of the energy over W is half the pull times the mean: an identity."""
    rng = np.random.default_rng(2)
    n, n_symbols, n_data, ridge, width = 4, 3, 11.0, 0.6, 0.9
    R, Q, B_u, B = invariants_of(attention(rng, n, "real"))
    numbers = (n, n_symbols, n_data, ridge, width)
    w_u, w, v_u, v = (float(f(R, Q, B_u, B, *numbers)) for f in POSTERIOR)
    pull = n_data / (n_symbols * ridge * n)
    gain = -pull / 2 * (B_u * w_u + (n_symbols - 1) * B * w)
    cost = -n_symbols / 2 * (np.log(v_u / width**2) + (n_symbols - 1) * np.log(v / width**2))
    assert float(DATA_ACTION(R, Q, B_u, B, *numbers)) == pytest.approx(gain + cost, rel=1e-12)


def test_both_derivations_contain_these_steps():
    assert [s.key for s in linear_derivation()][:7] == list(STEP)
