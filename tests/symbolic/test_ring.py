"""Invariants of A = x J + y S against explicit matrices."""

import numpy as np
import pytest
import sympy as sp

from phasetheory.symbolic.ring import invariants
from phasetheory.symbolic.symbols import L


def explicit(n, x, y):
    """r, q, b_u, b by matrix multiplication; the shift is filled entry by entry."""
    S = np.zeros((n, n))
    for i in range(n):
        S[i, i - 1] = 1
    A, one = x * np.full((n, n), 1 / n) + y * S, np.ones(n)
    return {
        "r": np.sum((A @ one) ** 2),
        "q": np.sum(A**2),
        "b_u": one @ A.T @ S @ one,
        "b": np.trace(A.T @ S),
    }


@pytest.mark.parametrize("n", [3, 4, 5, 8, 13, 64])
@pytest.mark.parametrize("seed", range(3))
def test_invariants_against_matrices(n, seed):
    x, y = np.random.default_rng([n, seed]).normal(size=2)
    derived = {name: float(e.subs(L, n)) for name, e in invariants(x, y).items()}
    assert derived == pytest.approx(explicit(n, x, y), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_invariants_hold_on_the_shortest_rings(n):
    """S = S^T at L = 2 and S = J = 1 at L = 1: no invariant needs the trace of S or of S^2."""
    x, y = 0.7, -1.3
    derived = {name: float(e.subs(L, n)) for name, e in invariants(x, y).items()}
    assert derived == pytest.approx(explicit(n, x, y), rel=1e-12)


def test_invariants_are_polynomials_of_any_coefficients():
    """Symbols and expressions may be inserted, and b never falls below its Cauchy-Schwarz bound."""
    x, y = sp.symbols("x y", real=True)
    found = invariants(x + 1, -y)
    again = {
        name: e.subs({x: x + 1, y: -y}, simultaneous=True) for name, e in invariants(x, y).items()
    }
    assert all(sp.expand(found[name] - again[name]) == 0 for name in found)
    # ||A||^2 ||S||^2 - tr(A^T S)^2 = (L - 1) x^2: S alone is saturated, pooling is not
    e = invariants(x, y)
    assert sp.expand(L * e["q"] - e["b"] ** 2 - (L - 1) * x**2) == 0
