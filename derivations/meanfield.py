"""Linear attention with its fluctuations, to be read: ``python derivations/meanfield.py``.

Prints the derivation as Markdown. At the end the action is minimised at one setting, from the
printed expression alone, and set beside the averages of sampled networks.
"""

import sympy as sp
from scipy.optimize import minimize

from phasetheory.symbolic import linear_meanfield_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.meanfield import rho2, tau2
from phasetheory.symbolic.typeset import to_markdown

#: Langevin averages of (alpha, c_G) at L = 16, V = 4, all scales 1, by number of sequences
SAMPLED = {200: (0.194, 0.006), 300: (0.250, 0.025), 500: (0.302, 0.118)}


def order_parameters(L: int, V: int, P: float) -> tuple[float, float]:
    """(alpha, c_G) at the minimum of the meanfield action, all scales 1."""
    setting = {sym.L: L, sym.V: V, sym.P: P, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}
    logs = sp.symbols("log_rho log_tau", real=True)
    action = linear_meanfield_derivation()["meanfield"].value.subs(setting)
    action = action.subs({rho2: sp.exp(logs[0]), tau2: sp.exp(logs[1])})
    S = sp.lambdify((sym.alpha, sym.c_G, *logs), action, "numpy")
    found = minimize(lambda x: S(*x), (0.2, 0.05, -3.0, -0.1), method="BFGS", tol=1e-9)
    return float(found.x[0]), float(found.x[1])


def main() -> None:
    print(to_markdown(linear_meanfield_derivation()))
    print("## Beside sampled networks, L = 16, V = 4, all scales 1\n")
    print("| P | alpha | sampled | c_G | sampled |\n| --- | --- | --- | --- | --- |")
    for P, (sampled_alpha, sampled_c_G) in SAMPLED.items():
        alpha, c_G = order_parameters(16, 4, P)
        print(f"| {P} | {alpha:.3f} | {sampled_alpha:.3f} | {c_G:.3f} | {sampled_c_G:.3f} |")


if __name__ == "__main__":
    main()
