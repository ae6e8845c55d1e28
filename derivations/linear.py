"""Linear attention, from the model to its action, to be read: ``python derivations/linear.py``.

Prints the derivation as Markdown. At the end the onset of pooling is read off the printed action,
as the smallest P at which its Hessian at the origin is singular.
"""

import sympy as sp

from phasetheory.symbolic import linear_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.typeset import to_markdown


def onset(level: str, L: int, V: int) -> float:
    """Smallest P at which the Hessian of the action in (c_1, c_G) is singular at the origin."""
    setting = {sym.L: L, sym.V: V, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    action = linear_derivation()[level].value.subs(setting)
    hessian = sp.hessian(action, (sym.c_1, sym.c_G)).subs({sym.c_1: 0, sym.c_G: 0})
    roots = sp.Poly(sp.numer(sp.together(hessian.det())), sym.P).nroots(n=20)
    return float(min(sp.re(root) for root in roots if sp.im(root) == 0 and sp.re(root) > 0))


def main() -> None:
    print(to_markdown(linear_derivation()))
    print("## The onset of pooling, L = 16, V = 4, all scales 1\n")
    for level in ("map", "tree"):
        print(f"- {level}: P = {onset(level, 16, 4):.7f}")


if __name__ == "__main__":
    main()
