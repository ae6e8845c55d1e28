"""The figure of `phasetheory phases`: order parameters and action along the control."""

import io
import warnings
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phasetheory.landscape.model import Phase, PhaseReport

# dark to light, so that the lines stay apart in greyscale; markers tell them apart besides
_STYLES = (("#0b3954", "o"), ("#d1495b", "s"), ("#66a182", "^"), ("#edae49", "D"))


def phases_figure(report: PhaseReport) -> Figure:
    """Order parameters (top) and action above the equilibrium's (bottom) against the control.

    Solid: the global minimum; dashed: metastable. Vertical lines: transitions (solid, with order)
    and their spinodals (dotted); triangles on the axis: crossovers.
    """
    landscape = report.landscape
    shown = landscape.primary_parameters
    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(7.2, 6.0), height_ratios=[3, 2], layout="constrained"
    )
    for name, (colour, marker) in zip(shown, _cycle(len(shown)), strict=True):
        k = landscape.order_parameters.index(name)
        for phase in report.phases:
            for u, values, stable in _pieces(report, phase, phase.order_parameters):
                _plot_piece(top, u, values[:, k], colour, marker, stable)
    for phase in report.phases:
        u = np.union1d(phase.control, [t.control for t in report.transitions])
        u = u[(u >= phase.control[0]) & (u <= phase.control[-1])]
        gap = np.interp(u, phase.control, phase.action) - _lowest(report, u)
        bottom.plot(u, gap, color="0.25", linewidth=1.4)
        label = bottom.annotate(
            phase.id,
            (u[len(u) // 2], gap[len(u) // 2]),
            textcoords="offset points",
            xytext=(4, 4),
            fontsize=9,
            annotation_clip=True,
        )
        label.set_in_layout(False)
    _mark_transitions(report, top, bottom)
    handles = _handles([_label(name) for name in shown]) + _legend(report)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    top.set_ylabel("order parameter")
    bottom.set_ylabel("action − equilibrium (nats)")
    _limit_gap(report, bottom)
    _title_and_control(report, top, bottom)
    return figure


def observables_figure(report: PhaseReport) -> Figure | None:
    """Losses (top) and variances of the order parameters (bottom) against the control.

    The variances are the action's susceptibility: they diverge at a second-order transition and
    stay finite at a first-order one. None where the landscape has no observables.
    """
    landscape = report.landscape
    losses = [name for name in landscape.observables if "loss" in name]
    if not losses:
        return None
    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(7.2, 6.0), height_ratios=[3, 3], layout="constrained"
    )
    measured = landscape.jump_parameters
    for phase in report.phases:
        columns = [phase.observables[:, landscape.observables.index(name)] for name in losses]
        columns += [
            phase.susceptibility[:, k, k] for k in map(landscape.order_parameters.index, measured)
        ]
        styles = _cycle(len(losses)) + _cycle(len(measured))
        for u, values, stable in _pieces(report, phase, np.stack(columns, axis=1)):
            for k, (colour, marker) in enumerate(styles):
                axis = top if k < len(losses) else bottom
                _plot_piece(axis, u, values[:, k], colour, marker, stable)
    _mark_transitions(report, top, bottom)
    for axis, labels in (
        (top, [name.replace("_", " ") for name in losses]),
        (bottom, [f"var {_label(name)}" for name in measured]),
    ):
        axis.legend(handles=_handles(labels), fontsize=8, frameon=False, loc="best")
    figure.legend(
        handles=_legend(report), loc="outside lower center", ncols=4, fontsize=9, frameon=False
    )
    top.set_ylabel("loss per position")
    bottom.set_ylabel("variance of order parameter")
    bottom.set_yscale("log")
    _title_and_control(report, top, bottom)
    return figure


def save_figure(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Save a figure as PNG and PDF and close it; returns the files."""
    from phasetheory.files import write_atomically

    files = []
    for suffix in ("png", "pdf"):
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            # a letter that the font lacks is drawn as a box; that is no reason to alarm anybody
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(buffer, format=suffix, dpi=160)
        files.append(folder / f"{stem}.{suffix}")
        write_atomically(files[-1], buffer.getvalue())
    plt.close(figure)
    return files


def _title_and_control(report: PhaseReport, top, bottom) -> None:
    landscape = report.landscape
    top.set_title(_title(report), fontsize=10)
    bottom.set_xlabel(_axis_label(report))
    if landscape.control_scale == "log":
        bottom.set_xscale("log")
    bottom.set_xlim(*landscape.control_range)


def _handles(labels: list[str]) -> list[Line2D]:
    """Legend entries of the lines drawn in the styles of `_cycle`."""
    return [
        Line2D([], [], color=colour, marker=marker, markersize=4, label=label)
        for label, (colour, marker) in zip(labels, _cycle(len(labels)), strict=True)
    ]


def _cycle(count: int):
    return [_STYLES[i % len(_STYLES)] for i in range(count)]


def _plot_piece(axis, u, values, colour, marker, stable: bool) -> None:
    axis.plot(
        u,
        values,
        color=colour,
        linestyle="-" if stable else "--",
        linewidth=2.0 if stable else 1.2,
        marker=marker if stable else None,
        markevery=max(len(u) // 8, 1),
        markersize=4,
    )


def _pieces(report: PhaseReport, phase: Phase, columns: np.ndarray):
    """The branch, cut where it becomes or ceases to be the global minimum.

    Args:
        columns: (N, c) values along the branch.

    Yields (control, values, whether it is the global minimum).
    The cut points themselves are put in by linear interpolation between the nodes of the branch.
    """
    cuts = [(lo, hi) for name, lo, hi in report.equilibrium if name == phase.id]
    low, high = phase.control[0], phase.control[-1]
    edges = sorted({low, high, *(u for cut in cuts for u in cut if low < u < high)})
    for a, b in pairwise(edges):
        inside = phase.control[(phase.control > a) & (phase.control < b)]
        u = np.concatenate([[a], inside, [b]])
        values = [np.interp(u, phase.control, column) for column in columns.T]
        middle = (a + b) / 2
        yield u, np.stack(values, axis=1), any(lo <= middle <= hi for lo, hi in cuts)


def _lowest(report: PhaseReport, control: np.ndarray) -> np.ndarray:
    values = [
        np.interp(control, p.control, p.action, left=np.inf, right=np.inf) for p in report.phases
    ]
    return np.min(values, axis=0)


def _mark_transitions(report: PhaseReport, top, *others) -> None:
    for t in report.transitions:
        for axis in (top, *others):
            axis.axvline(t.control, color="0.35", linewidth=1.0)
            for spinodal in t.spinodals:
                if spinodal is not None:
                    axis.axvline(spinodal, color="0.55", linewidth=1.0, linestyle=":")
        top.annotate(
            _plain(f"{t.order} order\n{report.landscape.control} = {t.control:.6g}"),
            (t.control, 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        )
    places = sorted({c.control for c in report.crossovers})
    if not places:
        return
    top.plot(
        places,
        np.zeros(len(places)),
        linestyle="none",
        marker="v",
        color="0.4",
        markersize=6,
        transform=top.get_xaxis_transform(),
        clip_on=False,
    )


def _legend(report: PhaseReport) -> list[Line2D]:
    handles = [Line2D([], [], color="0.25", linewidth=2.0, label="equilibrium")]
    if len(report.phases) > 1:
        handles.append(Line2D([], [], color="0.25", linestyle="--", label="metastable"))
    if report.transitions:
        handles.append(Line2D([], [], color="0.35", linewidth=1.0, label="transition"))
    if any(s is not None for t in report.transitions for s in t.spinodals):
        handles.append(Line2D([], [], color="0.55", linestyle=":", label="spinodal"))
    if report.crossovers:
        handles.append(Line2D([], [], color="0.4", linestyle="none", marker="v", label="crossover"))
    return handles


def _limit_gap(report: PhaseReport, axis) -> None:
    """Keep the neighbourhood of the transitions in view where a branch rises far above it."""
    gaps = np.concatenate([p.action - _lowest(report, p.control) for p in report.phases])
    barriers = [t.barrier for t in report.transitions if t.barrier]
    high = gaps.max()
    if barriers and high > 10 * max(barriers):
        high = 10 * max(barriers)
    if high > 0:
        axis.set_ylim(-0.05 * high, 1.1 * high)
    else:
        axis.set_ylim(-1, 1)


def _label(name: str) -> str:
    """A name as mathematics where it looks like a symbol with an index, else as it is."""
    head, _, tail = name.partition("_")
    if name.isascii() and len(head) == 1 and (tail.isalnum() or name == head):
        return f"${head}_{{{tail}}}$" if tail else f"${head}$"
    return _plain(name)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")


def _axis_label(report: PhaseReport) -> str:
    name = report.landscape.control
    meaning = " (number of training sequences)" if "attention" in report.landscape.name else ""
    return f"{_label(name)}{meaning}"


def _title(report: PhaseReport) -> str:
    settings = ", ".join(f"{k} = {v:.4g}" for k, v in report.landscape.parameters.items())
    return _plain(report.landscape.name + (f"\n{settings}" if settings else ""))
