"""The options that name a setting of the copy task, the same for every command."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from phasetheory.copytask import Setting

_OPTIONS = (
    click.option("-L", "length", type=int, help="Sequence length.  [default: 64]"),
    click.option("-V", "symbols", type=int, help="Number of token symbols.  [default: 16]"),
    click.option(
        "--kappa", type=float, help="Ridge, or temperature of the posterior.  [default: 1]"
    ),
    click.option(
        "--var-g", type=float, help="Prior variance of the attention logits.  [default: 1]"
    ),
    click.option("--var-w", type=float, help="Prior variance of the entries of W.  [default: 1]"),
    click.option("--ones", type=int, help="Number of tokens that the target sums.  [default: 1]"),
    click.option(
        "-N",
        "--head-dimension",
        type=int,
        help="Head dimension; theory: level map.  [default: infinite]",
    ),
    click.option(
        "--tokens",
        metavar="uniform|zipf:EXPONENT|FILE",
        help="Probabilities of the symbols; FILE holds counts, one a line.  [default: uniform]",
    ),
)


def setting_options(command: Callable) -> Callable:
    """Add the options of a setting to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_setting(given: dict[str, Any]) -> "Setting":
    """The setting that the options name; what is not given has its default.

    Raises:
        InputError: naming the value that is out of range, or the file that cannot be read.
    """
    from phasetheory.copytask import Setting, parse_tokens

    names = {"length": "L", "symbols": "V"}
    values: dict[str, Any] = {
        str(names.get(name, name)): value for name, value in given.items() if value is not None
    }
    tokens = parse_tokens(values.get("tokens", "uniform"), values.get("V"))
    if tokens is not None:
        values["V"] = len(tokens)
    return Setting(**{**values, "tokens": tokens})
