"""Softmax attention row by row, to be read: ``python derivations/softmax_meanfield.py``.

Prints the derivation as Markdown. At the end the equations of self-consistency are solved at one
setting from the printed expressions, with the copied logit of a row integrated and the others drawn
at random, and set beside the averages of sampled networks.
"""

import numpy as np
import sympy as sp

from phasetheory.symbolic import softmax_meanfield_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.typeset import to_markdown

#: Langevin averages of a at L = 16, V = 4, all scales 1, by number of sequences
SAMPLED = {300: 0.334, 500: 0.455, 1000: 0.556}


def weight(L: int, V: int, P: float, draws: int = 3000, seed: int = 0) -> float:
    """The mean weight a on the copied token, all scales 1, reached from a copying state."""
    others = np.exp(np.random.default_rng(seed).normal(size=(draws, L - 1)))
    copied = np.linspace(-6, 9, 150)
    total = np.exp(copied)[:, None] + others.sum(axis=1)
    a, n = np.exp(copied)[:, None] / total, (np.exp(2 * copied)[:, None] + np.sum(others**2, 1))
    n /= total**2
    prior = -(copied[:, None] ** 2) / 2
    setting = {sym.L: L, sym.V: V, sym.P: P, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    equations = softmax_meanfield_derivation()["fields"].value
    right = [e.rhs.subs(sym.lam, sym.LAMBDA).subs(setting) for e in equations]
    fields = sp.lambdify((sym.b, sym.q), right, "numpy")
    b, q = 0.5 * L, 0.3 * L
    for _ in range(500):
        b_hat, q_hat = fields(b, q)
        exponent = prior + b_hat * a - q_hat * n
        tilted = np.exp(exponent - exponent.max())
        tilted /= tilted.sum()
        b, q = (b + L * np.sum(tilted * a)) / 2, (q + L * np.sum(tilted * n)) / 2
    return float(b / L)


def main() -> None:
    print(to_markdown(softmax_meanfield_derivation()))
    print("## Beside sampled networks, L = 16, V = 4, all scales 1\n")
    print("| P | a | sampled |\n| --- | --- | --- |")
    for P, sampled in SAMPLED.items():
        print(f"| {P} | {weight(16, 4, P):.3f} | {sampled:.3f} |")


if __name__ == "__main__":
    main()
