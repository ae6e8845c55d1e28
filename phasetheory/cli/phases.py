"""``phasetheory phases``: all phases and transitions along one control parameter."""

from pathlib import Path

import click

from phasetheory.cli.parsing import parse_numbers, parse_range
from phasetheory.cli.setting import read_setting, setting_options
from phasetheory.errors import InputError
from phasetheory.files import check_file, output_folder, write_json

ATTENTIONS = ("linear", "softmax")


@click.command()
@click.argument("target", metavar="(linear|softmax|FILE.toml)")
@setting_options
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
        from phasetheory.copytask import landscape

        level = given.pop("level", "tree")
        task = read_setting(given)
        return landscape(target, task, level, range_), task.tokens
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
