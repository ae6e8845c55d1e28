"""The data term for any token probabilities against full V x V matrices, sampling and slopes."""

import jax
import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phasetheory.copytask import Setting, landscape, zipf
from phasetheory.copytask.tokens import (
    PARAMETERS,
    data_term,
    mean_moment,
    posterior_mean,
    signal_spectrum,
    weight_spectrum,
)
from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic import tokens as derived
from phasetheory.symbolic import tokens_derivation
from phasetheory.symbolic.marginal import p_c, p_d, same_symbol

INVARIANTS = (sym.r, sym.q, sym.b_u, sym.b)
ARGUMENTS = (*INVARIANTS, sym.P, *PARAMETERS, derived.p)
STEPS = tokens_derivation()


def matrices(r, q, b_u, b, p):
    """Phi/P and B/P, written out."""
    D, pp = np.diag(p), np.outer(p, p)
    return q * D + (r - q) * pp, b * D + (b_u - b) * pp


def by_matrices(r, q, b_u, b, P, theta):
    """S_data, test losses of the posterior mean and of a sample, and the mean of W."""
    L, V, kappa, _, sigma_w, p = theta
    Phi, B = matrices(r, q, b_u, b, p)
    K = np.eye(V) + sigma_w**2 * P * Phi / (kappa * L)
    sign, logdet = np.linalg.slogdet(K)
    assert sign == 1
    W = sigma_w**2 * P / (kappa * L) * np.linalg.solve(K, B)
    action = V / 2 * logdet - P / (2 * kappa * L) * np.trace(B.T @ W)
    mean = 1 + (np.trace(W.T @ Phi @ W) - 2 * np.trace(B.T @ W)) / L
    sample = mean + sigma_w**2 * V * np.trace(np.linalg.solve(K, Phi)) / L
    return action, mean, sample, W


strength = st.floats(0, 30)
overlap = st.floats(-10, 10)
scale = st.floats(0.2, 3)
weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1)), min_size=2, max_size=9).filter(
    lambda w: sum(x > 0 for x in w) > 1
)


@settings(deadline=None, max_examples=60)
@given(strength, strength, overlap, overlap, st.floats(0.1, 1e4), scale, scale, weights)
@example(0.0, 25.0, 0.0, 8.0, 1e4, 0.2, 3.0, [1.0, 1.0, 0.5])  # r far below q
@example(3.0, 0.0, 2.0, 1.0, 50.0, 1.0, 1.0, [1.0, 0.0, 0.5])
def test_action_losses_and_weights_against_matrices(r, q, b_u, b, P, kappa, sigma_w, w):
    p = np.array(w) / np.sum(w)
    theta = (7, len(p), kappa, 1.3, sigma_w, p)
    point = (r, q, b_u, b, P)
    action, mean, sample, W = by_matrices(*point, theta)
    size = P * (b**2 + b_u**2 + 1)  # the gain before it is divided by the precision
    assert float(data_term(*point, theta)) == pytest.approx(action, rel=1e-9, abs=1e-12 * size)
    losses = [float(lower(e, ARGUMENTS)(*point, *theta)) for e in derived.losses()]
    assert losses == pytest.approx([mean, sample], rel=1e-8, abs=1e-11 * size)
    own = lower(derived.own_weight(), (*ARGUMENTS, p_c))
    diagonal = [float(own(*point, *theta, probability)) for probability in p]
    assert diagonal == pytest.approx(np.diag(W), rel=1e-8, abs=1e-11 * size)


def test_inverse_and_posterior_entries():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(5))
    r, q, b_u, b, P, L, kappa, sigma_w = 2.0, 5.0, -1.0, 3.0, 40.0, 6, 0.7, 1.2
    theta = (L, 5, kappa, 1.0, sigma_w, p)
    mu = sigma_w**2 * P / (kappa * L)
    Phi, _ = matrices(r, q, b_u, b, p)
    extra = (p_c, p_d, same_symbol)
    for key, expected in (
        ("inverse", np.linalg.inv(np.eye(5) + mu * Phi)),
        ("posterior", by_matrices(r, q, b_u, b, P, theta)[3]),
    ):
        entry = lower(derived.written_out(STEPS[key].value), (*ARGUMENTS, *extra))
        found = [
            [float(entry(r, q, b_u, b, P, *theta, p[i], p[j], i == j)) for j in range(5)]
            for i in range(5)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-13)
    np.testing.assert_allclose(posterior_mean(p, r, q, b_u, b, mu), expected, atol=1e-13)


def test_slopes_by_finite_differences():
    p = np.array(zipf(6, 1.3))
    theta = (8, 6, 0.8, 1.0, 1.1, p)
    point = np.array([2.0, 3.0, 1.0, 2.5, 60.0])
    slopes = jax.grad(data_term, argnums=range(5))(*point, theta)
    for i, slope in enumerate(slopes):
        step = 1e-5 * point[i] * np.eye(5)[i]
        high, low = (by_matrices(*(point + s * step), theta)[0] for s in (1, -1))
        assert float(slope) == pytest.approx((high - low) / (2e-5 * point[i]), rel=1e-7)


def test_moment_against_sampled_sequences():
    """E[X^T M X] for Zipf's law: 40 000 sequences, five standard errors."""
    rng = np.random.default_rng(7)
    p, n = np.array(zipf(4, 1.2)), 5
    M = rng.normal(size=(n, n))
    X = np.eye(4)[rng.choice(4, size=(40_000, n), p=p)]
    samples = np.einsum("pia,ij,pjb->pab", X, M, X, optimize=True)
    error = samples.std(0, ddof=1) / np.sqrt(len(X))
    exact = mean_moment(p, np.trace(M), M.sum())
    assert (np.abs(samples.mean(0) - exact) < 5 * error).all()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(0.05, 1), min_size=2, max_size=8, unique=True),
    st.floats(0.1, 20),
    st.floats(0.1, 20),
)
def test_spectrum_interlaces(w, r, q):
    p = np.sort(np.array(w) / np.sum(w))
    found = signal_spectrum(p, r, q)
    assert found.sum() == pytest.approx(q + (r - q) * np.sum(p**2))
    low, high = (found, q * p) if r <= q else (q * p, found)
    slack = 1e-12 * max(r, q)
    assert (low <= high + slack).all()
    assert (high[:-1] <= low[1:] + slack).all()


@pytest.mark.parametrize("r", [0.3, 9.0])
def test_spectra_are_zeros_of_the_secular_functions(r):
    p, q, b_u, b, mu = np.array([0.05, 0.1, 0.2, 0.25, 0.4]), 2.0, 3.0, -1.5, 4.0
    p_, v = derived.p, derived.v

    def residual(key, symbol, value):
        function = STEPS[key].value.replace(
            sp.Sum, lambda f, _: sum(f.subs(p_[v], sp.Float(x, 50)) for x in p)
        )
        values = {sym.r: r, sym.q: q, sym.b_u: b_u, sym.b: b, derived.mu: mu}
        function = function.subs({k: sp.Float(x, 50) for k, x in values.items()})
        return float(function.subs(symbol, value) / function.diff(symbol).subs(symbol, value))

    Phi, B = matrices(r, q, b_u, b, p)
    K = np.eye(5) + mu * Phi
    for key, symbol, found, matrix in (
        ("secular", derived.x, signal_spectrum(p, r, q), Phi),
        ("posterior_spectrum", derived.w, weight_spectrum(p, r, q, b_u, b, mu), None),
    ):
        matrix = mu * np.linalg.solve(K, B) if matrix is None else matrix
        direct = np.linalg.eigvals(matrix)
        assert np.abs(direct.imag).max() < 1e-12
        np.testing.assert_allclose(found, np.sort(direct.real), atol=1e-12)
        # the step of Newton's method from a zero is zero
        assert max(abs(residual(key, symbol, float(x))) for x in found) < 1e-12


def test_uniform_probabilities_give_the_uniform_eigenvalues():
    r, q, b_u, b, V, mu = 9.0, 2.0, 3.0, 1.5, 5, 4.0
    p = np.full(V, 1 / V)
    np.testing.assert_allclose(signal_spectrum(p, r, q), [q / V] * (V - 1) + [r / V])
    lam = mu / V
    expected = np.sort([lam * b / (1 + lam * q)] * (V - 1) + [lam * b_u / (1 + lam * r)])
    np.testing.assert_allclose(weight_spectrum(p, r, q, b_u, b, mu), expected)


def test_order_of_the_symbols_does_not_matter():
    tokens = zipf(7, 1.4)
    other = tuple(np.random.default_rng(0).permutation(tokens).tolist())
    for attention, x in (("linear", [0.2, 0.1]), ("softmax", [1.7])):
        one, two = (
            landscape(attention, Setting(L=12, V=7, tokens=tokens)) for tokens in (tokens, other)
        )
        assert one.action is two.action  # one compilation for both
        at = np.array(x), 150.0
        assert float(one.action(*at, one.theta)) == pytest.approx(
            float(two.action(*at, two.theta)), rel=1e-13
        )


def test_sums_over_arrays_are_checked():
    p, v = derived.p, derived.v
    assert float(lower(sp.Sum(p[v] ** 2, (v, 1, sym.V)), (p,))(np.array([1.0, 2.0]))) == 5.0
    for summand in (v * p[v], p[v + 1], sym.q):
        with pytest.raises(ValueError, match="all entries of an array"):
            lower(sp.Sum(summand, (v, 1, sym.V)), (sym.q, p))
