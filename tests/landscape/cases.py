"""The textbook cases with exact answers, as landscapes; see tests/cases/README.md."""

import json
import re
import tomllib
from pathlib import Path

from phasetheory.landscape import Landscape, landscape_from_expression

FOLDER = Path(__file__).parents[1] / "cases"


def given() -> list[dict]:
    return json.loads((FOLDER / "landscapes.json").read_text())


def textbook() -> list[dict]:
    return tomllib.loads((FOLDER / "textbook.toml").read_text())["case"]


def by_name(name: str) -> dict:
    return next(case for case in [*given(), *textbook()] if case["name"] == name)


def landscape(
    case: dict, *, x_unit: float = 1.0, u_unit: float = 1.0, widen: float = 1.0
) -> Landscape:
    """The case in other units of its variables and control, and in a wider box."""
    expression = case["expression"]
    units = dict.fromkeys(case["variables"], x_unit) | {case["control"]: u_unit}
    for name, unit in units.items():
        if unit != 1.0:
            expression = re.sub(rf"\b{name}\b", f"({name}/{unit!r})", expression)
    bounds = {}
    for name, (low, high) in case["bounds"].items():
        middle, half = (low + high) / 2, (high - low) / 2
        bounds[name] = ((middle - widen * half) * x_unit, (middle + widen * half) * x_unit)
    low, high = case["control_range"]
    return landscape_from_expression(
        expression,
        case["variables"],
        case["control"],
        bounds,
        (low * u_unit, high * u_unit),
        parameters=case.get("parameters", {}),
        control_scale=case.get("control_scale", "linear"),
        name=case["name"],
    )
