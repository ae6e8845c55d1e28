"""A `PhaseReport` as JSON (schema: ``phases.schema.json`` beside this file) and as text."""

import json
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from phasetheory import __version__
from phasetheory.cli import terminal
from phasetheory.landscape.model import PhaseReport, State, Transition

METHOD = (
    "minima by batched descents over box and range, followed to their ends by continuation; "
    "location of a first-order transition from equal actions of its minima, of a continuous one "
    "from the vanishing eigenvalue of the Hessian; order from the jump, or from the quartic "
    "coefficient after eliminating the stiff directions"
)


def schema() -> dict[str, Any]:
    """The JSON schema of `as_json`."""
    text = resources.files("phasetheory.cli").joinpath("phases.schema.json").read_text()
    return json.loads(text)


def as_json(report: PhaseReport, equilibrium: list[list[State]]) -> dict[str, Any]:
    """The report as plain JSON values; `from` and `to` are the low- and high-control side."""
    landscape = report.landscape
    names = landscape.order_parameters

    def named(values) -> dict[str, float]:
        return {name: float(value) for name, value in zip(names, values, strict=True)}

    def transition(t: Transition) -> dict[str, Any]:
        return {
            "order": t.order,
            "control": t.control,
            "control_error": t.control_error,
            "from_phase": t.low_phase,
            "to_phase": t.high_phase,
            "from": named(t.low),
            "to": named(t.high),
            "jump": t.jump,
            "slope_change": t.slope_change,
            "spinodals": list(t.spinodals),
            "barrier": t.barrier,
            "quartic": t.quartic,
        }

    def state(s: State) -> dict[str, Any]:
        return {
            "phase": s.phase,
            "order_parameters": named(s.order_parameters),
            "observables": dict(zip(landscape.observables, s.observables.tolist(), strict=True)),
            "susceptibility": {
                name: named(row) for name, row in zip(names, s.susceptibility, strict=True)
            },
            "action": s.action,
        }

    return {
        "schema": 1,
        "name": landscape.name,
        "control": landscape.control,
        "control_range": list(landscape.control_range),
        "control_scale": landscape.control_scale,
        "parameters": dict(landscape.parameters),
        "status": report.status,
        "problems": list(report.problems),
        "method": METHOD,
        "versions": {
            "phasetheory": __version__,
            **{name: metadata.version(name) for name in ("jax", "jaxopt", "numpy", "sympy")},
        },
        "phases": [
            {
                "id": p.id,
                "control_range": list(p.control_range),
                "multiplicity": p.multiplicity,
                "ends": [
                    {"control": e.control, "kind": e.kind, "control_error": e.error} for e in p.ends
                ],
                "points": [
                    {
                        "control": float(u),
                        "order_parameters": named(values),
                        "action": float(action),
                        "observables": dict(zip(landscape.observables, seen, strict=True)),
                        "variance": named(np.diagonal(chi)),
                    }
                    for u, values, action, seen, chi in zip(
                        p.control,
                        p.order_parameters,
                        p.action,
                        p.observables.tolist(),
                        p.susceptibility,
                        strict=True,
                    )
                ],
            }
            for p in report.phases
        ],
        "transitions": [transition(t) for t in report.transitions],
        "crossovers": [
            {
                "control": c.control,
                "order_parameter": c.order_parameter,
                "definition": c.definition,
            }
            for c in report.crossovers
        ],
        "equilibrium": [
            {
                "control": states[0].control,
                **state(states[0]),
                "metastable": [state(s) for s in states[1:]],
            }
            for states in equilibrium
            if states
        ],
    }


def print_report(report: PhaseReport, equilibrium: list[list[State]], files: list[Path]) -> None:
    """Tables of transitions, phases, crossovers and states, for a terminal."""
    console = terminal.console()
    landscape = report.landscape
    low, high = landscape.control_range
    settings = ", ".join(f"{name} = {value:.6g}" for name, value in landscape.parameters.items())
    console.print(landscape.name + (f": {settings}" if settings else ""), style="bold")
    console.print(f"{landscape.control} from {low:g} to {high:g} ({landscape.control_scale} scale)")
    if report.transitions:
        console.print(_transitions(report))
        console.print(_sides(report))
    else:
        console.print("no transition in this range")
    if report.crossovers:
        console.print(_crossovers(report))
    console.print(_phases(report))
    for states in equilibrium:
        console.print(_states(report, states))
        console.print(_observables(report, states))
    for problem in report.problems:
        console.print(f"incomplete: {problem}", style="bold")
    for path in files:
        console.print(f"wrote {path}", soft_wrap=True)


def _transitions(report: PhaseReport) -> Table:
    u = report.landscape.control
    table = terminal.table(
        "Transitions of the equilibrium",
        *("order", u, "± error", "phases", "jump", "spinodals", "barrier"),
    )
    for t in report.transitions:
        spinodals = " … ".join("–" if s is None else f"{s:.7g}" for s in t.spinodals)
        table.add_row(
            t.order,
            f"{t.control:.9g}",
            f"{t.control_error:.0e}",
            f"{t.low_phase} → {t.high_phase}",
            _number(t.jump),
            "–" if t.spinodals == (None, None) else spinodals,
            "not found" if t.barrier is None else _number(t.barrier),
        )
    return table


def _sides(report: PhaseReport) -> Table:
    names = report.landscape.order_parameters
    table = terminal.table("Order parameters at the transitions", "phases", "at", *names)
    for t in report.transitions:
        for phase, side in ((t.low_phase, t.low), (t.high_phase, t.high)):
            place = f"{report.landscape.control} = {t.control:.7g}"
            table.add_row(phase, place, *(_number(value) for value in side))
    return table


def _crossovers(report: PhaseReport) -> Table:
    table = terminal.table("Crossovers (no transitions)", "what", report.landscape.control)
    for c in report.crossovers:
        table.add_row(c.definition, f"{c.control:.6g}")
    return table


def _phases(report: PhaseReport) -> Table:
    u = report.landscape.control
    table = terminal.table(
        "Phases (minima of the action)", "phases", f"{u} from", f"{u} to", "copies"
    )
    for p in report.phases:
        ends = [f"{e.control:.7g} ({e.kind})" for e in p.ends]
        table.add_row(p.id, *ends, str(p.multiplicity))
    return table


def _states(report: PhaseReport, states: list[State]) -> Table:
    rows = [[*s.order_parameters, s.action] for s in states]
    return _state_table(
        report, "States", states, (*report.landscape.order_parameters, "action"), rows
    )


def _observables(report: PhaseReport, states: list[State]) -> Table:
    landscape = report.landscape
    variances = [f"var {name}" for name in landscape.jump_parameters]
    places = [landscape.order_parameters.index(name.removeprefix("var ")) for name in variances]
    rows = [[*s.observables, *np.diagonal(s.susceptibility)[places]] for s in states]
    return _state_table(report, "Observables", states, (*landscape.observables, *variances), rows)


def _state_table(report: PhaseReport, title: str, states, names, rows) -> Table:
    control = f"{report.landscape.control} = {states[0].control:g}" if states else ""
    table = terminal.table(f"{title} at {control}", "what", "phases", *names)
    for i, (s, values) in enumerate(zip(states, rows, strict=True)):
        kind = "metastable" if i else "equilibrium"
        table.add_row(kind, s.phase, *(_number(float(value)) for value in values))
    return table


def _number(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:.5g}"
