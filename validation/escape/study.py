"""Escape from the pooling state at three barriers: ``python validation/escape/study.py``.

Softmax attention at L = 48, V = 4, sigma_g^2 = 4, data at their mean. Theory: Langer's rate in
(b, q) (`phasetheory.copytask.escape`). Measured: first passages of the mean weight through 0.25, in
chains of Langevin dynamics with W integrated out. Writes result.json beside this file.
"""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from phasetheory.copytask import Setting
from phasetheory.copytask.escape import escape
from phasetheory.networks import CopyTask, Network
from phasetheory.networks.energy import data
from phasetheory.networks.passage import first_passages
from phasetheory.networks.task import expected_counts

#: P and the time for which chains are watched
POINTS = ((740.0, 150.0), (760.0, 100.0), (780.0, 60.0))
L, V, VAR_G, CHAINS, THRESHOLD = 48, 4, 4.0, 32, 0.25


def main() -> None:
    task, network = CopyTask(L, V), Network("softmax", L, V, VAR_G)
    rows = []
    for P, limit in POINTS:
        theory = escape(Setting(L=L, V=V, var_g=VAR_G), P, (400.0, 1200.0))
        measured = first_passages(
            network, data(task, expected_counts(task, P), 1.0), THRESHOLD, limit, chains=CHAINS
        )
        rows.append(
            {
                "P": P,
                "theory": asdict(theory),
                "mean_time": measured.mean,
                "mean_time_error": measured.error,
                "passages": int(np.isfinite(measured.times).sum()),
                "chains": CHAINS,
                "limit": limit,
                "step": measured.step,
                "mean_steps": measured.mean / measured.step,
                "ratio_to_theory": measured.mean / theory.time,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    result = {"L": L, "V": V, "var_g": VAR_G, "threshold": THRESHOLD, "rows": rows}
    Path(__file__).with_name("result.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
