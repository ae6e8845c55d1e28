"""Symbols that are not equally frequent, to be read: ``python derivations/tokens.py``.

Prints the derivation as Markdown. At the end the onset of pooling in linear attention is located
from the printed expressions alone, for Zipf's law.
"""

import numpy as np
import sympy as sp
from scipy.optimize import brentq

from phasetheory.symbolic import linear_derivation, tokens_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.tokens import data_gain, data_log_cost, p, v
from phasetheory.symbolic.typeset import to_markdown


def onset(L: int, V: int, exponent: float) -> float:
    """The smallest P at which the origin loses stability at the level tree, all scales 1."""
    weights = np.arange(1, V + 1) ** -exponent
    probabilities = weights / weights.sum()
    steps = linear_derivation()
    invariants = {equation.lhs: equation.rhs for equation in steps["ansatz"].value}
    action = steps["prior"].value + data_log_cost() + data_gain()
    action = action.replace(sp.Sum, lambda f, _: sum(f.subs(p[v], x) for x in probabilities))
    setting = {sym.L: L, sym.V: V, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    action = action.subs(invariants).subs(setting)
    origin = {sym.alpha: 0, sym.c_G: 0}
    hessian = sp.hessian(action, (sym.alpha, sym.c_G)).subs(origin)
    entries = sp.lambdify(sym.P, hessian, "numpy")
    grid = np.geomspace(1, 1e6, 200)
    lowest = [np.linalg.eigvalsh(np.array(entries(P), float))[0] for P in grid]
    first = int(np.argmax(np.array(lowest) < 0))

    def smallest(P: float) -> float:
        return float(np.linalg.eigvalsh(np.array(entries(P), float))[0])

    return float(brentq(smallest, grid[first - 1], grid[first], rtol=1e-12))


def main() -> None:
    print(to_markdown(tokens_derivation()))
    print("## Onset of pooling, linear attention, L = 16, V = 4, all scales 1\n")
    print("| Zipf exponent | P_c |\n| --- | --- |")
    for exponent in (0.0, 1.0, 2.0):
        print(f"| {exponent:g} | {onset(16, 4, exponent):.4f} |")


if __name__ == "__main__":
    main()
