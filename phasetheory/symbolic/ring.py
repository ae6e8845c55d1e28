"""Invariants of the symmetric attention matrices ``A = x J + y S``.

``J = 11^T/L``, and ``S`` has s ones in every row and column; for s = 1 it is the cyclic shift. The
products ``J^2 = J`` and ``J S = s J``, and the traces and totals of ``S^T S``, need no explicit
matrix.
"""

import sympy as sp

from phasetheory.symbolic.symbols import L

_J, _S, _St = sp.symbols("J S S^T")


def _reduce(polynomial: sp.Expr, ones: sp.Expr) -> dict[str, sp.Expr]:
    """Coefficients of J and S^T S in a product of A^T with A or S."""
    coefficients = {name: sp.Integer(0) for name in ("J", "StS")}
    for (j, s, st), coefficient in sp.Poly(polynomial, _J, _S, _St).terms():
        # J absorbs J, and S and S^T up to their row sums
        name = "J" if j else {(1, 1): "StS"}[s, st]
        coefficients[name] += coefficient * (ones ** (s + st) if j else 1)
    return coefficients


def _trace(polynomial: sp.Expr, ones: sp.Expr) -> sp.Expr:
    # tr J = 1, tr S^T S counts the ones
    c = _reduce(polynomial, ones)
    return c["J"] + ones * L * c["StS"]


def _total(polynomial: sp.Expr, ones: sp.Expr) -> sp.Expr:
    c = _reduce(polynomial, ones)
    return L * (c["J"] + ones**2 * c["StS"])


def invariants(pooling: sp.Expr, copying: sp.Expr, ones: sp.Expr = sp.S.One) -> dict[str, sp.Expr]:
    """r, q, b_u and b of ``A = pooling * J + copying * S``, expanded.

    Args:
        ones: the number s of ones in every row and column of S.
    """
    A = pooling * _J + copying * _S
    At = pooling * _J + copying * _St
    values = {
        "r": _total(At * A, ones),
        "q": _trace(At * A, ones),
        "b_u": _total(At * _S, ones),
        "b": _trace(At * _S, ones),
    }
    return {name: sp.expand(value) for name, value in values.items()}
