"""A user's own action: a formula with its names, as a `Landscape`."""

from collections.abc import Mapping, Sequence

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
    used = {symbol.name for symbol in formula.free_symbols}
    for needed in (*variables, control):
        if needed not in used:
            raise InputError(f"the action does not depend on {needed!r}")
    symbols = [*parse_names(names)]
    compiled = lower(formula, symbols)
    n = len(variables)

    def action(x, u, theta):
        return compiled(*(x[i] for i in range(n)), u, *(theta[i] for i in range(len(parameters))))

    return Landscape(
        name=name,
        variables=tuple(variables),
        control=control,
        action=action,
        bounds=tuple((float(bounds[v][0]), float(bounds[v][1])) for v in variables),
        control_range=(float(control_range[0]), float(control_range[1])),
        control_scale=control_scale,
        parameters=parameters,
    )


def parse_names(names: Sequence[str]):
    """The symbols that `parse_expression` uses for these names."""
    return [parse_expression(name, [name]) for name in names]
