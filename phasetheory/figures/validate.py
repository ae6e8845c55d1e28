"""The figure of `phasetheory validate`: theory as lines, measurements as points."""

from collections.abc import Iterator
from dataclasses import replace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from phasetheory.agreement.report import Agreement, JudgedRow, compared_names
from phasetheory.agreement.theory import Level, as_measured
from phasetheory.figures.phases import _label, _legend, _mark_transitions, _pieces
from phasetheory.landscape.model import PhaseReport

#: dark to light, so that the levels stay apart in greyscale
_LEVELS = {"meanfield": "#0b3954", "tree": "#66a182", "map": "#edae49"}
_LOSSES = {"train_loss": "#0b3954", "test_loss": "#d1495b"}
#: marker and filling of each start
_STARTS = {
    "prior": ("o", "white"),
    "small": ("p", "white"),
    "copy": ("s", "black"),
    "all": ("D", "0.6"),
    "up": ("^", "white"),
    "down": ("v", "black"),
    "lowest": ("D", "0.6"),
}
_MEANINGS = {
    "prior": "from the prior",
    "small": "from small weights",
    "copy": "from the copy state",
    "all": "measured (all starts)",
    "up": "upwards",
    "down": "downwards",
    "lowest": "lowest minimum of Adam",
}
#: space beside the first and the last P, as a factor
_MARGIN = 1.3


def validate_figure(result: Agreement) -> Figure:
    """Order parameters, losses and, for samplers, variances of the order parameters against P.

    Lines: theory, the level of the comparison thickest; solid: equilibrium, dashed: metastable.
    Points: measured, with one standard error; one marker for each start.
    """
    measurement = result.measurement
    names = [n for n in compared_names(measurement, result.compared) if n not in ("q", "c_1")]
    sampled = measurement.method != "adam"
    count = len(names) + 1 + sampled
    figure, axes = plt.subplots(
        count, 1, sharex=True, figsize=(7.2, 2.6 * count + 1.2), layout="constrained"
    )
    for name, axis in zip(names, axes, strict=False):
        for level in sorted(result.levels, key=lambda x: x.name == result.level):
            _order_parameter(result, level, name, axis)
        _dropped(result, name, axis)
        _points(result, name, axis, "black")
        axis.set_ylim(*_heights(result, name))
        axis.set_ylabel(_label(name))
    _losses(result, axes[len(names)])
    if sampled:
        _variances(result, names, axes[-1])
    report = _visible(result)
    if report is not None:
        _mark_transitions(report, axes[0], *axes[1:])
    axes[-1].set_xscale("log")
    axes[-1].set_xlim(*_limits(result))
    _plain_ticks(axes[-1], measurement.P)
    axes[-1].set_xlabel("P (number of training sequences)")
    axes[0].set_title(_title(result), fontsize=10)
    figure.legend(
        handles=_handles(result, report),
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        frameon=False,
    )
    return figure


def _limits(result: Agreement) -> tuple[float, float]:
    P = result.measurement.P
    return P[0] / _MARGIN, P[-1] * _MARGIN


def _visible(result: Agreement) -> PhaseReport | None:
    """The report of the compared level, without what lies outside the figure."""
    level = result.compared
    if level is None or level.report is None:
        return None
    low, high = _limits(result)
    report = level.report
    return replace(
        report,
        transitions=tuple(t for t in report.transitions if low <= t.control <= high),
        crossovers=tuple(c for c in report.crossovers if low <= c.control <= high),
    )


def _curves(result: Agreement, level: Level, column) -> Iterator[tuple]:
    """P, values and stability of the pieces of all branches, cut to the figure.

    Args:
        column: phase -> values along its branch, shape (N,).
    """
    if level.report is None:
        return
    low, high = _limits(result)
    for phase in level.report.phases:
        for u, values, stable in _pieces(level.report, phase, column(phase)[:, None]):
            inside = u[(u > low) & (u < high)]
            edges = [max(low, u[0]), *inside, min(high, u[-1])]
            if edges[0] < edges[-1]:
                yield edges, np.interp(edges, u, values[:, 0]), stable


def _measured_column(result: Agreement, level: Level, name: str, variance: bool):
    """Values along a branch as networks are measured."""
    assert level.report is not None
    names = level.report.landscape.order_parameters
    place = names.index(name)
    # of Adam nothing fluctuates, whatever the level
    kind = "map" if result.measurement.method == "adam" else level.name

    def column(phase):
        pair = as_measured(kind, names, phase.order_parameters, phase.susceptibility)
        return pair[1 if variance else 0][:, place]

    return column


def _order_parameter(result: Agreement, level: Level, name: str, axis) -> None:
    if level.report is None or name not in level.report.landscape.order_parameters:
        return
    main = level.name == result.level
    for u, values, stable in _curves(
        result, level, _measured_column(result, level, name, variance=False)
    ):
        axis.plot(
            u,
            values,
            color=_LEVELS[level.name],
            linestyle="-" if stable else "--",
            linewidth=2.4 if main else 1.2,
        )


def _heights(result: Agreement, name: str) -> tuple[float, float]:
    """The range of an order parameter: that of its minima and of what was measured. The mean of
    ``x sign(alpha)`` diverges with the susceptibility at a continuous transition and is cut off.
    """
    values = [0.0]
    for level in result.levels:
        if level.report is not None and name in level.report.landscape.order_parameters:
            place = level.report.landscape.order_parameters.index(name)
            for _, y, _ in _curves(result, level, lambda p, k=place: p.order_parameters[:, k]):
                values += [y.min(), y.max()]
    for judged in result.rows:
        value = judged.row.values.get(name)
        if value is not None:
            error = value.error if np.isfinite(value.error) else 0.0
            values += [value.mean - error, value.mean + error]
    values += [d.run.observables[name] for d in result.dropped if d.run.converged]
    margin = 0.08 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin


def _points(result: Agreement, name: str, axis, colour: str, variance: bool = False) -> None:
    """Measured values with one standard error; crossed out where they have not converged."""
    for judged in result.rows:
        value = judged.row.values.get(name)
        if value is None:
            continue
        y, error = (value.variance, value.variance_error) if variance else (value.mean, value.error)
        if y is None:
            continue
        marker, filling = _STARTS[judged.row.start]
        axis.errorbar(
            judged.row.P,
            y,
            yerr=error if error is not None and np.isfinite(error) else None,
            marker=marker,
            markersize=6,
            color=colour,
            markerfacecolor=colour if filling == "black" else filling,
            capsize=3,
            linewidth=1.2,
            zorder=3,
        )
        if _unconverged(judged, name):
            axis.plot(judged.row.P, y, "x", color="black", markersize=10, zorder=4)


def _unconverged(judged: JudgedRow, name: str) -> bool:
    value = judged.row.values.get(name)
    return bool(judged.row.trouble or (value is not None and value.trouble))


def _dropped(result: Agreement, name: str, axis) -> None:
    found = [d.run for d in result.dropped if d.run.converged]
    axis.plot(
        [run.P for run in found],
        [run.observables[name] for run in found],
        linestyle="none",
        marker="o",
        markersize=3,
        color="0.5",
    )


def _losses(result: Agreement, axis) -> None:
    level = result.compared
    handles = []
    for name, colour in _LOSSES.items():
        if level is not None and level.report is not None:
            names = level.report.landscape.observables
            theory = name if name in names else f"{name}_mean"
            place = names.index(theory)
            for u, values, stable in _curves(result, level, lambda p, k=place: p.observables[:, k]):
                axis.plot(u, values, color=colour, linestyle="-" if stable else "--", linewidth=1.6)
        _points(result, name, axis, colour)
        handles.append(Line2D([], [], color=colour, label=name.replace("_", " ")))
    axis.set_ylabel("loss per position")
    axis.legend(handles=handles, fontsize=8, frameon=False, loc="best")


def _variances(result: Agreement, names: list[str], axis) -> None:
    level = result.compared
    colours = dict(zip(names, _LOSSES.values(), strict=False))
    for name, colour in colours.items():
        if level is not None and level.report is not None:
            for u, values, stable in _curves(
                result, level, _measured_column(result, level, name, variance=True)
            ):
                style = "-" if stable else "--"
                axis.plot(u, values, color=colour, linestyle=style, linewidth=1.6)
        _points(result, name, axis, colour, variance=True)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    known = [
        v.variance
        for judged in result.rows
        for v in map(judged.row.values.get, names)
        if v is not None and v.variance
    ]
    if known:  # the divergence at a continuous transition would take all the room
        axis.set_ylim(max(low, min(known) / 20), min(high, max(known) * 20))
    axis.set_ylabel("variance over samples")
    handles = [Line2D([], [], color=c, label=f"var {_label(n)}") for n, c in colours.items()]
    axis.legend(handles=handles, fontsize=8, frameon=False, loc="best")


def _plain_ticks(axis, P) -> None:
    """The measured P as ticks; those without room for their number have none."""
    low, high = axis.get_xlim()
    labels, last = [], -np.inf
    for p in P:
        place = np.log(p / low) / np.log(high / low)
        room = place - last >= 0.012 * (len(str(p)) + 2)
        labels.append(str(p) if room else "")
        last = place if room else last
    axis.set_xticks(P, labels)
    axis.set_xticks([], minor=True)


def _handles(result: Agreement, report: PhaseReport | None) -> list[Line2D]:
    handles = []
    for name, colour in _LEVELS.items():
        if any(level.name == name and level.report is not None for level in result.levels):
            main = name == result.level
            text = f"theory, {name}" + (" (compared)" if main else "")
            handles.append(Line2D([], [], color=colour, linewidth=2.4 if main else 1.2, label=text))
    if report is not None:
        handles += _legend(report)
    for start in dict.fromkeys(judged.row.start for judged in result.rows):
        marker, filling = _STARTS[start]
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker=marker,
                color="black",
                markerfacecolor=filling,
                label=_MEANINGS[start],
            )
        )
    if any(d.run.converged for d in result.dropped):
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                markersize=3,
                color="0.5",
                label="other minima of Adam",
            )
        )
    if any(judged.verdict == "not converged" for judged in result.rows):
        handles.append(
            Line2D([], [], linestyle="none", marker="x", color="black", label="not converged")
        )
    return handles


def _title(result: Agreement) -> str:
    m = result.measurement
    s = m.setting
    sizes = f"L = {s.L}, V = {s.V}, kappa = {s.kappa:.4g}, var_g = {s.var_g:.4g}, "
    return f"{m.attention} attention, {m.method} beside theory\n{sizes}var_w = {s.var_w:.4g}"
