"""Closed forms of the thresholds, to be read: ``python derivations/thresholds.py``.

Prints the derivation as Markdown. At the end the closed form of the softmax threshold is set beside
its limit, which it reaches only at absurd lengths.
"""

import sympy as sp

from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic import thresholds_derivation
from phasetheory.symbolic.typeset import to_markdown


def softmax_threshold(L: int, V: int) -> tuple[float, float]:
    """(closed form, limit) of the first-order point over L ln^2 L, all scales 1."""
    steps = thresholds_derivation()
    setting = {sym.V: V, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1, sym.L: L}
    logit = steps["softmax_logit"].value.subs(setting).evalf(30)
    closed = steps["softmax_threshold"].value.subs(sym.h, logit).subs(setting)
    limit = steps["softmax_limit"].value.subs(setting)
    scale = (sym.L * sp.log(sym.L) ** 2).subs(setting)
    return float((closed / scale).evalf(30)), float((limit / scale).evalf(30))


def main() -> None:
    print(to_markdown(thresholds_derivation()))
    print("## Softmax: P* over L ln^2 L at V = 32, all scales 1\n")
    print("| L | closed form | limit |\n| --- | --- | --- |")
    for exponent in (3, 6, 12, 100, 1000):
        closed, limit = softmax_threshold(10**exponent, 32)
        print(f"| 10^{exponent} | {closed:.4f} | {limit:.4f} |")


if __name__ == "__main__":
    main()
