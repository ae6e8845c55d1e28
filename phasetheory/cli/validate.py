"""``phasetheory validate``: theory beside sampled or trained networks."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from phasetheory.cli.parsing import parse_numbers
from phasetheory.cli.setting import read_setting, setting_options
from phasetheory.errors import InputError
from phasetheory.files import check_file, output_folder, write_atomically, write_json

if TYPE_CHECKING:
    from phasetheory.agreement import Agreement, Measurement


@click.command()
@click.argument("attention", type=click.Choice(["linear", "softmax"]), metavar="(linear|softmax)")
@setting_options
@click.option(
    "--P", "sequences", required=True, metavar="P1,P2,…", help="Numbers of training sequences."
)
@click.option(
    "--method",
    type=click.Choice(["hmc", "langevin", "sgld", "adam"]),
    default="hmc",
    show_default=True,
    help="How networks are sampled, or trained.",
)
@click.option(
    "--chains",
    type=int,
    default=8,
    show_default=True,
    help="Chains, or runs of Adam, on each data set.",
)
@click.option("--draws", type=int, help="Records of each chain.  [default: 1000]")
@click.option("--warmup", type=int, help="Records before those.  [default: 300]")
@click.option("--datasets", type=int, default=4, show_default=True, help="Data sets at each P.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of data, starts and noise.")
@click.option(
    "--starts", metavar="START,…", help="Among prior, small, copy.  [default: prior,copy]"
)
@click.option(
    "--hysteresis",
    is_flag=True,
    help="Run P upwards and downwards, each from the chains of the one before.",
)
@click.option("--no-wrap", is_flag=True, help="Positions on a line, the first ones not predicted.")
@click.option(
    "--tolerance",
    type=float,
    default=5.0,
    show_default=True,
    help="Difference in percent that still counts as agreement.",
)
@click.option("--budget", type=float, help="Seconds for the measurement.  [default: no limit]")
@click.option("--resume", is_flag=True, help="Go on from the checkpoints in the --out folder.")
@click.option("--json", "json_", type=click.Path(path_type=Path), help="File for the result.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for report, figure and data.")
def validate(
    attention,
    sequences,
    method,
    chains,
    draws,
    warmup,
    datasets,
    seed,
    starts,
    hysteresis,
    no_wrap,
    tolerance,
    budget,
    resume,
    json_,
    out,
    **setting,
) -> int:
    """Hold the theory against networks that are sampled (hmc, langevin, sgld) or trained (adam).

    Each order parameter gets a verdict. Samplers are compared with the level meanfield, Adam with
    the level map. Exit status 1 if anything disagrees or has not converged.
    """
    P = _whole_numbers(sequences)
    _check_positive("--budget", budget)
    _check_positive("--tolerance", tolerance)
    for option, value in (("--draws", draws), ("--warmup", warmup)):
        if method == "adam" and value is not None:
            raise InputError(f"{option} belongs to the samplers hmc, langevin and sgld")
    if hysteresis and starts is not None:
        raise InputError("--hysteresis has its own starts; leave out --starts")
    if resume and out is None:
        raise InputError("--resume needs --out, the folder that holds the checkpoints")
    with output_folder(out) as folder:
        check_file(json_)
        from phasetheory.agreement import Measurement, agreement
        from phasetheory.cli.validate_output import as_json, print_report

        measurement = Measurement(
            attention=attention,
            setting=read_setting(setting),
            P=P,
            cyclic=not no_wrap,
            method=method,
            chains=chains,
            warmup=300 if warmup is None else warmup,
            draws=1000 if draws is None else draws,
            datasets=datasets,
            seed=seed,
            starts=_names(starts) if starts is not None else ("prior", "copy"),
            hysteresis=hysteresis,
        )
        checkpoint = _checkpoints(folder, measurement, resume)
        begun = time.monotonic()
        levels = _theory(measurement)
        solved = time.monotonic()
        rows, interrupted = _measure(measurement, checkpoint, budget)
        result = agreement(measurement, levels, rows, tolerance / 100, not interrupted)
        timing = {
            "theory_s": solved - begun,
            "measurement_s": time.monotonic() - solved,
            "rows_s": [row.seconds for row in rows],
        }
        document = {**as_json(result), "timing": timing}
        files = [] if json_ is None else [json_]
        if json_ is not None:
            write_json(json_, document)
        if folder is not None:
            files += _write(folder, result, document)
        print_report(result, files)
    if interrupted:
        how = "go on with --resume" if out is not None else "give --out to be able to go on later"
        done = f"{len(rows)} rows are done" if len(rows) != 1 else "one row is done"
        click.echo(f"phasetheory: interrupted; {done}, {how}", err=True)
        return 130
    return 1 if result.failed else 0


def _whole_numbers(text: str) -> tuple[int, ...]:
    found = parse_numbers(text, "--P")
    for value in found:
        if value != int(value):
            raise InputError(f"each value of --P must be a whole number, not {value:g}")
    return tuple(sorted({int(value) for value in found}))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _check_positive(option: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError(f"{option} must be a positive number, not {value:g}")


def _theory(measurement: "Measurement"):
    from phasetheory.agreement.theory import LEVELS, theory_levels
    from phasetheory.cli.terminal import progress

    with progress("levels of theory") as advance:
        begun = []

        def tell(name: str) -> None:
            advance(bool(begun), len(LEVELS))
            begun.append(name)

        return theory_levels(measurement.attention, measurement.setting, measurement.P, tell)


def _measure(measurement: "Measurement", checkpoint, budget: float | None):
    """Rows, as many as there were before an interrupt, and whether there was one."""
    from phasetheory.agreement import measure
    from phasetheory.cli.terminal import progress

    rows, done = [], 0.0

    def tell(share: float) -> None:
        nonlocal done
        advance(share - done, 1.0)
        done = share

    try:
        with progress(f"networks ({measurement.method})") as advance:
            for found in measure(
                measurement,
                checkpoint=checkpoint,
                progress=tell,
                budget=math.inf if budget is None else budget,
            ):
                rows += found
    except KeyboardInterrupt:
        return rows, True
    return rows, False


def _checkpoints(
    folder: Path | None, measurement: "Measurement", resume: bool
) -> Callable[[str], Path | None]:
    """Where runs keep their states: what is there is gone on from, or cleared away.

    Raises:
        InputError: if it belongs to other settings, or cannot be read.
    """
    if folder is None:
        return lambda name: None
    place = folder / "checkpoints"
    run, settings = place / "run.json", json.loads(json.dumps(measurement.settings()))
    if resume and run.exists():
        _check_same(_read(run), settings, place)
    try:
        place.mkdir(exist_ok=True)
        # what a killed run was writing, and all of it where this one starts anew
        stale = [*place.glob(".phasetheory-*"), *folder.glob(".phasetheory-*")]
        if not (resume and run.exists()):
            stale += [run, *place.glob("P*.npz")]
        for path in stale:
            path.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot use the folder {place}: {reason}") from None
    write_json(run, settings)
    return lambda name: place / f"{name}.npz"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the checkpoint {path}: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"cannot read the checkpoint {path}: it holds no settings")
    return found


def _check_same(found: dict[str, Any], wanted: dict[str, Any], place: Path) -> None:
    def flat(values: dict[str, Any]) -> dict[str, Any]:
        inner = values.get("setting")
        return {**values, **inner, "setting": None} if isinstance(inner, dict) else values

    old, new = flat(found), flat(wanted)
    names = [n for n in dict.fromkeys([*new, *old]) if old.get(n) != new.get(n)]
    if names:
        raise InputError(
            f"the checkpoints in {place} belong to a run with other {', '.join(names)}; give the "
            "same settings, another folder, or leave out --resume to start anew"
        )


def _write(folder: Path, result: "Agreement", document: dict[str, Any]) -> list[Path]:
    from phasetheory.cli.validate_output import as_html
    from phasetheory.figures.phases import save_figure
    from phasetheory.figures.validate import validate_figure

    write_json(folder / "validate.json", document)
    figures = save_figure(validate_figure(result), folder, "validate")
    page = as_html(result, document, figures[0].read_bytes())
    write_atomically(folder / "report.html", page)
    return [folder / "validate.json", *figures, folder / "report.html"]
