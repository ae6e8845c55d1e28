"""Speed of the theory in one run: ``python validation/benchmarks/theory_speed.py``.

Writes ``theory_speed.json`` beside this file. Ratios are of times in the same run; a loop of plain
Python tells how fast the machine was.

1. Softmax attention at the level meanfield, 200 values of P at L = 64: the phase finder (all phases
   along the range) and the batched minimisation from 8 starts at each P, both compiled before,
   against scipy's L-BFGS-B from 8 starts at each P on the same compiled action and gradient. The
   answers are compared.
2. The thresholds of 64 x 64 settings (L, V) at the level tree, both attentions, with compilation.
"""

import json
import platform
import time
from pathlib import Path

import jax
import numpy as np
from scipy.optimize import minimize

from phasetheory.copytask import Setting, landscape
from phasetheory.copytask.thresholds import thresholds
from phasetheory.landscape.phases import find_phases, lowest_minima, states_at


def timed(function):
    start = time.perf_counter()
    value = function()
    return value, time.perf_counter() - start


def plain_loop() -> None:
    total = 0
    for i in range(10**7):
        total += i


def multistart(found, controls) -> np.ndarray:
    """The lowest action at each control, by scipy."""
    action = jax.jit(jax.value_and_grad(found.action))
    lo, hi = np.array(found.bounds).T
    rng = np.random.default_rng(0)
    action(lo, controls[0], found.theta)

    def lowest(P):
        def objective(x):
            value, slope = action(x, P, found.theta)
            return float(value), np.asarray(slope)

        starts = rng.uniform(lo, hi, (8, len(lo)))
        bounds = list(zip(lo, hi, strict=True))
        return min(minimize(objective, x, jac=True, bounds=bounds).fun for x in starts)

    return np.array([lowest(P) for P in controls])


def main() -> None:
    _, machine = timed(plain_loop)
    setting = Setting(L=64, V=4, var_g=4.0)
    controls = np.geomspace(400.0, 4000.0, 200)
    found = landscape("softmax", setting, "meanfield", (400.0, 4000.0))
    _, first = timed(lambda: find_phases(found))
    report, finder = timed(lambda: find_phases(found))
    ours, at_controls = timed(lambda: [states_at(report, P)[0].action for P in controls])
    lowest_minima(found, controls)
    (_, batch), batched = timed(lambda: lowest_minima(found, controls))
    theirs, scipy_time = timed(lambda: multistart(found, controls))
    missed = int(np.sum(theirs > np.array(ours) + 1e-6))
    beaten = int(np.sum(theirs < np.array(ours) - 1e-6))
    sizes = [int(L) for L in np.geomspace(8, 65536, 64)]
    symbols = [int(V) for V in np.geomspace(2, 4096, 64)]
    settings = [Setting(L=L, V=V) for L in sizes for V in symbols]
    diagram = {}
    for attention in ("linear", "softmax"):
        result, seconds = timed(lambda attention=attention: thresholds(attention, settings))
        orders, counts = np.unique(result.order, return_counts=True)
        diagram[attention] = {
            "seconds": seconds,
            "settings": len(settings),
            "orders": dict(zip(orders.tolist(), counts.tolist(), strict=True)),
        }
    record = {
        "machine": {"python_loop_1e7_seconds": machine, "processor": platform.machine()},
        "meanfield_200_P_at_L64": {
            "finder_first_call_seconds": first,
            "finder_seconds": finder + at_controls,
            "scipy_multistart_seconds": scipy_time,
            "batched_minima_seconds": batched,
            "ratio_batched": scipy_time / batched,
            "ratio_finder": scipy_time / (finder + at_controls),
            "lower_minimum_missed_by_batched": int(np.sum(~(batch < np.array(ours) + 1e-6))),
            "lower_minimum_missed_by_scipy": missed,
            "lower_minimum_missed_by_finder": beaten,
        },
        "tree_64_by_64_settings": diagram,
    }
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
