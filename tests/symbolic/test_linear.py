"""The actions of linear attention against explicit matrices."""

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq, minimize

from phasetheory.landscape.lowering import lower
from phasetheory.symbolic import linear_derivation
from phasetheory.symbolic.marginal import token_moment
from phasetheory.symbolic.symbols import (
    L,
    P,
    V,
    alpha,
    b,
    b_u,
    c_1,
    c_G,
    kappa,
    q,
    r,
    sigma_g,
    sigma_w,
)

D = linear_derivation()
PARAMETERS = [L, V, P, kappa, sigma_g, sigma_w]
ACTION = {key: lower(D[key].value, [c_1, c_G, *PARAMETERS]) for key in ("map", "tree")}
IN_ALPHA = {k: lower(D[f"{k}_in_alpha"].value, [alpha, c_G, *PARAMETERS]) for k in ACTION}
SYSTEMS = [(3, 2), (4, 3), (7, 4), (12, 2)]


def system(seed, n, n_symbols):
    """Random order parameters and widths: (x, y, P, kappa, sigma_g, sigma_w)."""
    rng = np.random.default_rng([seed, n, n_symbols])
    return *rng.normal(size=2), rng.uniform(1, 80), *rng.uniform(0.3, 2, size=3)


def attention(n, x, y):
    S = np.roll(np.eye(n), 1, axis=0)  # row i of S holds its one in column i - 1
    return x * np.full((n, n), 1 / n) + y * S, S


def mean_data(A, S, n_symbols, n_data):
    uniform = [sp.Rational(1, n_symbols)] * n_symbols
    return (
        n_data * np.array(token_moment(uniform, np.trace(M), M.sum()).tolist(), float)
        for M in (A.T @ A, A.T @ S)
    )


def direct(level, x, y, n, n_symbols, n_data, ridge, width_g, width_w):
    """||G||^2/2 sigma_g^2 and the V x V matrix marginal, in numpy."""
    A, S = attention(n, x, y)
    prior = np.sum((n * A) ** 2) / (2 * width_g**2)
    Phi, B = mean_data(A, S, n_symbols, n_data)
    K = np.eye(n_symbols) + width_w**2 / (ridge * n) * Phi
    gain = (width_w / (ridge * n)) ** 2 * np.trace(B.T @ np.linalg.solve(K, B)) / 2
    cost = n_symbols * np.linalg.slogdet(K)[1] / 2
    return prior - gain + (cost if level == "tree" else 0)


@pytest.mark.parametrize("level", ["map", "tree"])
@pytest.mark.parametrize(("n", "n_symbols"), SYSTEMS)
@pytest.mark.parametrize("seed", range(3))
def test_action_against_matrices(level, n, n_symbols, seed):
    x, y, *widths = system(seed, n, n_symbols)
    derived = float(ACTION[level](x, y, n, n_symbols, *widths))
    expected = direct(level, x, y, n, n_symbols, *widths)
    assert derived == pytest.approx(expected, rel=1e-11, abs=1e-11)
    derived = float(IN_ALPHA[level](x + y, y, n, n_symbols, *widths))
    assert derived == pytest.approx(expected, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("level", ["map", "tree"])
def test_action_is_even_and_vanishes_at_the_origin(level):
    """W absorbs the sign of A; without any attention only the constant P/2 kappa is left."""
    action = D[level].value
    flipped = action.subs({c_1: -c_1, c_G: -c_G}, simultaneous=True)
    assert sp.simplify(sp.expand(flipped - action)) == 0
    assert action.subs({c_1: 0, c_G: 0}) == 0
    x, y, *widths = system(0, 6, 3)
    assert ACTION[level](x, y, 6, 3, *widths) == ACTION[level](-x, -y, 6, 3, *widths)
    assert ACTION[level](x, y, 6, 3, *widths) != pytest.approx(ACTION[level](x, -y, 6, 3, *widths))


@pytest.mark.parametrize(("n", "n_symbols"), [(3, 2), (5, 3)])
@pytest.mark.parametrize("seed", range(2))
def test_map_is_the_energy_at_the_best_W(n, n_symbols, seed):
    """An optimiser on W finds the value of `map` (plus P/2 kappa) as the minimum of the energy."""
    x, y, n_data, ridge, width_g, width_w = system(seed, n, n_symbols)
    A, S = attention(n, x, y)
    Phi, B = mean_data(A, S, n_symbols, n_data)
    prior = np.sum((n * A) ** 2) / (2 * width_g**2)

    def energy(flat):
        W = flat.reshape(n_symbols, n_symbols)
        # the loss is a mean over positions, ||Y||^2 = L for each of the P sequences
        loss = (n_data * n - 2 * np.sum(B * W) + np.sum(W * (Phi @ W))) / n
        gradient = W / width_w**2 + (Phi @ W - B) / (n * ridge)
        return prior + np.sum(W**2) / (2 * width_w**2) + loss / (2 * ridge), gradient.ravel()

    start = np.random.default_rng(seed).normal(size=n_symbols**2)
    found = minimize(energy, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    derived = float(ACTION["map"](x, y, n, n_symbols, n_data, ridge, width_g, width_w))
    assert derived + n_data / (2 * ridge) == pytest.approx(found.fun, rel=1e-10)


def test_steps_prior_and_ansatz():
    """The prior step at the invariants of the ansatz is the energy of the logits G = L A."""
    x, y, n, width = 0.3, -0.8, 6, 1.7
    A, S = attention(n, x, y)
    values = {e.lhs: e.rhs.subs({alpha: x + y, c_G: y, L: n}) for e in D["ansatz"].expression}
    one = np.ones(n)
    expected = {
        r: np.sum((A @ one) ** 2),
        q: np.sum(A**2),
        b_u: one @ A.T @ S @ one,
        b: np.trace(A.T @ S),
    }
    assert {k: float(v) for k, v in values.items()} == pytest.approx(expected, rel=1e-12)
    prior = float(D["prior"].value.subs({q: values[q], L: n, sigma_g: width}))
    assert prior == pytest.approx(np.sum((n * A) ** 2) / (2 * width**2), rel=1e-12)


@pytest.mark.parametrize("level", ["map", "tree"])
def test_hessian_at_the_origin_against_differences(level):
    """The second derivatives of the expression, against differences of the matrix evaluation."""
    numbers = (5, 3, 40.0, 0.8, 1.3, 0.9)
    hessian = sp.lambdify(PARAMETERS, origin_hessian(level))(*numbers)
    step = 1e-3

    def value(x, y):
        return direct(level, x, y, *numbers)

    measured = [
        (value(step, 0) + value(-step, 0)) / step**2,
        (value(0, step) + value(0, -step)) / step**2,
        (value(step, step) - value(step, -step) - value(-step, step) + value(-step, -step))
        / (4 * step**2),
    ]
    found = [hessian[0][0], hessian[1][1], hessian[0][1]]
    np.testing.assert_allclose(np.array(found, float), measured, rtol=1e-4)


def origin_hessian(level):
    return sp.hessian(D[level].value, (c_1, c_G)).subs({c_1: 0, c_G: 0})


@pytest.mark.parametrize(("level", "reference"), [("tree", 73.5694241), ("map", 63.5511425)])
def test_onset_of_order_at_the_origin(level, reference):
    """Smallest P at which the Hessian at the origin is singular: L = 16, V = 4, unit widths."""
    values = {L: 16, V: 4, kappa: 1, sigma_g: 1, sigma_w: 1}
    hessian = sp.lambdify(P, origin_hessian(level).subs(values))
    grid = np.linspace(1e-6, 400, 4001)
    signs = np.sign([np.linalg.det(np.array(hessian(p), float)) for p in grid])
    first = int(np.flatnonzero(np.diff(signs))[0])
    onset = brentq(
        lambda p: np.linalg.det(np.array(hessian(p), float)), *grid[first : first + 2], xtol=1e-10
    )
    assert signs[0] > 0
    assert onset == pytest.approx(reference, rel=1e-8)
    # below it the origin is a minimum, just above it a saddle with one way down
    below, above = (np.linalg.eigvalsh(np.array(hessian(onset + s), float)) for s in (-1, 1))
    assert below.min() > 0
    assert above[0] < 0 < above[1]
    # the direction is pooling, with a small admixture of copying
    direction = np.linalg.eigh(np.array(hessian(onset), float))[1][:, 0]
    assert abs(direction[1]) < 0.1 * abs(direction[0])


def test_closed_form_of_the_pooling_onset():
    """With c_G frozen at 0 the curvature in c_1 is the quadratic in x = P sigma_w^2/kappa.

    The closed form is the one of the theory note, typed here: L^2/sigma_g^2 + x (L+V-1)/L
    - x^2 (L^2+V-1)/(V^2 L^2 sigma_w^2).
    """
    x = P * sigma_w**2 / kappa
    note = L**2 / sigma_g**2 + x * (L + V - 1) / L
    note -= x**2 * (L**2 + V - 1) / (V**2 * L**2 * sigma_w**2)
    assert sp.simplify(origin_hessian("tree")[0, 0] - note) == 0


@pytest.mark.parametrize(
    ("n_data", "trained"), [(50, (0, 0)), (100, (0.155, 0.007)), (300, (0.226, 0.117))]
)
def test_map_against_trained_networks(n_data, trained):
    """Minimum of `map` at L = 16, V = 4: (alpha, c_G) of Adam with weight decay, theory note."""

    def energy(point):
        return float(ACTION["map"](*point, 16, 4, n_data, 1.0, 1.0, 1.0))

    starts = [(0.1, 0.01), (0.2, 0.2)]
    best = min((minimize(energy, s, method="Nelder-Mead") for s in starts), key=lambda m: m.fun)
    assert (best.x.sum(), best.x[1]) == pytest.approx(trained, abs=1.5e-3)
