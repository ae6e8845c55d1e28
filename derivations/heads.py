"""A finite head dimension, to be read: ``python derivations/heads.py``.

Prints the derivation as Markdown. At the end the first-order point of pooling in linear attention
is located on the printed energy and set beside the printed closed form, and the nuclear norm beside
the cheapest Q and K that descent finds.
"""

import numpy as np
import sympy as sp
from scipy.optimize import brentq, minimize, minimize_scalar

from phasetheory.symbolic import heads_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.heads import M, N, c
from phasetheory.symbolic.typeset import to_markdown


def pooling(L: int, V: int, heads: int) -> tuple[float, float]:
    """P at which pooling becomes cheaper than nothing: on the energy, and in closed form."""
    steps = heads_derivation()
    setting = {sym.L: L, sym.V: V, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1, N: heads}
    energy = steps["linear_map"].value.subs(c, 0).subs(setting).subs(M, min(L, heads))
    S = sp.lambdify((sym.alpha, sym.P), energy - energy.subs(sym.alpha, 0), "numpy")

    def gain(P: float) -> float:
        grid = np.geomspace(1e-3, 10, 400)
        k = int(np.clip(np.argmin(S(grid, P)), 1, 398))
        return minimize_scalar(lambda x: S(x, P), bounds=grid[[k - 1, k + 1]], method="bounded").fun

    closed = float(steps["pooling_point"].value[1].rhs.subs(setting))
    return float(brentq(gain, closed / 2, 4 * closed, rtol=1e-10)), closed


def cheapest(L: int, heads: int, seed: int = 0) -> tuple[float, float]:
    """Prior energy of a random G of low rank: by descent over Q and K, and by its nuclear norm."""
    rng = np.random.default_rng(seed)
    rank = min(L, heads)
    target = rng.normal(size=(L, rank)) @ rng.normal(size=(rank, L))
    left, values, right = np.linalg.svd(target)
    root = np.sqrt(np.sqrt(heads) * values[:rank])
    Q0, K0 = left[:, :rank] * root, right[:rank].T * root

    def cost(x):
        # all other factorisations of full rank are Q0 T and K0 T^-T
        T = x.reshape(rank, rank)
        return (np.sum((Q0 @ T) ** 2) + np.sum((K0 @ np.linalg.inv(T).T) ** 2)) / 2

    start = np.eye(rank) + 0.3 * rng.normal(size=(rank, rank))
    found = minimize(cost, start.ravel(), method="BFGS", tol=1e-10)
    return float(found.fun), float(np.sqrt(heads) * values.sum())


def main() -> None:
    print(to_markdown(heads_derivation()))
    print("## First-order point of pooling, linear attention, V = 4, N = L, all scales 1\n")
    print("| L | P on the energy | closed form |\n| --- | --- | --- |")
    for L in (16, 64, 256):
        print(f"| {L} | {pooling(L, 4, L)[0]:.3f} | {pooling(L, 4, L)[1]:.3f} |")


if __name__ == "__main__":
    main()
