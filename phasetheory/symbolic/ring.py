"""Invariants of the permutation-symmetric attention matrices ``A = x J + y S``.

``J = 11^T/L`` and the cyclic shift ``S`` generate a commutative algebra: ``J^2 = J``, ``J S = J``,
``S^T S = 1``. Products are therefore polynomials, and traces and totals need no explicit matrix.
"""

import sympy as sp

from phasetheory.symbolic.symbols import L

_J, _S, _St = sp.symbols("J S S^T")


def _reduce(polynomial: sp.Expr) -> dict[str, sp.Expr]:
    """Coefficients of J, S, S^T and the identity in a product of two elements of the algebra."""
    coefficients = {name: sp.Integer(0) for name in ("J", "S", "St", "one", "other")}
    for (j, s, st), coefficient in sp.Poly(polynomial, _J, _S, _St).terms():
        # J absorbs J, S and S^T
        name = "J" if j else {0: "one", 1: "S", -1: "St"}.get(s - st, "other")
        coefficients[name] += coefficient
    return coefficients


def _trace(polynomial: sp.Expr) -> sp.Expr:
    # tr J = 1 and tr 1 = L; the products formed here hold no other power of the shift
    c = _reduce(polynomial)
    return c["J"] + L * c["one"]


def _total(polynomial: sp.Expr) -> sp.Expr:
    # the sum of all entries of J, of any permutation matrix, and of the identity is L
    return L * sum(_reduce(polynomial).values())


def invariants(pooling: sp.Expr, copying: sp.Expr) -> dict[str, sp.Expr]:
    """r, q, b_u and b of ``A = pooling * J + copying * S``, expanded."""
    A = pooling * _J + copying * _S
    At = pooling * _J + copying * _St
    values = {
        "r": _total(At * A),
        "q": _trace(At * A),
        "b_u": _total(At * _S),
        "b": _trace(At * _S),
    }
    return {name: sp.expand(value) for name, value in values.items()}
