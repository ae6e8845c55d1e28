"""The figures of `phasetheory diagram`: for print, and interactive without a server."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from phasetheory.landscape.diagram import ORDERS

_LABELS = {
    "L": "L (sequence length)",
    "V": "V (number of token symbols)",
    "kappa": r"$\kappa$ (ridge)",
    "var_g": r"$\sigma_g^2$ (prior variance of attention logits)",
    "var_w": r"$\sigma_w^2$ (prior variance of the entries of $W$)",
    "P": "P* (number of training sequences)",
}
#: order, dash and width of lines of transitions; weight before colour, for greyscale
_LINES = {
    "first": ("-", 2.2, "#0b3954"),
    "second": ("--", 2.2, "#0b3954"),
    "crossover": (":", 1.2, "0.45"),
}
_ENDS = {"critical end": "o", "tricritical": "^"}
#: plotly's names
_SYMBOLS = {
    "first": "square",
    "second": "circle",
    "crossover": "triangle-up",
    "tricritical": "star",
    "none": "x",
    "undetermined": "cross",
}


def _log(values) -> bool:
    values = np.asarray(values, float)
    if values.min() <= 0 or len(values) < 3:
        return False
    steps = np.diff(np.log(values))
    return bool(values.max() / values.min() > 8 and steps.max() < 3 * np.median(steps) + 1e-12)


def diagram_figure(result) -> Figure:
    """One axis: transitions in the plane of the axis and the control, with spinodals between which
    two phases compete. Two axes: the control at the transition as shades, hatched where it is a
    crossover, with the line on which first order ends; a third axis gives panels."""
    if len(result.points.dims) == 1:
        return _plane(result)
    return _map(result)


def _plane(result) -> Figure:
    points = result.points
    (name,) = points.dims
    x, order = points[name].values, points["order"].values
    control = points["control"].values
    figure, axes = plt.subplots(figsize=(7.2, 5.0), layout="constrained")
    handles = []
    ends = sorted((end.at[name], end.control, end.kind) for end in result.ends)
    for kind, (dash, width, colour) in _LINES.items():
        code = [ORDERS.index(kind)] + ([ORDERS.index("tricritical")] if kind == "second" else [])
        here = np.isin(order, code)
        if not here.any():
            continue
        xs, ys = list(x[here]), list(control[here])
        for at, u, what in ends:  # lines run to the ends that were solved for
            if kind == "first" or (kind == "second" and what == "tricritical"):
                xs, ys = [*xs, at], [*ys, u]
        place = np.argsort(xs, kind="stable")
        axes.plot(np.array(xs)[place], np.array(ys)[place], dash, lw=width, color=colour)
        label = kind if kind == "crossover" else f"{kind} order"
        handles.append(Line2D([], [], ls=dash, lw=width, color=colour, label=label))
    first = order == ORDERS.index("first")
    if first.any():
        low, high = points["spinodal_low"].values, points["spinodal_high"].values
        lowest, highest = (np.where(first, s, np.nan) for s in (low, high))
        axes.fill_between(x, lowest, highest, color="0.85", lw=0)
        handles.append(Patch(color="0.85", label="between the spinodals"))
    for kind, marker in _ENDS.items():
        seen = [(a, u) for a, u, what in ends if what == kind]
        if seen:
            axes.plot(*zip(*seen, strict=True), marker, color="#d1495b", ms=8, mec="k", zorder=5)
            label = kind if kind == "critical end" else "tricritical point"
            handles.append(
                Line2D([], [], ls="", marker=marker, color="#d1495b", mec="k", label=label)
            )
    if _log(x):
        axes.set_xscale("log")
    known = control[np.isfinite(control)]
    if known.size and _log(np.sort(np.unique(known))):
        axes.set_yscale("log")
    axes.set_xlabel(_LABELS.get(str(name), str(name)))
    axes.set_ylabel(str(_LABELS.get(result.control, result.control)))
    axes.set_title(result.title, fontsize=10)
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _map(result) -> Figure:
    points = result.points
    names = [str(n) for n in points.dims]
    panels = points[names[2]].values if len(names) == 3 else [None]
    control = points["control"].values
    known = control[np.isfinite(control)]
    log = known.size > 0 and known.min() > 0
    norm = (LogNorm if log else Normalize)(known.min(), known.max()) if known.size else None
    figure, grid = plt.subplots(
        1,
        len(panels),
        figsize=(2.0 + 4.6 * len(panels), 4.9),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    mesh = None
    x, y = points[names[0]].values, points[names[1]].values
    for axes, value in zip(grid[0], panels, strict=True):
        here = points if value is None else points.sel({names[2]: value})
        order = here["order"].transpose(names[1], names[0]).values
        shades = here["control"].transpose(names[1], names[0]).values
        mesh = axes.pcolormesh(x, y, shades, norm=norm, cmap="cividis", shading="nearest")
        for kind, hatch in (("crossover", "..."), ("second", "///")):
            where = order == ORDERS.index(kind)
            if where.any() and min(where.shape) > 1:
                axes.contourf(
                    x, y, where.astype(float), levels=[0.5, 1.5], colors="none", hatches=[hatch]
                )
        if known.size and min(shades.shape) > 1:
            lines = (
                axes.contour(x, y, shades, levels=6, colors="w", linewidths=0.6, norm=norm)
                if (np.isfinite(shades).all())
                else None
            )
            if lines is not None:
                axes.clabel(lines, fmt="%.3g", fontsize=7)
        ends = sorted(
            (end.at[names[0]], end.at[names[1]])
            for end in result.ends
            if value is None or np.isclose(end.at[names[2]], value)
        )
        if ends:
            axes.plot(*zip(*ends, strict=True), "o", color="#d1495b", ms=4, mec="k", mew=0.5)
        for axis, values in ((axes.xaxis, x), (axes.yaxis, y)):
            if _log(values):
                axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axes.set_xlabel(_LABELS.get(names[0], names[0]))
        if value is not None:
            axes.set_title(f"{names[2]} = {value:g}", fontsize=9)
    grid[0][0].set_ylabel(_LABELS.get(names[1], names[1]))
    if mesh is not None:
        figure.colorbar(mesh, ax=grid[0], label=_LABELS.get(result.control, result.control))
    handles = []
    order = points["order"].values
    for kind, hatch in (("first", ""), ("crossover", "..."), ("second", "///")):
        if (order == ORDERS.index(kind)).any():
            label = kind if kind == "crossover" else f"{kind} order"
            handles.append(Patch(facecolor="w", edgecolor="k", hatch=hatch, label=label))
    if result.ends:
        handles.append(
            Line2D([], [], ls="", color="#d1495b", marker="o", mec="k", label="critical ends")
        )
    figure.suptitle(result.title, fontsize=10)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def diagram_page(result) -> str:
    """A page that needs no server and no network: hovering a point shows its data."""
    import plotly.graph_objects as go

    points = result.points
    names = [str(n) for n in points.dims]
    figure = go.Figure()
    rows = result.as_json()["points"]
    if len(names) == 3:
        middle = points[names[2]].values[len(points[names[2]]) // 2]
        rows = [row for row in rows if row[names[2]] == middle]

    def text(row) -> str:
        return "<br>".join(
            f"{k}: {v:.6g}" if isinstance(v, float) else f"{k}: {v}"
            for k, v in row.items()
            if v is not None
        )

    ys = [row[names[1]] if len(names) > 1 else row["control"] for row in rows]
    for kind, symbol in _SYMBOLS.items():
        chosen = [i for i, row in enumerate(rows) if row["order"] == kind]
        if not chosen:
            continue
        marker: dict = {"symbol": symbol, "size": 8}
        if len(names) > 1:
            shade = np.array([rows[i]["control"] or np.nan for i in chosen])
            marker |= {"color": np.log10(np.where(shade > 0, shade, np.nan)).tolist()}
            marker["coloraxis"] = "coloraxis"
        figure.add_scatter(
            x=[rows[i][names[0]] for i in chosen],
            y=[ys[i] for i in chosen],
            mode="markers",
            name=kind,
            marker=marker,
            hovertext=[text(rows[i]) for i in chosen],
            hoverinfo="text",
        )
    if result.ends:
        figure.add_scatter(
            x=[end.at[names[0]] for end in result.ends],
            y=[end.at[names[1]] if len(names) > 1 else end.control for end in result.ends],
            mode="markers",
            name="ends of lines",
            marker={"symbol": "diamond", "size": 10, "color": "#d1495b"},
            hovertext=[text({**e.at, result.control: e.control, "": e.kind}) for e in result.ends],
            hoverinfo="text",
        )
    x, y = (
        points[names[0]].values,
        points[names[1]].values if len(names) > 1 else np.array(ys, float),
    )
    figure.update_layout(
        title=result.title,
        xaxis={"title": names[0], "type": "log" if _log(x) else "linear"},
        yaxis={
            "title": names[1] if len(names) > 1 else result.control,
            "type": "log" if _log(np.sort(np.unique(y[np.isfinite(y)]))) else "linear",
        },
        coloraxis={"colorscale": "Cividis", "colorbar": {"title": f"log10 {result.control}"}},
        template="simple_white",
        legend={"orientation": "h"},
    )
    return figure.to_html(include_plotlyjs=True, full_html=True)
