"""The figures of `phasetheory scaling`: thresholds along a parameter, and which cost decides."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from phasetheory.copytask.scaling import COSTS, Curve, RegimeMap, ScalingReport

# dark and light, so that curves stay apart in greyscale
_COLOURS = {"onset": "#0b3954", "copying": "#d1495b"}
_MARKERS = {"first": "s", "second": "o", "crossover": "v"}
_DASHES = {"prior": "--", "logarithms": ":", "limit": "-.", "naive": (0, (1, 3))}
_LABELS = {
    "L": "L (sequence length)",
    "V": "V (number of token symbols)",
    "kappa": r"$\kappa$ (ridge)",
    "var_g": r"$\sigma_g^2$ (prior variance of attention logits)",
    "var_w": r"$\sigma_w^2$ (prior variance of the entries of $W$)",
}
#: light to dark, with hatches besides
_REGIMES = (("#f2efe6", ""), ("#a9bcc9", "...."), ("#4f6d7a", "///"))


def scaling_figure(report: ScalingReport) -> Figure:
    """Thresholds with their closed forms (top) and local exponents (bottom) along the parameter.

    Markers tell the order; bands in the lower panel are the fitted exponents with their intervals.
    """
    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(7.2, 6.6), height_ratios=[3, 2], layout="constrained"
    )
    handles = []
    for curve in report.curves:
        handles += _draw(report, curve, top, bottom)
    for order, marker in _MARKERS.items():
        if any((curve.found.order == order).any() for curve in report.curves):
            label = order if order == "crossover" else f"{order} order"
            handles.append(
                Line2D([], [], color="0.4", linestyle="none", marker=marker, label=label)
            )
    top.set_xscale("log")
    top.set_yscale("log")
    top.set_ylabel("P* (number of training sequences)")
    bottom.set_ylabel(f"d log P* / d log {_symbol(report.over)}")
    bottom.margins(y=0.12)
    bottom.set_xlabel(_LABELS[report.over])
    fixed = report.settings[0]
    settings = ", ".join(
        f"{name} = {getattr(fixed, name):.4g}"
        for name in ("L", "V", "kappa", "var_g", "var_w")
        if name != report.over
    )
    top.set_title(f"{report.attention} attention, level {report.level}\n{settings}", fontsize=10)
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _draw(report: ScalingReport, curve: Curve, top, bottom) -> list:
    colour, s, found = _COLOURS[curve.quantity], report.values, curve.found
    for order, marker in _MARKERS.items():
        here = found.order == order
        top.plot(s[here], found.P[here], color=colour, linestyle="none", marker=marker, ms=5)
    handles: list = [Patch(color=colour, label=curve.quantity)]
    for k, (name, closed) in enumerate(curve.closed.items()):
        dashes = "-" if k == 0 else _DASHES[name]
        good = np.isfinite(closed)
        top.plot(s[good], closed[good], color=colour, linestyle=dashes, linewidth=1.2)
        handles.append(
            Line2D([], [], color=colour, linestyle=dashes, label=f"{curve.quantity}: {name}")
        )
    # a local exponent belongs between its two points
    bottom.plot(np.sqrt(s[1:] * s[:-1]), curve.local, color=colour, marker=".", linewidth=1.0)
    if curve.fits:
        fit = curve.fits[0]
        bottom.axhspan(*fit.interval, color=colour, alpha=0.25, linewidth=0)
        bottom.axhline(fit.exponent, color=colour, linewidth=0.8, linestyle="--")
        bottom.annotate(
            f"fit {fit.exponent:.3f}",
            (0.01, fit.exponent),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            color=colour,
            fontsize=8,
        )
    return handles


def regime_figure(regimes: RegimeMap) -> Figure:
    """Which cost decides the transition over L and V, and where it becomes a crossover."""
    figure, axis = plt.subplots(figsize=(7.2, 5.4), layout="constrained")
    number = np.full(regimes.decides.shape, np.nan)
    for k, name in enumerate(COSTS):
        number[regimes.decides == name] = k
    colours = ListedColormap([colour for colour, _ in _REGIMES])
    axis.pcolormesh(
        regimes.L, regimes.V, number, cmap=colours, vmin=-0.5, vmax=2.5, rasterized=True
    )
    handles: list = []
    for k, (name, (colour, hatch)) in enumerate(zip(COSTS, _REGIMES, strict=True)):
        here = number == k
        if not here.any():
            continue
        if hatch:
            axis.contourf(
                regimes.L, regimes.V, here.astype(float), [0.5, 1.5], colors="none", hatches=[hatch]
            )
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor="0.3", label=name))
    if regimes.level != "map":
        axis.contour(regimes.L, regimes.V, regimes.boundary, [0.0], colors="black", linestyles="--")
        text = "prior of attention = logarithms (closed form)"
        handles.append(Line2D([], [], color="black", linestyle="--", label=text))
    crossover = regimes.order == "crossover"
    if crossover.any() and not crossover.all():
        axis.contour(
            regimes.L, regimes.V, crossover.astype(float), [0.5], colors="#d1495b", linewidths=2
        )
        text = "end of the first-order line (crossover at smaller L)"
        handles.append(Line2D([], [], color="#d1495b", linewidth=2, label=text))
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(regimes.L[0], regimes.L[-1])
    axis.set_ylim(regimes.V[0], regimes.V[-1])
    axis.set_xlabel(_LABELS["L"])
    axis.set_ylabel(_LABELS["V"])
    s = regimes.setting
    axis.set_title(
        f"What decides the {regimes.quantity} of {regimes.attention} attention, level "
        f"{regimes.level}\nkappa = {s.kappa:.4g}, var_g = {s.var_g:.4g}, var_w = {s.var_w:.4g}",
        fontsize=10,
    )
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def _symbol(over: str) -> str:
    return _LABELS[over].split(" (")[0]
