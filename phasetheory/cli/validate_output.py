"""An `Agreement` as JSON (schema: ``validate.schema.json`` beside this file), text and a page."""

import base64
import json
import math
from dataclasses import asdict
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jinja2

from phasetheory import __version__
from phasetheory.agreement.measured import Measurement
from phasetheory.agreement.report import Agreement, JudgedRow
from phasetheory.agreement.theory import COMPARED, Level, Prediction, predictions
from phasetheory.agreement.values import Value
from phasetheory.cli import terminal
from phasetheory.cli.phases_output import as_json as phases_json

#: observables shown beside the order parameters
SHOWN = ("train_loss", "test_loss", "coverage", "w_u", "w")
#: titles of the tables that the report alone shows
CONVERGENCE, MINIMA = "Convergence of the chains", "Minima of the theory"
#: dropped runs shown on the terminal
MOST_DROPPED = 12

_HOW = {
    "hmc": "Hamiltonian Monte Carlo on the attention, W integrated out exactly and drawn from its "
    "posterior for each record: no bias of a finite step",
    "langevin": "full-batch Langevin dynamics on attention and W; every second chain at half the "
    "step, from which the bias of the step is measured",
    "sgld": "stochastic gradient Langevin dynamics on minibatches, on attention and W; every "
    "second chain at half the step, from which the bias of the step is measured",
    "adam": "Adam with the weight decay of the priors from several starts; of each data set the "
    "runs in its lowest minimum count, the others are listed as dropped",
}


def schema() -> dict[str, Any]:
    """The JSON schema of the result."""
    text = resources.files("phasetheory.cli").joinpath("validate.schema.json").read_text()
    return json.loads(text)


def command(measurement: Measurement, tolerance: float) -> str:
    """A command line that asks for the same numbers."""
    m, s = measurement, measurement.setting
    sampled = m.method != "adam"
    parts: list[str] = [
        f"phasetheory validate {m.attention} -L {s.L} -V {s.V} --kappa {s.kappa:.15g}",
        f"--var-g {s.var_g:.15g} --var-w {s.var_w:.15g}",
    ]
    optional = (
        (s.ones != 1, f"--ones {s.ones}"),
        (s.head_dimension is not None, f"-N {s.head_dimension}"),
        (s.tokens is not None, "--tokens …"),
        (not m.cyclic, "--no-wrap"),
        (True, f"--P {','.join(map(str, m.P))} --method {m.method} --chains {m.chains}"),
        (sampled, f"--warmup {m.warmup} --draws {m.draws}"),
        (True, f"--datasets {m.datasets} --seed {m.seed}"),
        (m.hysteresis, "--hysteresis"),
        (not m.hysteresis, f"--starts {','.join(m.starts)}"),
        (True, f"--tolerance {100 * tolerance:.15g}"),
    )
    return " ".join(parts + [text for wanted, text in optional if wanted])


def method(measurement: Measurement) -> list[str]:
    """How each number was obtained, in sentences."""
    K = measurement.datasets
    found = [
        f"Measured: {_HOW[measurement.method]}.",
        f"A mean is over {K} data set{'s' * (K != 1)}, those of a larger P holding those of a "
        "smaller one. Its error is one standard error from the spread over data sets (which holds "
        "the noise of the chains), but no smaller than that noise alone.",
        "Test losses are exact expectations over fresh sequences.",
        "Theory: all minima of the effective action at each level; the equilibrium is the lowest.",
        "Verdict: agrees where the difference is at most three standard errors and the stated bias;"
        " agrees within x % where it is below the tolerance (or 0.01 for alpha, c_1, c_G, which "
        "may vanish); metastable where a higher minimum of the theory is matched instead.",
    ]
    if measurement.method != "adam":
        found.insert(
            2,
            "Chains have converged where R-hat is at most 1.05 and the effective sample size at "
            "least 50. The variance of an order parameter is over samples at given data; theory "
            "has the susceptibility, the inverse Hessian of the action in nats.",
        )
        if measurement.hysteresis:
            found.insert(
                3,
                "Upwards the first point starts from the prior, downwards from the copy state; "
                "each further one starts from the chains of the one before, and warms up again.",
            )
        elif len(measurement.starts) > 1:
            found.insert(
                3,
                "Chains from different starts are taken together where they have converged and "
                "agree within three standard errors in every order parameter.",
            )
    return found


def as_json(result: Agreement) -> dict[str, Any]:
    """The result as plain JSON values, without times; what is not known is null."""
    m, setting = result.measurement, asdict(result.measurement.setting)
    setting["tokens"] = None if setting["tokens"] is None else list(setting["tokens"])
    options = {"warmup": m.warmup, "draws": m.draws} if m.method != "adam" else asdict(m.training)
    packages = ("jax", "blackjax", "arviz-stats", "optax", "numpy", "sympy")
    return {
        "schema": 1,
        "attention": m.attention,
        "setting": setting,
        "cyclic": m.cyclic,
        "command": command(m, result.tolerance),
        "method": m.method,
        "how": method(m),
        "options": {
            "P": list(m.P),
            "chains": m.chains,
            "datasets": m.datasets,
            "seed": m.seed,
            "data_seeds": list(m.data_seeds),
            "starts": ["up", "down"] if m.hysteresis else list(m.starts),
            "tolerance": result.tolerance,
            **options,
        },
        "status": "complete" if result.complete else "interrupted",
        "compared_level": result.level,
        "notes": list(result.notes),
        "versions": {
            "phasetheory": __version__,
            **{name: metadata.version(name) for name in packages},
        },
        "theory": [_level(level) for level in result.levels],
        "rows": [_row(result, row) for row in result.rows],
        "dropped": [{**_plain(asdict(d.run)), "matches": d.phase} for d in result.dropped],
    }


def _level(level: Level) -> dict[str, Any]:
    if level.report is None:
        return {"level": level.name, "note": level.note}
    found = phases_json(level.report, list(level.states.values()))
    kept = ("control_range", "status", "problems", "transitions", "crossovers", "equilibrium")
    return {"level": level.name, "note": level.note, **{name: found[name] for name in kept}}


def _row(result: Agreement, judged: JudgedRow) -> dict[str, Any]:
    row = judged.row
    return _plain(
        {
            "P": row.P,
            "start": row.start,
            "datasets": row.datasets,
            "draws": row.draws,
            "step": row.step,
            "acceptance": row.acceptance,
            "trouble": row.trouble,
            "values": {name: asdict(value) for name, value in row.values.items()},
            "theory": {
                level.name: [
                    {
                        "phase": p.phase,
                        "stable": p.stable,
                        "order_parameters": p.means,
                        "variances": p.variances,
                        "observables": p.observables,
                        "action": p.action,
                    }
                    for p in predictions(level, row.P)
                ]
                for level in result.levels
                if level.report is not None
            },
            "comparisons": [
                {
                    "order_parameter": c.name,
                    "theory": c.theory,
                    "phase": c.phase,
                    "measured": None if c.measured is None else c.measured.mean,
                    "difference": c.difference,
                    "allowed": c.allowed,
                    "verdict": c.verdict,
                    "text": c.text,
                }
                for c in judged.comparisons
            ],
            "verdict": judged.verdict,
        }
    )


def _plain(value: Any) -> Any:
    """The value with null in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def heading(result: Agreement) -> str:
    """The setting in one line."""
    m, s = result.measurement, result.measurement.setting
    parts = [f"L = {s.L}", f"V = {s.V}", f"kappa = {s.kappa:.6g}"]
    parts += [f"var_g = {s.var_g:.6g}", f"var_w = {s.var_w:.6g}"]
    if s.tokens is not None:
        parts.append(f"effectively {s.effective_V:.4g} symbols")
    if s.ones > 1:
        parts.append(f"ones = {s.ones}")
    if s.head_dimension is not None:
        parts.append(f"N = {s.head_dimension}")
    if not m.cyclic:
        parts.append("no wrap-around")
    return f"{m.attention} attention, {m.method} beside theory: {', '.join(parts)}"


Table = tuple[str, list[str], list[list[str]]]


def tables(result: Agreement) -> list[Table]:
    """Title, columns and rows of each table, as text."""
    found = [_verdicts(result), _observables(result), _minima(result), _transitions(result)]
    found += [_convergence(result)] if result.measurement.method != "adam" else [_drops(result)]
    return [(title, columns, rows) for title, columns, rows in found if rows]


def _verdicts(result: Agreement) -> Table:
    levels = [level for level in result.levels if level.report is not None]
    biased = result.measurement.halves
    columns = ["P", "start", "what", *(level.name for level in levels), "measured", "± error"]
    columns += ["bias"] * biased + ["difference", "verdict"]
    rows = []
    for judged in result.rows:
        for c in judged.comparisons:
            theory = [_equilibrium(level, judged.row.P, c.name) for level in levels]
            value = c.measured
            row = [str(judged.row.P), judged.row.start, c.name, *map(_text, theory)]
            row += [_text(value and value.mean), _text(value and value.error, ".1g")]
            row += [_text(value and value.bias, ".2g")] * biased
            rows.append([*row, _text(c.difference, "+.2g"), c.text])
    title = "Order parameters: theory and measurement"
    if result.level is not None:
        title += f" (difference from the level {result.level})"
    return title, columns, rows


def _equilibrium(level: Level, P: int, name: str) -> float | None:
    minima = predictions(level, P)
    return minima[0].means.get(name) if minima else None


def _observables(result: Agreement) -> Table:
    """Losses and the like, each beside the equilibrium of the compared level."""
    columns = ["P", "start", "what", "theory", "measured", "± error"]
    rows = []
    for judged in result.rows:
        level = result.compared
        minima = [] if level is None else predictions(level, judged.row.P)
        theory = {**minima[0].observables, "energy": minima[0].action} if minima else {}
        variances = minima[0].variances if minima else {}
        shown = [(n, theory.get(n), judged.row.values.get(n)) for n in (*SHOWN, "energy")]
        cells = [(n, t, v.mean, v.error) for n, t, v in shown if v is not None]
        cells += [
            (f"var {n}", variances.get(n), v.variance, v.variance_error)
            for n, v in ((c.name, c.measured) for c in judged.comparisons)
            if v is not None and v.variance is not None
        ]
        rows += [
            [str(judged.row.P), judged.row.start, n, _text(t), _text(v), _text(e, ".1g")]
            for n, t, v, e in cells
        ]
    return "Losses, coverage, weights and variances", columns, rows


def _minima(result: Agreement) -> Table:
    levels = [level for level in result.levels if level.report is not None]
    known = {n for level in levels for p in _all(level) for n in p.means}
    names = [n for n in COMPARED[result.measurement.attention] if n in known]
    columns = ["level", "P", "phase", "what", *names, "train loss", "test loss", "action"]
    rows = [
        [
            level.name,
            str(P),
            p.phase,
            "equilibrium" if p.stable else "metastable",
            *(_text(p.means.get(name)) for name in names),
            *(_text(p.observables.get(name)) for name in ("train_loss", "test_loss")),
            _text(p.action),
        ]
        for level in levels
        for P in level.states
        for p in predictions(level, P)
    ]
    return MINIMA, columns, rows


def _all(level: Level) -> list[Prediction]:
    """The minima of a level at every P."""
    return [p for P in level.states for p in predictions(level, P)]


def _transitions(result: Agreement) -> Table:
    rows = [
        [
            level.name,
            t.order,
            f"{t.control:.7g}",
            f"{t.low_phase} → {t.high_phase}",
            " … ".join("–" if s is None else f"{s:.5g}" for s in t.spinodals),
        ]
        for level in result.levels
        if level.report is not None
        for t in level.report.transitions
    ]
    columns = ["level", "order", "P*", "phases", "spinodals"]
    return "Transitions of the theory, in the whole range", columns, rows


def _convergence(result: Agreement) -> Table:
    columns = ["P", "start", "what", "R-hat", "ESS", "chain error", "between data"]
    columns += ["draws", "acceptance", "step"]
    rows = []
    for judged in result.rows:
        row = judged.row
        for c in judged.comparisons:
            v: Value | None = c.measured
            numbers = [_text(v and v.rhat, ".3f"), _text(v and v.ess, ".0f")]
            numbers += [_text(v and v.mc_error, ".2g"), _text(v and v.between_error, ".2g")]
            numbers += [str(row.draws), _text(row.acceptance, ".2f"), _text(row.step, ".2g")]
            rows.append([str(row.P), row.start, c.name, *numbers])
    return CONVERGENCE, columns, rows


def _drops(result: Agreement) -> Table:
    names = [n for n in ("a", "alpha", "c_1", "c_G", "q") if _has(result, n)]
    columns = [
        "P",
        "data set",
        "run",
        "start",
        "energy",
        "above lowest",
        "slope",
        *names,
        "verdict",
    ]
    rows = []
    for d in result.dropped:
        run = d.run
        kind = "metastable" if run.converged else "not converged"
        if run.converged:
            kind += f" ({d.phase} of theory)" if d.phase else " (no such minimum in theory)"
        row = [str(run.P), str(run.dataset + 1), str(run.run + 1), run.start, _text(run.energy)]
        row += [_text(run.above), _text(run.slope, ".1g")]
        rows.append([*row, *(_text(run.observables[n]) for n in names), kind])
    return "Runs dropped by the filter for the lowest minimum", columns, rows


def _has(result: Agreement, name: str) -> bool:
    return bool(result.dropped) and name in result.dropped[0].run.observables


def _text(value: float | None, form: str = ".4g") -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-12 else format(value, form)


def print_report(result: Agreement, files: list[Path]) -> None:
    """The tables for a terminal."""
    console = terminal.console()
    console.print(heading(result), style="bold")
    for title, columns, rows in tables(result):
        if title in (CONVERGENCE, MINIMA):  # long; report and JSON have them
            continue
        shown = rows
        if "dropped" in title and len(rows) > MOST_DROPPED:
            shown = rows[:MOST_DROPPED]
        table = terminal.table(title, *columns)
        for row in shown:
            table.add_row(*row)
        console.print(table)
        if len(shown) < len(rows):
            console.print(f"and {len(rows) - len(shown)} more (--json or --out has them all)")
    for note in result.notes:
        console.print(f"note: {note}", soft_wrap=True)
    for path in files:
        console.print(f"wrote {path}", soft_wrap=True)


def as_html(result: Agreement, document: dict[str, Any], figure: bytes) -> str:
    """One page with everything in it.

    Args:
        document: the result as JSON values, with its times.
        figure: PNG.
    """
    source = resources.files("phasetheory.cli").joinpath("validate.html.j2").read_text()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    counts = {}
    for judged in result.rows:
        counts[judged.verdict] = counts.get(judged.verdict, 0) + 1
    return environment.from_string(source).render(
        heading=heading(result),
        document=document,
        tables=[
            (title, columns, rows, "verdict" in columns) for title, columns, rows in tables(result)
        ],
        counts=counts,
        words=terminal.WORDS,
        figure=base64.b64encode(figure).decode(),
    )
