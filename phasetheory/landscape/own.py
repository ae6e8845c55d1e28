"""A user's own action: a formula with its names, or a TOML file, as a `Landscape`."""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import sympy as sp

from phasetheory.errors import InputError
from phasetheory.landscape.lowering import lower
from phasetheory.landscape.model import Landscape, Scale
from phasetheory.symbolic.expressions import is_name, parse_expression


def landscape_from_expression(
    expression: str,
    variables: Sequence[str],
    control: str,
    bounds: Mapping[str, tuple[float, float]],
    control_range: tuple[float, float],
    *,
    parameters: Mapping[str, float] | None = None,
    control_scale: Scale = "linear",
    name: str = "own action",
) -> Landscape:
    """A `Landscape` from a formula; the text is parsed, never executed.

    Raises:
        InputError: if a name is unknown, used twice or not usable, if a bound is missing, or if the
            formula is not arithmetic on the declared names.
    """
    parameters = dict(parameters or {})
    names = [*variables, control, *parameters]
    if not variables:
        raise InputError("an action needs at least one variable")
    for candidate in names:
        if not is_name(candidate):
            raise InputError(f"{candidate!r} cannot name a variable, control or parameter")
        if names.count(candidate) > 1:
            raise InputError(f"the name {candidate!r} is declared twice")
    for variable in variables:
        if variable not in bounds:
            raise InputError(f"no bounds are given for the variable {variable!r}")
    for key in bounds:
        if key not in variables:
            raise InputError(f"bounds are given for {key!r}, which is no variable")
    formula = parse_expression(expression, names)
    used = {str(symbol) for symbol in formula.free_symbols}
    for needed in (*variables, control):
        if needed not in used:
            raise InputError(f"the action does not depend on {needed!r}")
    return Landscape(
        name=name,
        variables=tuple(variables),
        control=control,
        action=_action(formula, tuple(names), len(variables)),
        bounds=tuple((float(bounds[v][0]), float(bounds[v][1])) for v in variables),
        control_range=(float(control_range[0]), float(control_range[1])),
        control_scale=control_scale,
        parameters=parameters,
    )


@lru_cache(maxsize=64)
def _action(formula: sp.Expr, names: tuple[str, ...], n: int) -> Callable:
    """One function per formula, so that code compiled for it serves all values of parameters."""
    compiled = lower(formula, [sp.Symbol(name, real=True) for name in names])

    def action(x, u, theta):
        return compiled(*(x[i] for i in range(n)), u, *theta[: len(names) - n - 1])

    return action


def load_landscape(path: Path, control_range: tuple[float, float] | None = None) -> Landscape:
    """A `Landscape` from a TOML file with the tables ``[action]`` and ``[control]``.

    Args:
        path: the file; docs/own-actions.md describes it.
        control_range: replaces the range of the file.

    Raises:
        InputError: naming the file and the entry that is missing or wrong.
    """
    return landscape_from_text(read_text(path), path.stem, control_range, str(path))


def read_text(path: Path) -> str:
    """The text of a file of an action.

    Raises:
        InputError: saying why it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path} (and it is neither linear nor softmax)"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8") from None


def landscape_from_text(
    text: str,
    name: str,
    control_range: tuple[float, float] | None = None,
    source: str = "the action",
) -> Landscape:
    """As `load_landscape`, from the content of the file; `source` is named in complaints."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, endless numbers, deep nesting
        raise InputError(f"{source} is not valid TOML: {error}") from None
    try:
        return _from_tables(content, name, control_range)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


_ACTION_KEYS = {"expression", "variables", "control", "parameters", "bounds", "name"}
_CONTROL_KEYS = {"range", "scale"}


def _from_tables(content: dict[str, Any], name: str, control_range) -> Landscape:
    _only(content, {"action", "control"}, "")
    action = _entry(content, "action", dict, "")
    control = _entry(content, "control", dict, "") if control_range is None else {}
    control = content.get("control", control)
    _only(action, _ACTION_KEYS, "action.")
    _only(control, _CONTROL_KEYS, "control.")
    variables = _entry(action, "variables", list, "action.")
    if not all(isinstance(v, str) for v in variables):
        raise InputError("action.variables must be a list of names in quotes")
    bounds = {
        variable: _pair(value, f"action.bounds.{variable}")
        for variable, value in _entry(action, "bounds", dict, "action.").items()
    }
    parameters = {
        key: _real(value, f"action.parameters.{key}")
        for key, value in _entry(action, "parameters", dict, "action.", {}).items()
    }
    if control_range is None:
        control_range = _pair(_entry(control, "range", list, "control."), "control.range")
    return landscape_from_expression(
        _entry(action, "expression", str, "action."),
        variables,
        _entry(action, "control", str, "action."),
        bounds,
        control_range,
        parameters=parameters,
        control_scale=_entry(control, "scale", str, "control.", "linear"),
        name=_entry(action, "name", str, "action.", name),
    )


def _only(table: Any, known: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise InputError(f"{where.rstrip('.')} must be a table")
    for key in table:
        if key not in known:
            raise InputError(f"unknown entry {where}{key}; known: {', '.join(sorted(known))}")


_KINDS = {dict: "a table", list: "a list", str: "a text in quotes"}
_REQUIRED = object()


def _entry(table: dict, key: str, kind: type, where: str, default: Any = _REQUIRED) -> Any:
    value = table.get(key, default)
    if value is _REQUIRED:
        raise InputError(f"the entry {where}{key} is missing")
    if not isinstance(value, kind):
        raise InputError(f"{where}{key} must be {_KINDS[kind]}, not {value!r}")
    return value


def _real(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} must be a finite number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{where} must be a finite number that fits double precision")
    return number


def _pair(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"{where} must be two numbers, [lowest, highest], not {value!r}")
    return _real(value[0], where), _real(value[1], where)
