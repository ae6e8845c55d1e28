"""Softmax attention, from the model to its action: ``python derivations/softmax.py``.

Prints the derivation as Markdown. At the end the two densities, of the logit h and of the order
parameter a_G, are integrated over one event.
"""

import numpy as np
import sympy as sp
from scipy.integrate import quad

from phasetheory.symbolic import softmax_derivation
from phasetheory.symbolic import symbols as sym
from phasetheory.symbolic.typeset import to_markdown


def probabilities(event: tuple[float, float], L: int, V: int, P: float) -> tuple[float, float]:
    """Probability that a_G lies in an interval, from the density of h and from that of a_G."""
    steps = softmax_derivation()
    setting = {sym.L: L, sym.V: V, sym.P: P, sym.kappa: 1, sym.sigma_g: 1, sym.sigma_w: 1}

    def density(key, variable):
        action = steps[key].value.rewrite(sp.exp).subs(setting)
        return sp.lambdify(variable, action, "numpy")

    def share(action, whole, part):
        lowest = min(action(x) for x in np.linspace(*whole, 2001))
        weight = lambda x: np.exp(lowest - action(x))  # noqa: E731
        total, inner = (quad(weight, *ends, limit=500)[0] for ends in (whole, part))
        return inner / total

    logits = [float(np.log(1 + L * a / (1 - a))) for a in event]
    return (
        share(density("tree", sym.h), (-12.0, 14.0), logits),
        share(density("density_in_a_G", sym.a_G), (-1 / (L - 1) + 1e-9, 1 - 1e-9), event),
    )


def main() -> None:
    print(to_markdown(softmax_derivation()))
    print("## One measure, two densities\n")
    for event in ((0.1, 0.4), (0.3, 0.9)):
        in_h, in_a_G = probabilities(event, 8, 3, 60.0)
        print(f"- probability of a_G in {event}: {in_h:.9f} from h, {in_a_G:.9f} from a_G")


if __name__ == "__main__":
    main()
