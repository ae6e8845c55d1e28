"""``phasetheory phases``: all phases and transitions along one control parameter."""

from pathlib import Path
from typing import Any

import click

from phasetheory.cli.parsing import parse_numbers, parse_range
from phasetheory.errors import InputError
from phasetheory.files import check_file, output_folder, write_json

ATTENTIONS = ("linear", "softmax")


@click.command()
@click.argument("target", metavar="(linear|softmax|FILE.toml)")
@click.option("-L", "length", type=int, help="Sequence length.  [default: 64]")
@click.option("-V", "symbols", type=int, help="Number of token symbols.  [default: 16]")
@click.option("--kappa", type=float, help="Ridge, or temperature of the posterior.  [default: 1]")
@click.option("--var-g", type=float, help="Prior variance of the attention logits.  [default: 1]")
@click.option("--var-w", type=float, help="Prior variance of the entries of W.  [default: 1]")
@click.option("--ones", type=int, help="Number of tokens that the target sums.  [default: 1]")
@click.option(
    "-N", "--head-dimension", type=int, help="Head dimension, at level map.  [default: infinite]"
)
@click.option(
    "--tokens",
    metavar="uniform|zipf:EXPONENT|FILE",
    help="Probabilities of the symbols; FILE holds counts, one a line.  [default: uniform]",
)
@click.option(
    "--level",
    type=click.Choice(["tree", "map", "meanfield"]),
    help="Level of theory.  [default: tree]",
)
@click.option("--range", "range_", metavar="LO:HI", help="Range of the control parameter.")
@click.option("--at", metavar="P1,P2,…", help="Controls at which to list all minima.")
@click.option("--json", "json_", type=click.Path(path_type=Path), help="File for the result.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for figure and data.")
def phases(target, range_, at, json_, out, **setting) -> int:
    """Find all phases of an action along its control parameter, and every transition.

    TARGET is linear or softmax (the copy task; the control is P, the number of training sequences),
    or a TOML file with an action of your own.
    """
    range_ = parse_range(range_) if range_ is not None else None
    controls = parse_numbers(at, "--at") if at is not None else []
    with output_folder(out) as folder:
        check_file(json_)
        landscape, tokens = _landscape(target, range_, setting)
        _check_inside(controls, landscape)
        from phasetheory.cli.phases_output import as_json, print_report
        from phasetheory.landscape.phases import find_phases, states_at

        report = find_phases(landscape)
        equilibrium = [states_at(report, control) for control in controls]
        document = as_json(report, equilibrium)
        if tokens is not None:
            document["tokens"] = list(tokens)
        if json_ is not None:
            write_json(json_, document)
        files = []
        if folder is not None:
            from phasetheory.figures.phases import observables_figure, phases_figure, save_figure

            write_json(folder / "phases.json", document)
            files = [folder / "phases.json", *save_figure(phases_figure(report), folder, "phases")]
            observables = observables_figure(report)
            if observables is not None:
                files += save_figure(observables, folder, "observables")
        print_report(report, equilibrium, [*([json_] if json_ else []), *files])
    return 0 if report.status == "complete" else 1


def _landscape(target: str, range_, setting: dict):
    """The landscape, and the probabilities of its symbols where they are not uniform."""
    given = {name: value for name, value in setting.items() if value is not None}
    if target in ATTENTIONS:
        from phasetheory.copytask import Setting, landscape, parse_tokens

        names = {"length": "L", "symbols": "V"}
        level = given.pop("level", "tree")
        values: dict[str, Any] = {
            str(names.get(name, name)): value for name, value in given.items()
        }
        tokens = parse_tokens(values.get("tokens", "uniform"), values.get("V"))
        if tokens is not None:
            values["V"] = len(tokens)
        task = Setting(**{**values, "tokens": tokens})
        return landscape(target, task, level, range_), tokens
    if given:
        option = {"length": "-L", "symbols": "-V"}.get(next(iter(given)))
        option = option or f"--{next(iter(given)).replace('_', '-')}"
        raise InputError(f"{option} belongs to linear and softmax; {target} is read as a file")
    from phasetheory.landscape.own import load_landscape

    return load_landscape(Path(target), range_), None


def _check_inside(controls, landscape) -> None:
    low, high = landscape.control_range
    for control in controls:
        if not low <= control <= high:
            raise InputError(
                f"--at {control:g} lies outside the range of {landscape.control}, "
                f"{low:g} to {high:g}; give a wider --range"
            )
