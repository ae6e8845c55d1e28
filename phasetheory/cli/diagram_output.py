"""Planning and running a diagram, its JSON, tables and files."""

import math
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from phasetheory.cli.terminal import console, progress, table
from phasetheory.errors import InputError
from phasetheory.files import write_atomically, write_json
from phasetheory.landscape.diagram import ORDERS, LineEnd, brackets, solve_end, with_parameters
from phasetheory.landscape.own import landscape_from_text, read_text
from phasetheory.sweeps import Plan, Result, Status, load, run

ATTENTIONS = ("linear", "softmax")
RESULTS = (
    Result("order", "index in " + ", ".join(ORDERS), "int8"),
    Result("control", "control at the transition, or at the crossover"),
    Result("error", "bound on the numerical error of the control"),
    Result("jump", "of the order parameter"),
    Result("spinodal_low", "control at which the high phase appears", optional=True),
    Result("spinodal_high", "control at which the low phase vanishes", optional=True),
    Result("barrier", "action of the saddle above both phases, in nats", optional=True),
)


@dataclass(frozen=True)
class Diagram:
    """A finished diagram: its points as labelled arrays, and the ends of its lines."""

    title: str
    control: str
    points: xr.Dataset
    ends: tuple[LineEnd, ...]
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; what is not known is null."""

        def plain(value):
            value = value.item() if hasattr(value, "item") else value
            return None if isinstance(value, float) and not math.isfinite(value) else value

        axes = {str(n): self.points[n].values.tolist() for n in self.points.dims}
        flat = {str(name): self.points[name].values.ravel() for name in self.points.data_vars}
        grid = np.meshgrid(*axes.values(), indexing="ij")
        rows = [
            {
                **{name: float(column.ravel()[i]) for name, column in zip(axes, grid, strict=True)},
                **{name: plain(values[i]) for name, values in flat.items()},
                "order": ORDERS[int(flat["order"][i])],
                "status": Status(int(flat["status"][i])).name,
            }
            for i in range(len(flat["order"]))
        ]
        return {
            "schema": 1,
            "name": self.title,
            "control": self.control,
            "axes": axes,
            "points": rows,
            "ends": [asdict(end) for end in self.ends],
            "problems": list(self.problems),
            "versions": {n: metadata.version(n) for n in ("phasetheory", "jax", "numpy")},
        }


def work(target, axes, given, level, folder, with_ends, workers, scheduler, read_setting):
    """Run the sweep of a diagram and solve for its ends; the result and the files written."""
    plan, title, control, family = _plan(target, axes, given, level, read_setting)
    with ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bar = stack.enter_context(progress("points"))
        done = [0]

        def advance(now: int, total: int) -> None:
            bar(now - done[0], total)
            done[0] = now

        run(plan, home / "diagram.zarr", scheduler=scheduler, workers=workers, progress=advance)
        points = load(home / "diagram.zarr")
    problems = _problems(points)
    ends: list[LineEnd] = []
    if with_ends:
        with progress("ends of lines") as advance_ends:
            found, wrong = family(points, advance_ends)
            ends, problems = found, problems + wrong
    result = Diagram(title, control, points, tuple(ends), tuple(problems))
    files = []
    if folder is not None:
        from phasetheory.figures.diagram import diagram_figure, diagram_page
        from phasetheory.figures.phases import save_figure

        write_json(folder / "diagram.json", result.as_json())
        files = [
            folder / "diagram.zarr",
            folder / "diagram.json",
            *save_figure(diagram_figure(result), folder, "diagram"),
        ]
        write_atomically(folder / "diagram.html", diagram_page(result))
        files.append(folder / "diagram.html")
    return result, files


def _problems(points: xr.Dataset) -> list[str]:
    """A sentence for each kind of point whose result is not known."""
    status = points["status"].values
    found = []
    for kind in (Status.undetermined, Status.failed):
        count = int((status == kind).sum())
        if count:
            first = next(iter(points.attrs["failures"].values()), "")
            what = f", for example: {first}" if kind == Status.failed and first else ""
            found.append(f"{count} of {status.size} points are {kind.name}{what}")
    return found


def _plan(target, axes, given, level, read_setting):
    """(plan, title, control, function that solves for the ends)."""
    if target in ATTENTIONS:
        return _copy_task(target, axes, given, level or "tree", read_setting)
    options = [n for n, v in {**given, "level": level}.items() if v is not None]
    if options:
        raise InputError(
            f"--{options[0].replace('_', '-')} belongs to linear and softmax; {target} is a file"
        )
    text, name = read_text(Path(target)), Path(target).stem
    base = landscape_from_text(text, name, source=target)
    with_parameters(base, {axis: values[0] for axis, values in axes})
    plan = Plan(
        tuple(axes),
        "phasetheory.landscape.diagram:transition_points",
        RESULTS,
        {"text": text, "name": name},
        batch=4,
    )

    def ends(points, advance):
        def family(fixed, parameter):
            return lambda p: with_parameters(base, {**fixed, parameter: p})

        return _one_by_one(points, axes, family, advance)

    return plan, base.name, base.control, ends


def _copy_task(attention, axes, given, level, read_setting):
    from phasetheory.copytask import Setting, landscape
    from phasetheory.copytask.diagram import WHOLE, line_ends, settings_at
    from phasetheory.copytask.thresholds import BATCHED_LEVELS, QUANTITIES

    setting = read_setting(given)
    axes = [
        (n, tuple(sorted({float(round(v)) for v in values})) if n in WHOLE else values)
        for n, values in axes
    ]
    for n, values in axes:  # complains about names and values out of range
        for value in (values[0], values[-1]):
            settings_at({n: np.array([value])}, setting)
    landscape(attention, setting, level)
    batched = level in BATCHED_LEVELS and setting.plain and all(n in AXES_PLAIN for n, _ in axes)
    plan = Plan(
        tuple(axes),
        "phasetheory.copytask.diagram:transition_points",
        RESULTS,
        {
            "attention": attention,
            "level": level,
            "quantity": QUANTITIES[attention][0],
            "setting": asdict(setting),
        },
        batch=512 if batched else 1,
    )
    title = f"{attention} attention, level {level}"
    fixed = {n: getattr(setting, n) for n in ("L", "V", "kappa", "var_g", "var_w")}
    varied = [n for n, _ in axes]
    shown = ", ".join(f"{n} = {v:g}" for n, v in fixed.items() if n not in varied)

    def ends(points, advance):
        if attention == "linear" and batched:
            return [], []  # its onset is of second order everywhere
        along = next((n for n, _ in reversed(axes) if n not in WHOLE), None)
        if along is None:
            return [], []

        def at_point(values: dict[str, float]) -> Setting:
            columns = {n: np.array([v]) for n, v in values.items()}
            return settings_at(columns, setting)[0] if columns else setting

        if not batched:
            control = points["control"].values
            between = (float(np.nanmin(control)) / 4, float(np.nanmax(control)) * 4)

            def family(at, parameter):
                return lambda p: landscape(
                    attention, at_point({**at, parameter: p}), level, between
                )

            return _one_by_one(points, axes, family, advance)
        others = [n for n in varied if n != along]
        values = np.array(dict(axes)[along])
        order = points["order"].transpose(*others, along).values
        places = brackets(order, values)
        if not places:
            return [], []
        grid = np.meshgrid(*(dict(axes)[n] for n in others), indexing="ij")
        at = [
            {n: float(g.ravel()[i]) for n, g in zip(others, grid, strict=True)} for i, _ in places
        ]
        found = line_ends(
            attention,
            level,
            [at_point(values) for values in at],
            along,
            np.array([[values[k], values[k + 1]] for _, k in places]),
            lambda done, total: advance(1, total),
        )
        return [
            LineEnd(
                "critical end",
                {**a, along: float(found.value[i])},
                along,
                float(found.error[i]),
                float(found.P[i]),
                float(found.P[i] * 1e-6),
            )
            for i, a in enumerate(at)
        ], []

    return plan, f"{title}: {shown}", "P", ends


AXES_PLAIN = ("L", "V", "kappa", "var_g", "var_w")


def _one_by_one(points, axes, family, advance):
    """Ends of lines along the last axis, each solved on its own; and sentences on what failed."""
    along, values = axes[-1]
    others = [n for n, _ in axes[:-1]]
    order = points["order"].transpose(*others, along).values
    places = brackets(order, np.array(values))
    grid = np.meshgrid(*(dict(axes)[n] for n in others), indexing="ij") if others else []
    found, wrong = [], []
    rows = order.reshape(-1, len(values))
    for i, k in places:
        fixed = {n: float(g.ravel()[i]) for n, g in zip(others, grid, strict=True)}
        pair = (ORDERS[int(rows[i, k])], ORDERS[int(rows[i, k + 1])])
        end = solve_end(family(fixed, along), along, (values[k], values[k + 1]), pair, fixed)
        advance(1, len(places))
        (wrong if isinstance(end, str) else found).append(end)
    return found, wrong


def print_diagram(result: Diagram, files: list[Path]) -> None:
    """How many points have which order, the ends of lines, and what was written."""
    out = console()
    out.print(result.title, style="bold")
    order = result.points["order"].values
    counts = table("Points", "order", "points", f"{result.control} from", "to")
    for code, name in enumerate(ORDERS):
        where = order == code
        if where.any():
            control = result.points["control"].values[where]
            known = control[np.isfinite(control)]
            ends = [f"{v:.6g}" for v in (known.min(), known.max())] if known.size else ["–", "–"]
            counts.add_row(name, str(int(where.sum())), *ends)
    out.print(counts)
    if result.ends:
        names = list(result.ends[0].at)
        shown = table("Ends of lines", "what", *names, "± error", result.control, "± error")
        for end in result.ends[:40]:
            shown.add_row(
                end.kind,
                *(f"{end.at[n]:.9g}" for n in names),
                f"{end.error:.0e}",
                f"{end.control:.9g}",
                f"{end.control_error:.0e}",
            )
        out.print(shown)
        if len(result.ends) > 40:
            out.print(f"and {len(result.ends) - 40} more, in the JSON")
    for problem in result.problems:
        out.print(f"incomplete: {problem}", style="bold")
    for path in files:
        out.print(f"wrote {path}", soft_wrap=True)
