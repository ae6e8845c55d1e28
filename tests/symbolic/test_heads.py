"""Finite head dimension against optimisers on Q, K and W themselves."""

import math

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax

from phasetheory.copytask import Setting, landscape
from phasetheory.landscape import find_phases, states_at
from phasetheory.symbolic import heads_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.heads import c, nuclear_A, nuclear_G
from phasetheory.symbolic.symbols import L, M, N, P, V, alpha, b, b_u, h, q, r
from phasetheory.symbolic.thresholds import z

D = heads_derivation()
STAR = sp.Symbol(r"P^{\ast}")


def nuclear(A):
    return np.linalg.svd(A, compute_uv=False).sum()


def least_energy(attention, n, n_symbols, N_, n_data, widths=(1.0, 1.0, 1.0), starts=8):
    """The lowest minimum over Q, K and W of the regularised mean loss, less P/2 kappa.

    Full-batch on the exact moments of uniform tokens; nothing is assumed about symmetry.
    """
    (ridge, width_g, width_w), S = widths, np.roll(np.eye(n), 1, axis=0)
    flat = np.full((n_symbols, n_symbols), 1 / n_symbols)
    unit = np.eye(n_symbols) - flat

    def energy(x):
        Q, K, W = x[: n * N_].reshape(n, N_), x[n * N_ : 2 * n * N_].reshape(n, N_), x[2 * n * N_ :]
        W = W.reshape(n_symbols, n_symbols)
        G = Q @ K.T / math.sqrt(N_)
        A = G / n if attention == "linear" else softmax(G, axis=1)
        rows = A.sum(axis=1)
        # E[X^T M X] = (tr M) (1 - J)/V + (sum of M) J/V
        Phi = (np.sum(A**2) * unit + rows @ rows * flat) / n_symbols
        B = (np.sum(A * S) * unit + rows.sum() * flat) / n_symbols
        loss = np.sum(W * (Phi @ W)) - 2 * np.sum(B * W)
        scale = n_data / (ridge * n)
        value = (np.sum(Q**2) + np.sum(K**2)) / (2 * width_g) + np.sum(W**2) / (2 * width_w**2)
        square = W @ W.T
        by_A = np.sum(square * unit) * A + np.sum(square * flat) * rows[:, None]
        by_A = scale / n_symbols * (by_A - np.sum(W * unit) * S - np.sum(W * flat))
        if attention == "linear":
            by_G = by_A / n
        else:
            by_G = A * (by_A - np.sum(A * by_A, axis=1, keepdims=True))
        by_Q = Q / width_g + by_G @ K / math.sqrt(N_)
        by_K = K / width_g + by_G.T @ Q / math.sqrt(N_)
        by_W = W / width_w**2 + scale * (Phi @ W - B)
        gradient = np.concatenate([by_Q.ravel(), by_K.ravel(), by_W.ravel()])
        return value + scale * loss / 2, gradient

    rng = np.random.default_rng([n, N_, int(n_data)])
    size = 2 * n * N_ + n_symbols**2
    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-14, "gtol": 1e-8}
    found = []
    for scale in np.linspace(0.3, 2, starts):
        x = scale * rng.normal(size=size)
        found.append(minimize(energy, x, jac=True, method="L-BFGS-B", options=options).fun)
    return min(found)


@pytest.mark.parametrize(("n", "rank"), [(4, 4), (6, 2), (5, 8)])
def test_nuclear_norm_is_the_least_energy_of_factors(n, rank):
    """Against an optimiser on Q and K that has to reproduce G."""
    rng = np.random.default_rng(n)
    G = rng.normal(size=(n, min(n, rank))) @ rng.normal(size=(min(n, rank), n))
    width, weight = 0.7, 1e6

    def energy(x):
        Q, K = x.reshape(2, n, rank)
        miss = Q @ K.T / math.sqrt(rank) - G
        value = np.sum(x**2) / (2 * width) + weight * np.sum(miss**2) / 2
        slopes = [miss @ K, miss.T @ Q]
        return value, x / width + weight / math.sqrt(rank) * np.concatenate(
            [g.ravel() for g in slopes]
        )

    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9}
    found = min(
        minimize(
            energy, rng.normal(size=2 * n * rank), jac=True, method="L-BFGS-B", options=options
        ).fun
        for _ in range(3)
    )
    derived = D["nuclear"].value.subs({N: rank, nuclear_G: nuclear(G), sym.sigma_g: width})
    assert float(derived) == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize(("n", "n_head"), [(5, 1), (6, 3), (6, 6), (4, 9)])
def test_linear_ansatz_against_matrices(n, n_head):
    """Any orthonormal directions orthogonal to the constant vector do."""
    M_ = min(n, n_head)
    rng = np.random.default_rng(n_head)
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0]
    x, y = 0.7, 0.3
    S = np.roll(np.eye(n), 1, axis=0)
    values = np.array([x] + [y] * (M_ - 1))
    A = S @ (basis[:, :M_] * values) @ basis[:, :M_].T
    one = np.ones(n)
    expected = {
        r: np.sum((A @ one) ** 2),
        q: np.sum(A**2),
        b_u: one @ A.T @ S @ one,
        b: np.trace(A.T @ S),
        nuclear_A: nuclear(A),
    }
    at = {L: n, M: M_, alpha: x, c: y}
    derived = {e.lhs: float(e.rhs.subs(at)) for e in D["linear_ansatz"].value}
    assert derived == pytest.approx(expected, rel=1e-12)
    # the overlaps with J and S by least squares
    J = np.full((n, n), 1 / n)
    pair = np.column_stack([J.ravel(), S.ravel()])
    (c_1, c_G), *_ = np.linalg.lstsq(pair, A.ravel())
    copied, pooled = (e.rhs for e in D["linear_order_parameters"].value)
    assert float(copied.subs(at)) == pytest.approx(c_G, rel=1e-10)
    assert float(pooled.subs(at).subs(sym.c_G, c_G)) == pytest.approx(c_1, rel=1e-10)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("n_head", [4, *(pytest.param(k, marks=SLOW) for k in (1, 2, 6, 8))])
def test_linear_minimum_over_all_Q_K_W(n_head):
    """L = 6, V = 3: the reduced energy has the minimum of the full one at every N and P."""
    found = find_phases(
        landscape("linear", Setting(L=6, V=3, head_dimension=n_head), "map", (20.0, 2000.0))
    )
    for n_data in (50, 100, 200):
        lowest = states_at(found, n_data)[0].action
        assert lowest == pytest.approx(least_energy("linear", 6, 3, n_head, n_data), abs=1e-6)


@pytest.mark.parametrize("n_head", [6, *(pytest.param(k, marks=SLOW) for k in (5, 8))])
def test_softmax_minimum_over_all_Q_K_W(n_head):
    """The symmetric logits are the best ones in these cases, from N = L - 1."""
    found = find_phases(
        landscape("softmax", Setting(L=6, V=3, head_dimension=n_head), "map", (20.0, 2000.0))
    )
    for n_data in (60, 120, 200):
        lowest = states_at(found, n_data)[0].action
        full = least_energy("softmax", 6, 3, n_head, n_data)
        assert lowest == pytest.approx(full, abs=1e-6)


def test_other_scales():
    """kappa and both widths, against the full optimisation."""
    values = {"kappa": 0.6, "var_g": 1.7, "var_w": 0.5}
    for attention, n_head in (("linear", 3), ("softmax", 6)):
        setting = Setting(L=6, V=3, head_dimension=n_head, **values)
        lowest = states_at(find_phases(landscape(attention, setting, "map", (20.0, 500.0))), 150)[0]
        widths = (0.6, setting.sigma_g, setting.sigma_w)
        full = least_energy(attention, 6, 3, n_head, 150, widths)
        assert lowest.action == pytest.approx(full, abs=1e-6)


def test_kink_and_smooth_coordinates_have_the_same_minima():
    """A fine grid over alpha, c of either sign against the phase finder's states."""
    setting = Setting(L=16, V=4, head_dimension=8)
    found = find_phases(landscape("linear", setting, "map"))
    names = {L: 16, V: 4, M: 8, N: 8, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    x, y = sp.symbols("x y", real=True)
    nuclear_part = D["nuclear"].value.subs(nuclear_G, L * (sp.Abs(x) + (M - 1) * sp.Abs(y)))
    fit = D["linear_map"].value.subs({alpha: x, c: y}) - D["nuclear"].value.subs(
        nuclear_G, L * (x + (M - 1) * y)
    )
    energy = sp.lambdify((x, y, P), (nuclear_part + fit).subs(names), "numpy")
    grid = np.linspace(-0.5, 0.5, 501)  # holds 0
    for n_data in (90.0, 300.0, 500.0, 700.0):
        E = energy(grid[:, None], grid[None, :], n_data)
        inner = E[1:-1, 1:-1]
        steps = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
        low = np.all([inner < E[1 + i : 500 + i, 1 + j : 500 + j] for i, j in steps], axis=0)
        minima = [grid[k + 1] for k in np.argwhere(low)]
        # opposite signs of alpha and c, left out by the theory, are never the lowest
        mixed = [energy(*m, n_data) for m in minima if m[0] * m[1] < -1e-9]
        assert all(value > E.min() + 1 for value in mixed)
        places = {tuple(np.abs(m).round(6)) for m in minima if m[0] * m[1] > -1e-9}
        states = states_at(found, n_data)
        assert len(places) == len(states)
        for state in states:
            _, c_G, a = state.order_parameters
            amplitude = c_G * 15 / 7
            assert min(math.hypot(a - u, amplitude - v) for u, v in places) < 4e-3


# ---- first-order points --------------------------------------------------------------------------


def numbers(setting):
    return {
        L: setting.L,
        V: setting.V,
        N: setting.head_dimension,
        M: min(setting.L, setting.head_dimension),
        sym.kappa: setting.kappa,
        sym.sigma_g: setting.sigma_g,
        sym.sigma_w: setting.sigma_w,
    }


@pytest.mark.parametrize("n_head", [1, 16, 400])
def test_pooling_point(n_head):
    """Corrections are of order V/L."""
    setting = Setting(L=10_000, V=4, kappa=2.0, var_g=3.0, var_w=0.5, head_dimension=n_head)
    first = find_phases(landscape("linear", setting, "map")).transitions[0]
    closed = float(D["pooling_point"].value[1].rhs.subs(numbers(setting)))
    assert first.order == "first"
    assert first.control == pytest.approx(closed, rel=2e-3)
    alpha_there = float(D["pooling_point"].value[0].rhs.subs({P: closed} | numbers(setting)))
    assert first.high[2] == pytest.approx(alpha_there, rel=5e-3)


def softmax_point(setting) -> float:
    logit, threshold = (e.rhs for e in D["softmax_point"].value)
    lam, right = (e.rhs for e in D["softmax_z"].value)
    threshold = threshold.subs(h, logit).subs(numbers(setting))
    balance = sp.log(right.subs(sym.lam, lam).subs({h: logit, P: threshold}) / z)
    f = sp.lambdify(z, balance.subs(numbers(setting)))
    grid = np.linspace(0.2, 4 * math.log(setting.L), 3000)
    last = np.flatnonzero(np.diff(np.sign(f(grid))))[-1]
    return float(threshold.subs(z, brentq(f, *grid[last : last + 2])))


@pytest.mark.parametrize(("n", "within"), [(100, 0.1), (10_000, 0.01), (10**6, 2e-3)])
def test_softmax_point(n, within):
    for factor in (1, 4):
        setting = Setting(L=n, V=8, head_dimension=factor * n)
        found = find_phases(landscape("softmax", setting, "map"))
        (transition,) = found.transitions
        assert transition.order == "first"
        assert transition.low[0] == pytest.approx(1 / n, rel=1e-9)
        assert transition.control == pytest.approx(softmax_point(setting), rel=within)


def test_softmax_weight_is_that_of_the_softmax():
    """The energy at h against explicit logits h (S - J): prior, gauge and fit."""
    n, n_head, logit, n_data = 5, 7, 1.3, 40.0
    S = np.roll(np.eye(n), 1, axis=0)
    G = logit * (S - 1 / n)
    A = softmax(G, axis=1)
    lam = n_data / (3 * n)
    fit = lam * n**2 / (1 + lam * n)
    fit += 2 * lam * np.trace(A.T @ S) ** 2 / (1 + lam * np.sum(A**2))
    expected = math.sqrt(n_head) * nuclear(G) - n_data / (2 * 3 * n) * fit
    symbols = [h, L, V, N, P, sym.kappa, sym.sigma_g, sym.sigma_w]
    f = sp.lambdify(symbols, D["softmax_map"].value, [{"logistic": expit}, "numpy"])
    assert f(logit, n, 3, n_head, n_data, 1, 1, 1) == pytest.approx(expected, rel=1e-12)
    # no gauge has a smaller nuclear norm
    rng = np.random.default_rng(0)
    for shift in rng.normal(size=(50, n, 1)):
        assert nuclear(G + shift * np.ones((1, n))) >= nuclear(G) - 1e-12
