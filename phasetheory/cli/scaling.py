"""``phasetheory scaling``: how the thresholds grow with a parameter of the setting."""

from pathlib import Path

import click

from phasetheory.cli.parsing import parse_range
from phasetheory.files import check_file, output_folder, write_json


@click.command()
@click.argument("attention", type=click.Choice(["linear", "softmax"]), metavar="(linear|softmax)")
@click.option(
    "--over",
    required=True,
    type=click.Choice(["L", "V", "kappa", "var_g", "var_w"]),
    help="Parameter along which P is followed.",
)
@click.option("--range", "range_", required=True, metavar="LO:HI", help="Its range.")
@click.option(
    "--level",
    type=click.Choice(["tree", "map", "meanfield"]),
    default="tree",
    show_default=True,
    help="Level of theory.",
)
@click.option(
    "--points", type=int, default=25, show_default=True, help="Points, even in the logarithm."
)
@click.option("-L", "length", type=int, default=64, show_default=True, help="Sequence length.")
@click.option("-V", "symbols", type=int, default=16, show_default=True, help="Token symbols.")
@click.option("--kappa", type=float, default=1.0, show_default=True, help="Ridge, or temperature.")
@click.option(
    "--var-g", type=float, default=1.0, show_default=True, help="Variance of attention logits."
)
@click.option(
    "--var-w", type=float, default=1.0, show_default=True, help="Variance of the entries of W."
)
@click.option("--json", "json_", type=click.Path(path_type=Path), help="File for the result.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for figures and data.")
def scaling(
    attention, over, range_, level, points, length, symbols, kappa, var_g, var_w, json_, out
) -> int:
    """Follow the thresholds P* along a parameter and fit their exponents.

    Beside the numbers stand the closed forms and which cost decides. Linear attention: the onset of
    pooling and the copying crossover; softmax: the first-order transition to copying, or the
    crossover where there is none.
    """
    between = parse_range(range_)
    with output_folder(out) as folder:
        check_file(json_)
        from phasetheory.cli.scaling_output import as_json, print_report
        from phasetheory.cli.terminal import progress
        from phasetheory.copytask.scaling import regime_map, scaling
        from phasetheory.copytask.setting import Setting
        from phasetheory.copytask.thresholds import BATCHED_LEVELS

        setting = Setting(L=length, V=symbols, kappa=kappa, var_g=var_g, var_w=var_w)
        with progress(f"P over {over}") as advance:
            report = scaling(attention, over, between, level, points, setting, advance)
        document = as_json(report)
        files = []
        if folder is not None:
            from phasetheory.figures.phases import save_figure
            from phasetheory.figures.scaling import regime_figure, scaling_figure

            files = save_figure(scaling_figure(report), folder, "scaling")
            if level in BATCHED_LEVELS:
                with progress("costs over L and V") as advance:
                    regimes = regime_map(attention, setting, level, progress=advance)
                files += save_figure(regime_figure(regimes), folder, "regimes")
            write_json(folder / "scaling.json", document)
            files = [folder / "scaling.json", *files]
        if json_ is not None:
            write_json(json_, document)
        print_report(report, [*([json_] if json_ else []), *files])
    return 0 if report.status == "complete" else 1
