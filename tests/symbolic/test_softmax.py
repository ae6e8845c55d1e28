"""Softmax attention against explicit L x L logits, quadrature and finite differences."""

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, softmax

from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import logistic, softmax_derivation
from phasetheory.symbolic.symbols import (
    L,
    P,
    V,
    a,
    a_1,
    a_G,
    b,
    b_u,
    g_1,
    h,
    kappa,
    q,
    r,
    sigma_g,
    sigma_w,
)

D = softmax_derivation()
PARAMETERS = [L, V, P, kappa, sigma_g, sigma_w]
ACTION = {key: lower(D[key].value, [h, *PARAMETERS]) for key in ("map", "tree")}
NUMPY = [{"logistic": expit}, "numpy"]
TREE = sp.lambdify([h, *PARAMETERS], D["tree"].value, NUMPY)
DENSITY = sp.lambdify([a_G, *PARAMETERS], D["density_in_a_G"].value, NUMPY)
WEIGHT = sp.lambdify([h, L], D["weight"].value, NUMPY)
LOGITS = [-2.0, -0.3, 0.0, 0.4, 1.0, 2.7, 6.0]


def shift(n):
    return np.roll(np.eye(n), 1, axis=0)  # row i holds its one in column i - 1


def rows(n, logit, gauge=0.0):
    """A = softmax(G), row by row, for G = gauge 11^T + logit S."""
    return softmax(gauge * np.ones((n, n)) + logit * shift(n), axis=1)


def copied(n, logit):
    """Weight and order parameter of copying, read off the explicit matrix."""
    A = rows(n, logit)
    return A[1, 0], A[1, 0] - A[1, 1]  # A = a_1 J + a_G S: off the shift an entry is a_1/L


# ---- the pushforward -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 5, 16])
@pytest.mark.parametrize("logit", LOGITS)
def test_weight_is_the_softmax(n, logit):
    """Against e^h/(e^h + L - 1) and against explicit rows, for any gauge."""
    derived = float(D["weight"].value.subs({h: logit, L: n}))
    assert derived == pytest.approx(np.exp(logit) / (np.exp(logit) + n - 1), rel=1e-13)
    np.testing.assert_allclose(rows(n, logit, 1.7)[shift(n) == 1], derived, rtol=1e-12)


def test_weight_is_the_softmax_for_all_sizes():
    """The same as an identity in h and L."""
    elementary = D["weight"].value.rewrite(sp.exp)
    assert sp.simplify(elementary - sp.exp(h) / (sp.exp(h) + L - 1)) == 0


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("logit", LOGITS)
def test_order_parameters_and_invariants(n, logit):
    A, S, one = rows(n, logit), shift(n), np.ones(n)
    weight, a_copy = copied(n, logit)
    values = {e.lhs: e.rhs.subs({a: weight, L: n}) for e in D["order_parameters"].expression}
    found = float(values[a_G])
    assert found == pytest.approx(a_copy, abs=1e-12)
    pool = float(values[a_1].subs(a_G, found))
    np.testing.assert_allclose(pool / n * np.ones((n, n)) + found * S, A, atol=1e-12)
    derived = {e.lhs: float(e.rhs.subs({a: weight, L: n})) for e in D["ansatz"].expression}
    expected = {
        r: np.sum((A @ one) ** 2),
        q: np.sum(A**2),
        b_u: one @ A.T @ S @ one,
        b: np.trace(A.T @ S),
    }
    assert derived == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_logits_energy(n):
    """||G||^2/2 sigma_g^2 of the explicit logits, L = 2 included."""
    gauge, logit, width = -0.6, 1.3, 0.8
    G = gauge * np.ones((n, n)) + logit * shift(n)
    derived = float(D["logits"].value.subs({g_1: gauge, h: logit, L: n, sigma_g: width}))
    assert derived == pytest.approx(np.sum(G**2) / (2 * width**2), rel=1e-13)


@pytest.mark.parametrize(("n", "width"), [(3, 1.0), (5, 0.7), (12, 2.0)])
def test_gauge_integration_against_quadrature(n, width):
    """The ratio of the g_1-integrals at two logits is exp of the difference of the priors."""

    def weight(logit):
        def integrand(gauge):
            G = gauge * np.ones((n, n)) + logit * shift(n)
            return np.exp(-np.sum(G**2) / (2 * width**2))

        centre, spread = -logit / n, 12 * width / n
        return quad(integrand, centre - spread, centre + spread, epsabs=0, epsrel=1e-12)[0]

    prior = sp.lambdify(h, D["prior"].value.subs({L: n, sigma_g: width}))
    for first, second in ((0.0, 1.1), (-0.8, 0.5)):
        measured = np.log(weight(first) / weight(second))
        assert prior(second) - prior(first) == pytest.approx(measured, rel=1e-9)


@pytest.mark.parametrize("n", [3, 16])
@pytest.mark.parametrize("logit", LOGITS)
def test_jacobian_against_differences(n, logit):
    """Richardson-extrapolated central differences of the explicit softmax."""

    def slope(step):
        return (copied(n, logit + step)[0] - copied(n, logit - step)[0]) / (2 * step)

    measured = (4 * slope(1e-3) - slope(2e-3)) / 3
    derived = float(D["jacobian"].value.subs({h: logit, L: n}))
    weight = copied(n, logit)[0]
    assert derived == pytest.approx(measured, rel=1e-9)
    assert derived == pytest.approx(weight * (1 - weight), rel=1e-12)


# ---- the actions ---------------------------------------------------------------------------------


def direct(level, logit, n, n_symbols, n_data, ridge, width_g, width_w):
    """Gauge-free logits and the V x V matrix marginal at mean data, all in numpy."""
    S, A, flat = shift(n), rows(n, logit), np.full((n_symbols, n_symbols), 1 / n_symbols)
    G = logit * (S - 1 / n)  # the logits whose overlap with 11^T is zero

    def mean(M):
        trace, total = np.trace(M), M.sum()
        return n_data / n_symbols * (trace * np.eye(n_symbols) + (total - trace) * flat)

    Phi, B = mean(A.T @ A), mean(A.T @ S)
    K = np.eye(n_symbols) + width_w**2 / (ridge * n) * Phi
    gain = (width_w / (ridge * n)) ** 2 * np.trace(B.T @ np.linalg.solve(K, B)) / 2
    cost = n_symbols * np.linalg.slogdet(K)[1] / 2
    return np.sum(G**2) / (2 * width_g**2) - gain + (cost if level == "tree" else 0)


@pytest.mark.parametrize("level", ["map", "tree"])
@pytest.mark.parametrize(("n", "n_symbols"), [(2, 2), (3, 2), (5, 4), (12, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_action_against_matrices(level, n, n_symbols, seed):
    rng = np.random.default_rng([seed, n])
    logit, numbers = rng.normal(scale=2), (n, n_symbols, rng.uniform(1, 90))
    numbers += tuple(rng.uniform(0.3, 2, size=3))
    derived = float(ACTION[level](logit, *numbers))
    assert derived == pytest.approx(direct(level, logit, *numbers), rel=1e-11, abs=1e-11)


def test_action_stays_finite_at_extreme_logits():
    """Value and derivative at h = +-800, where e^h has no double."""
    for logit in (-800.0, 800.0):
        numbers = (16, 4, 100.0, 1.0, 1.0, 1.0)
        value = float(ACTION["tree"](logit, *numbers))
        assert value == pytest.approx(direct("tree", logit, *numbers), rel=1e-12)
        slope = float(lower(sp.diff(D["tree"].value, h), [h, *PARAMETERS])(logit, *numbers))
        assert slope == pytest.approx(15 * logit, rel=1e-9)


# ---- one measure, two densities ------------------------------------------------------------------

SETTINGS = [(3, 2, 12.0, 1.0, 1.0, 1.0), (5, 3, 40.0, 0.5, 1.5, 0.8), (8, 4, 60.0, 1.0, 2.0, 1.0)]


@pytest.mark.parametrize("numbers", SETTINGS)
def test_both_densities_describe_one_measure(numbers):
    """Probabilities of the same events, integrated over h and over a_G, agree to 1e-8."""
    n = numbers[0]
    grid = np.linspace(-8, 8, 2001)
    floor = TREE(grid, *numbers).min()

    def mass(density, low, high):
        pieces = pairwise(np.linspace(low, high, 9))
        return sum(
            quad(
                lambda x: np.exp(floor - density(x, *numbers)), *piece, epsabs=1e-12, epsrel=1e-11
            )[0]
            for piece in pieces
        )

    total_h = mass(TREE, -20, 20)
    ends = -1 / (n - 1), 1.0  # a = 0 and a = 1, never reached: the density vanishes there
    tiny = 1e-12
    total_a = mass(DENSITY, ends[0] + tiny, ends[1] - tiny)
    probabilities = []
    for low, high in ((-0.5, 0.1), (0.1, 0.9), (0.9, 2.0), (2.0, 4.0), (-3.0, 1.5)):
        in_h = mass(TREE, low, high) / total_h
        in_a = mass(DENSITY, copied(n, low)[1], copied(n, high)[1]) / total_a
        assert in_a == pytest.approx(in_h, abs=1e-8)
        probabilities.append(in_h)
    assert max(probabilities) > 0.3
    assert sum(p > 0.01 for p in probabilities) >= 3


@pytest.mark.parametrize("logit", [-1.5, -0.2, 0.6, 2.5])
def test_density_in_a_G_is_the_action_and_the_jacobian(logit):
    """Pointwise, constants included: S~ = S_tree - log |dh/da_G|, dh/da_G by differences."""
    numbers = SETTINGS[1]
    n, step = numbers[0], 1e-4
    slope = (copied(n, logit + step)[1] - copied(n, logit - step)[1]) / (2 * step)
    derived = float(DENSITY(copied(n, logit)[1], *numbers))
    assert derived == pytest.approx(float(TREE(logit, *numbers)) + np.log(slope), abs=1e-7)


def test_maxima_of_the_densities_differ():
    """The reason why minima are located in h: a density's maximum depends on the coordinate."""
    numbers = SETTINGS[1]
    peak_h = minimize_scalar(lambda x: TREE(x, *numbers), bounds=(0, 4), method="bounded").x
    peak_a = minimize_scalar(lambda x: DENSITY(x, *numbers), bounds=(0, 0.99), method="bounded").x
    assert abs(copied(numbers[0], peak_h)[1] - peak_a) > 0.01


# ---- a reference transition ----------------------------------------------------------------------


def test_first_order_point():
    """L = 64, V = 4, unit widths: two minima of equal depth at P = 873.197, a = .01850, .14485.

    The numbers are from a 30-digit solution of the same three equations in mpmath.
    """

    def minima(p):
        found = []
        for bounds in ((-0.5, 1.2), (1.8, 4.0)):
            best = minimize_scalar(
                lambda x: TREE(x, 64, 4, p, 1.0, 1.0, 1.0),
                bounds=bounds,
                method="bounded",
                options={"xatol": 1e-11},
            )
            assert bounds[0] + 0.05 < best.x < bounds[1] - 0.05  # inside, not at an edge
            found.append(best)
        return found

    point = brentq(lambda p: minima(p)[0].fun - minima(p)[1].fun, 800, 950, xtol=1e-9)
    low, high = (float(WEIGHT(m.x, 64)) for m in minima(point))
    assert point == pytest.approx(873.1972777, abs=1e-6)
    assert low == pytest.approx(0.01849896, abs=5e-8)
    assert high == pytest.approx(0.14484688, abs=5e-7)
    # no third minimum, and a barrier between the two
    grid = np.linspace(-3, 8, 20001)
    values = TREE(grid, 64, 4, point, 1.0, 1.0, 1.0)
    inner = values[1:-1]
    assert np.sum((inner < values[:-2]) & (inner < values[2:])) == 2
    assert values[(grid > 0.2) & (grid < 2.5)].max() > minima(point)[0].fun + 0.01


@pytest.mark.parametrize(
    ("n", "variance", "n_data", "trained"),
    [(16, 1, 130, 0.215), (16, 1, 500, 0.440), (32, 4, 130, 0.048), (32, 4, 160, 0.308)],
)
def test_map_against_trained_networks(n, variance, n_data, trained):
    """A minimum of `map` at V = 4: the weight a that Adam with weight decay found, theory note."""
    grid = np.linspace(-1, 8, 9001)
    values = sp.lambdify([h, *PARAMETERS], D["map"].value, NUMPY)(
        grid, n, 4, n_data, 1.0, variance**0.5, 1.0
    )
    inner = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
    weights = WEIGHT(grid[1:-1][inner], n)
    assert np.abs(weights - trained).min() < 0.0025


# ---- the logistic function -----------------------------------------------------------------------


def test_logistic():
    """Elementary form, derivatives and numbers."""
    z = sp.Symbol("z", real=True)
    elementary = 1 / (1 + sp.exp(-z))
    assert logistic(z).rewrite(sp.exp) == elementary
    for order in (1, 2, 3):
        derived = logistic(z).diff(z, order).rewrite(sp.exp)
        assert sp.simplify(derived - elementary.diff(z, order)) == 0
    assert logistic(z).is_positive
    assert sp.N(logistic(sp.Rational(-7, 2)), 40) == pytest.approx(
        sp.N(1 / (1 + sp.exp(sp.Rational(7, 2))), 40), rel=1e-35
    )
    assert sp.latex(logistic(z) ** 2) == r"\operatorname{logistic}\left(z\right)^{2}"
