"""Targets with s ones per row against explicit L x L matrices, quadrature and the solver."""

import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, softmax

from phasetheory.copytask import Setting, landscape
from phasetheory.landscape import find_phases
from phasetheory.symbolic import (
    linear_derivation,
    softmax_derivation,
    sparse_derivation,
    thresholds_derivation,
)
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.sparse import epsilon
from phasetheory.symbolic.symbols import L, P, V, a, a_1, a_G, alpha, b, b_u, c_G, g_1, h, q, r, s
from phasetheory.symbolic.thresholds import z

D = sparse_derivation()
NUMBERS = [L, s, V, P, sym.kappa, sym.sigma_g, sym.sigma_w]
NUMPY = [{"logistic": expit}, "numpy"]
ACTION = {
    key: sp.lambdify([*coordinates, *NUMBERS], D[key].value, NUMPY)
    for key, coordinates in (
        ("linear_map", [alpha, c_G]),
        ("linear_tree", [alpha, c_G]),
        ("softmax_map", [h]),
        ("softmax_tree", [h]),
    )
}


def target(n, ones, seed):
    """A sum of distinct cyclic shifts, chosen at random."""
    shifts = np.random.default_rng(seed).choice(n, ones, replace=False)
    return sum(np.roll(np.eye(n), k, axis=0) for k in shifts)


@st.composite
def systems(draw):
    n = draw(st.integers(2, 9))
    return n, draw(st.integers(1, n - 1)), draw(st.integers(0, 99))


def direct(level, A, S, prior, n_symbols, n_data, ridge, width_w):
    """Prior energy and the V x V matrix marginal at mean data, in numpy."""
    flat = np.full((n_symbols, n_symbols), 1 / n_symbols)

    def mean(M):
        trace, total = np.trace(M), M.sum()
        return n_data / n_symbols * (trace * np.eye(n_symbols) + (total - trace) * flat)

    Phi, B = mean(A.T @ A), mean(A.T @ S)
    K = np.eye(n_symbols) + width_w**2 / (ridge * len(A)) * Phi
    gain = (width_w / (ridge * len(A))) ** 2 * np.trace(B.T @ np.linalg.solve(K, B)) / 2
    return prior - gain + (n_symbols * np.linalg.slogdet(K)[1] / 2 if level == "tree" else 0)


def explicit(A, S):
    one = np.ones(len(A))
    return {
        r: np.sum((A @ one) ** 2),
        q: np.sum(A**2),
        b_u: one @ A.T @ S @ one,
        b: np.trace(A.T @ S),
    }


@settings(max_examples=40, deadline=None)
@given(systems(), st.floats(-4, 5), st.integers(2, 5))
def test_softmax_against_matrices(system, logit, n_symbols):
    n, ones, seed = system
    S = target(n, ones, seed)
    A = softmax(0.7 + logit * S, axis=1)
    at = {L: n, s: ones}
    weight = float(D["weight"].value.subs(at).subs(h, logit))
    np.testing.assert_allclose(A[S == 1], weight, rtol=1e-12)
    derived = {e.lhs: float(e.rhs.subs(at).subs(a, weight)) for e in D["ansatz"].value}
    assert derived == pytest.approx(explicit(A, S), rel=1e-11)
    values = {e.lhs: e.rhs.subs(at).subs(a, weight) for e in D["order_parameters"].value}
    copying = float(values[a_G])
    pooling = float(values[a_1].subs(a_G, copying))
    np.testing.assert_allclose(pooling / n + copying * S / ones, A, atol=1e-12)
    assert float(D["logits"].value.subs(at).subs({g_1: 0.7, h: logit, sym.sigma_g: 1.3})) == (
        pytest.approx(np.sum((0.7 + logit * S) ** 2) / (2 * 1.3**2), rel=1e-12)
    )
    # gauge-free logits: those whose sum vanishes
    prior = np.sum((logit * (S - ones / n)) ** 2) / (2 * 1.3**2)
    for level in ("map", "tree"):
        derived = ACTION[f"softmax_{level}"](logit, n, ones, n_symbols, 37.0, 0.6, 1.3, 0.8)
        expected = direct(level, A, S, prior, n_symbols, 37.0, 0.6, 0.8)
        assert derived == pytest.approx(expected, rel=1e-10, abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(systems(), st.floats(-1, 1), st.floats(-1, 1), st.integers(2, 5))
def test_linear_against_matrices(system, x, y, n_symbols):
    n, ones, seed = system
    S = target(n, ones, seed)
    A = x / n + y * S
    at = {L: n, s: ones, alpha: x + ones * y, c_G: y}
    derived = {e.lhs: float(e.rhs.subs(at)) for e in D["linear_ansatz"].value}
    assert derived == pytest.approx(explicit(A, S), rel=1e-11, abs=1e-13)
    prior = np.sum((n * A) ** 2) / (2 * 1.3**2)
    for level in ("map", "tree"):
        numbers = (n, ones, n_symbols, 37.0, 0.6, 1.3, 0.8)
        derived = ACTION[f"linear_{level}"](x + ones * y, y, *numbers)
        expected = direct(level, A, S, prior, n_symbols, 37.0, 0.6, 0.8)
        assert derived == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_one_copied_token_is_the_copy_task():
    """At s = 1 every action and the closed form are those of the other derivations."""
    for level in ("map", "tree"):
        softmax_action = D[f"softmax_{level}"].value.subs(s, 1)
        assert sp.expand(softmax_action - softmax_derivation()[level].value) == 0
        linear_action = D[f"linear_{level}"].value.subs(s, 1)
        assert sp.simplify(linear_action - linear_derivation()[f"{level}_in_alpha"].value) == 0
    logit, threshold = (e.rhs.subs(s, 1) for e in D["lambert"].value)
    assert logit == thresholds_derivation()["softmax_logit"].value
    assert sp.simplify(threshold - thresholds_derivation()["softmax_threshold"].value) == 0


@pytest.mark.parametrize(("n", "ones"), [(4, 2), (7, 3), (9, 8)])
def test_gauge_integration_against_quadrature(n, ones):
    S = target(n, ones, 0)

    def weight(logit):
        centre, spread = -ones * logit / n, 12 / n
        return quad(
            lambda g: np.exp(-np.sum((g + logit * S) ** 2) / 2),
            centre - spread,
            centre + spread,
            epsabs=0,
            epsrel=1e-12,
        )[0]

    prior = sp.lambdify(h, D["prior"].value.subs({L: n, s: ones, sym.sigma_g: 1}))
    measured = np.log(weight(0.2) / weight(1.1))
    assert prior(1.1) - prior(0.2) == pytest.approx(measured, rel=1e-9)


@pytest.mark.parametrize("ones", [1, 2, 5])
def test_square_of_the_target_against_sequences(ones):
    """E ||S X||^2/L by enumerating all pairs of symbols at two positions, as counts of tokens."""
    n, n_symbols = 8, 3
    S, rng = target(n, ones, 1), np.random.default_rng(2)
    X = np.eye(n_symbols)[rng.integers(n_symbols, size=(200_000, n))]
    sampled = np.sum(np.einsum("ij,mjv->miv", S, X) ** 2, axis=(1, 2)) / n
    exact = float(D["target_square"].value.subs({s: ones, V: n_symbols}))
    error = sampled.std() / math.sqrt(len(sampled))
    assert exact == pytest.approx(sampled.mean(), abs=4 * error + 1e-9)


# ---- the first-order point -----------------------------------------------------------------------


def closed_form(setting: Setting, level="tree") -> float:
    """P* from the steps ``point_tree`` (or ``point_map``) and ``point_z``."""
    values = {
        L: setting.L,
        V: setting.V,
        s: setting.ones,
        sym.kappa: setting.kappa,
        sym.sigma_g: setting.sigma_g,
        sym.sigma_w: setting.sigma_w,
    }
    equations = {e.lhs: e.rhs for e in D[f"point_{level}"].value}
    logit = equations[h]
    threshold = equations[sp.Symbol(r"P^{\ast}")].subs(h, logit)
    if level == "tree":
        logit, threshold = (e.subs(epsilon, equations[epsilon]) for e in (logit, threshold))
    lam, right = (e.rhs for e in D["point_z"].value)
    balance = sp.log(right.subs(sym.lam, lam).subs({h: logit, P: threshold}) / z)
    f = sp.lambdify(z, balance.subs(values))
    grid = np.linspace(0.2, 3 * math.log(setting.L), 3000)
    # z comes in pairs; the larger is where copying is deepest
    last = np.flatnonzero(np.diff(np.sign(f(grid))))[-1]
    root = brentq(f, *grid[last : last + 2])
    return float(threshold.subs(values).subs(z, root))


def lambert(setting: Setting) -> float:
    values = {L: setting.L, V: setting.V, s: setting.ones, sym.kappa: setting.kappa}
    values |= {sym.sigma_g: setting.sigma_g, sym.sigma_w: setting.sigma_w}
    logit, threshold = (e.rhs for e in D["lambert"].value)
    return float(threshold.subs(h, logit).subs(values))


def solved(setting: Setting, level="tree") -> float:
    found = find_phases(landscape("softmax", setting, level))
    (transition,) = found.transitions
    assert found.status == "complete"
    assert transition.order == "first"
    return transition.control


def test_closed_form_at_other_scales():
    setting = Setting(L=10**5, V=6, ones=4, kappa=3.0, var_g=2.0, var_w=0.7)
    for level in ("map", "tree"):
        assert closed_form(setting, level) == pytest.approx(solved(setting, level), rel=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("V_", [4, 32])
@pytest.mark.parametrize("ones", [1, 3, 10, 100])
def test_closed_form_over_decades(V_, ones):
    """Three decades of L/s at the level tree: the error is of the order s e^h/L, h ~ ln(L/s)/2."""
    errors = []
    for decades in (3, 4, 5):
        setting = Setting(L=ones * 10**decades, V=V_, ones=ones)
        errors.append(abs(closed_form(setting) / solved(setting) - 1))
    assert errors[0] < 0.025
    assert errors[1] < 5e-3
    assert errors[2] < 1.1e-3
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


@pytest.mark.slow
def test_lambert_form_at_large_V():
    for ones in (1, 10):
        setting = Setting(L=10**6, V=1000, ones=ones)
        assert lambert(setting) == pytest.approx(solved(setting, "map"), rel=0.01)


def test_limit():
    """The explicit map solution over the limit goes to one, at L/s up to 10^1000."""
    ratios = []
    for exponent in (6, 100, 1000):
        n = sp.Integer(10) ** exponent
        # L/s as a function of z, inverted by bisection on log(L/s)
        low, high = sp.Float(2), sp.Float(3 * 2.4 * exponent)
        equations = {e.lhs: e.rhs for e in D["point_map"].value}
        logit, threshold = equations[h], equations[sp.Symbol(r"P^{\ast}")].subs(h, equations[h])
        lam = (D["point_z"].value[0].rhs).subs(P, threshold)
        numbers = {V: 4, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
        log_ratio = sp.log(lam / (1 + lam) / z) + 2 * logit
        f = sp.lambdify(z, sp.simplify(log_ratio.subs(numbers)), "mpmath")
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) < float(sp.log(n).evalf()) else (low, middle)
        found = (threshold / D["limit"].value).subs(s, 1).subs(numbers).subs({z: low, L: n})
        ratios.append(float(found.evalf(30)))
    assert np.all(np.diff(np.abs(np.array(ratios) - 1)) < 0)
    assert abs(ratios[-1] - 1) < 0.01
