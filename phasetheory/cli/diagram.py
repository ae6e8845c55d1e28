"""``phasetheory diagram``: the transition over parameters, with the ends of its lines."""

from pathlib import Path

import click

from phasetheory.cli.parsing import parse_axis
from phasetheory.cli.setting import read_setting, setting_options
from phasetheory.errors import InputError
from phasetheory.files import check_file, output_folder, write_json


@click.command()
@click.argument("target", metavar="(linear|softmax|FILE.toml)")
@click.option(
    "--x", metavar="NAME=LO:HI:logN", required=True, help="First axis; also linN or a list."
)
@click.option("--y", metavar="NAME=LO:HI:logN", help="Second axis.")
@click.option("--z", metavar="NAME=LO:HI:logN", help="Third axis: one panel for each value.")
@setting_options
@click.option(
    "--level",
    type=click.Choice(["tree", "map", "meanfield"]),
    help="Level of theory.  [default: tree]",
)
@click.option("--no-ends", is_flag=True, help="Do not solve for the ends of lines.")
@click.option("--workers", type=int, default=0, help="Local worker processes.  [default: none]")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="A Dask cluster to run on.")
@click.option("--json", "json_", type=click.Path(path_type=Path), help="File for the result.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for store, figures and data.")
def diagram(target, x, y, z, level, no_ends, workers, scheduler, json_, out, **given) -> int:
    """Map the transition of an action over its parameters.

    For each point: the order, where it is, the jump, spinodals and barrier. Ends of first-order
    lines are solved for, not read off the grid. With --out the points are kept in a store: the same
    command goes on after an interruption, and a longer axis extends it.
    """
    axes = [
        parse_axis(text, option)
        for option, text in (("--x", x), ("--y", y), ("--z", z))
        if text is not None
    ]
    if z is not None and y is None:
        raise InputError("--z needs --y")
    if workers < 0:
        raise InputError(f"--workers must be 0 or more, not {workers}")
    if workers and scheduler:
        raise InputError("--workers starts a cluster and --scheduler names one: give one of them")
    with output_folder(out) as folder:
        check_file(json_)
        from phasetheory.cli.diagram_output import print_diagram, work

        result, files = work(
            target, axes, given, level, folder, not no_ends, workers, scheduler, read_setting
        )
        document = result.as_json()
        if json_ is not None:
            write_json(json_, document)
            files = [json_, *files]
        print_diagram(result, files)
    return 0 if result.complete else 1
