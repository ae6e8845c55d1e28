"""Targets of several tokens, to be read: ``python derivations/sparse.py``.

Prints the derivation as Markdown. At the end the first-order point of softmax attention is located
on the printed action and set beside the printed closed form.
"""

import numpy as np
import sympy as sp
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from phasetheory.symbolic import sparse_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.sparse import epsilon
from phasetheory.symbolic.thresholds import z
from phasetheory.symbolic.typeset import to_markdown


def threshold(L: int, V: int, ones: int) -> float:
    """P at which the action of copying equals that of pooling, all scales 1."""
    setting = {sym.L: L, sym.V: V, sym.s: ones, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    action = sparse_derivation()["softmax_tree"].value.subs(setting)
    S = sp.lambdify((sym.h, sym.P), action, [{"logistic": expit}, "numpy"])
    top = np.log(L) + 3

    def difference(P: float) -> float:
        h = np.linspace(0, top, 400)
        values = S(h, P)
        (inner,) = np.nonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:]))
        low, high = (
            minimize_scalar(
                lambda x: S(x, P),
                bounds=(h[k], h[k + 2]),
                method="bounded",
                options={"xatol": 1e-9},
            ).fun
            for k in (inner[0], inner[-1])
        )
        return float(high - low)

    guess = closed_form(L, V, ones)
    return float(brentq(difference, guess, 1.15 * guess, rtol=1e-8))


def closed_form(L: int, V: int, ones: int) -> float:
    """P* of the steps point_tree and point_z."""
    steps = sparse_derivation()
    setting = {sym.L: L, sym.V: V, sym.s: ones, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    weight, logit, star = (e.rhs for e in steps["point_tree"].value)
    star = star.subs(sym.h, logit).subs(epsilon, weight).subs(setting)
    logit = logit.subs(epsilon, weight).subs(setting)
    of_length = steps["point_z"].value[1].rhs.subs(sym.lam, sym.LAMBDA).subs(setting)
    consistent = sp.lambdify(z, sp.log(of_length.subs({sym.h: logit, sym.P: star}) / z), "numpy")
    return float(star.subs(z, brentq(consistent, 0.1, 50.0)))


def main() -> None:
    print(to_markdown(sparse_derivation()))
    print("## First-order point of softmax attention, L = 1000, V = 32, all scales 1\n")
    print("| ones | P on the action | closed form |\n| --- | --- | --- |")
    for ones in (1, 3, 10):
        print(f"| {ones} | {threshold(1000, 32, ones):.1f} | {closed_form(1000, 32, ones):.1f} |")


if __name__ == "__main__":
    main()
