"""A `ScalingReport` as JSON (schema: ``scaling.schema.json`` beside this file) and as text."""

import json
import math
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from phasetheory import __version__
from phasetheory.cli import terminal
from phasetheory.copytask.scaling import COSTS, Curve, ScalingReport

METHOD = (
    "thresholds by bisection in batches (levels tree and map): the onset from the determinant of "
    "the Hessian at the origin; softmax from the curve P(h) of stationary points, first order by "
    "equal action of the two minima; a crossover is the fastest change with log P of the order "
    "parameter (c_G, a). Other levels: from all phases of each setting"
)


def schema() -> dict[str, Any]:
    """The JSON schema of `as_json`."""
    text = resources.files("phasetheory.cli").joinpath("scaling.schema.json").read_text()
    return json.loads(text)


def as_json(report: ScalingReport) -> dict[str, Any]:
    """The report as plain JSON values; what is not known is null."""
    return {
        "schema": 1,
        "attention": report.attention,
        "level": report.level,
        "over": report.over,
        "parameters": {
            name: getattr(report.settings[0], name)
            for name in ("L", "V", "kappa", "var_g", "var_w")
            if name != report.over
        },
        "status": report.status,
        "problems": list(report.problems),
        "notes": list(report.notes),
        "method": METHOD,
        "versions": {
            "phasetheory": __version__,
            **{name: metadata.version(name) for name in ("jax", "jaxopt", "numpy", "scipy")},
        },
        "curves": [_curve(report, curve) for curve in report.curves],
    }


def _curve(report: ScalingReport, curve: Curve) -> dict[str, Any]:
    found = curve.found

    def point(i: int) -> dict[str, Any]:
        return {
            "value": float(report.values[i]),
            "order": str(found.order[i]),
            "P": _known(found.P[i]),
            "P_error": _known(found.error[i]),
            "low": {n: _known(v) for n, v in zip(found.names, found.low[i], strict=True)},
            "high": {n: _known(v) for n, v in zip(found.names, found.high[i], strict=True)},
            "spinodals": [_known(v) for v in found.spinodals[i]],
            "closed": {name: _known(values[i]) for name, values in curve.closed.items()},
            "ratio": {
                name: _known(found.P[i] / values[i]) for name, values in curve.closed.items()
            },
            "shares": {name: _known(v) for name, v in zip(COSTS, curve.shares[i], strict=True)},
            "decides": str(curve.decides[i]) or None,
        }

    return {
        "quantity": curve.quantity,
        "points": [point(i) for i in range(len(report.values))],
        "local_exponents": [
            {
                "from": float(report.values[i]),
                "to": float(report.values[i + 1]),
                "exponent": _known(curve.local[i]),
                "error": _known(curve.local_error[i]),
            }
            for i in range(len(curve.local))
        ],
        "fits": [
            {
                "name": fit.name,
                "exponent": fit.exponent,
                "interval": list(fit.interval),
                "method": fit.method,
            }
            for fit in curve.fits
        ],
    }


def _known(value) -> float | None:
    return float(value) if math.isfinite(value) else None


def print_report(report: ScalingReport, files: list[Path]) -> None:
    """Tables of points and fits for a terminal."""
    console = terminal.console()
    fixed = report.settings[0]
    settings = ", ".join(
        f"{name} = {getattr(fixed, name):.6g}"
        for name in ("L", "V", "kappa", "var_g", "var_w")
        if name != report.over
    )
    console.print(
        f"{report.attention} attention, level {report.level}, over {report.over}: {settings}",
        style="bold",
    )
    for curve in report.curves:
        console.print(_points(report, curve))
        console.print(_fits(curve))
    for note in report.notes:
        console.print(f"note: {note}")
    for problem in report.problems:
        console.print(f"incomplete: {problem}", style="bold")
    for path in files:
        console.print(f"wrote {path}", soft_wrap=True)


def _points(report: ScalingReport, curve: Curve):
    found, (name, closed) = curve.found, next(iter(curve.closed.items()))
    table = terminal.table(
        f"{curve.quantity}; closed form: {name}",
        *("order", report.over, "P*", "± error", "closed", "P*/closed", "local exponent"),
        "decides",
    )
    for i, value in enumerate(report.values):
        table.add_row(
            str(found.order[i]).replace("_", " "),
            f"{value:.6g}",
            _text(found.P[i], ".8g"),
            _text(found.error[i], ".0e"),
            _text(closed[i], ".6g"),
            _text(found.P[i] / closed[i], ".4f"),
            _text(curve.local[i], ".4f") if i < len(curve.local) else "",
            str(curve.decides[i]) or "–",
        )
    return table


def _fits(curve: Curve):
    table = terminal.table(f"{curve.quantity}: fitted exponents", "what", "exponent", "interval")
    for fit in curve.fits:
        low, high = fit.interval
        table.add_row(fit.name, f"{fit.exponent:.4f}", f"{low:.4f} … {high:.4f}")
    return table


def _text(value, form: str) -> str:
    return format(float(value), form) if math.isfinite(value) else "–"
