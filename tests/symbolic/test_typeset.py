"""The documents: complete, true to the expressions, and fit for pdflatex."""

import dataclasses
import os
import random
import re
import shutil
import subprocess
from functools import cache

import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

from phasetheory.symbolic import (
    Derivation,
    Step,
    heads_derivation,
    linear_derivation,
    linear_meanfield_derivation,
    softmax_derivation,
    sparse_derivation,
    thresholds_derivation,
    tokens_derivation,
)
from phasetheory.symbolic.symbols import h
from phasetheory.symbolic.typeset import (
    LINE_WIDTH,
    _blocks,
    abbreviate,
    estimated_width,
)
from phasetheory.symbolic.typeset import to_latex as write_latex
from phasetheory.symbolic.typeset import to_markdown as write_markdown

to_latex, to_markdown = cache(write_latex), cache(write_markdown)

DERIVATIONS = {
    d.key: d
    for d in (
        linear_derivation(),
        linear_meanfield_derivation(),
        softmax_derivation(),
        sparse_derivation(),
        heads_derivation(),
        thresholds_derivation(),
        tokens_derivation(),
    )
}
EQUATIONS = [
    pytest.param(part.rhs, id=f"{d.key}-{step.key}-{part.lhs}")
    for d in DERIVATIONS.values()
    for step in d
    for part in (
        step.expression.args if isinstance(step.expression, sp.Tuple) else [step.expression]
    )
    if not part.rhs.has(sp.MatrixExpr, sp.Sum, AppliedUndef)  # only what has a number
]


@pytest.fixture(params=DERIVATIONS)
def derivation(request):
    return DERIVATIONS[request.param]


def one_step(expression, **changes):
    """A derivation of one step."""
    step = Step("only", "Title", "Claim", expression, "Reason")
    return Derivation("one", "One step", "Summary", (), (dataclasses.replace(step, **changes),), ())


def displays(text):
    return re.findall(r"\$\$\n(.*?)\n\$\$", text, flags=re.DOTALL)


@pytest.mark.parametrize("write", [to_latex, to_markdown])
def test_every_step_and_every_final_formula_is_there(derivation, write):
    text = write(derivation)
    place = 0
    for number, step in enumerate(derivation, start=1):
        place = text.index(step.title, place)  # in order
        assert text.count(rf"\tag{{{number}}}") == 1 + (step.key in derivation.finals)
    assert text.index("Final formulas", place) > place
    assert text.isascii()


@pytest.mark.parametrize("write", [to_latex, to_markdown])
def test_braces_are_balanced(derivation, write):
    text = re.sub(r"\\[{}]", "", write(derivation))
    depth = 0
    for c in text:
        depth += {"{": 1, "}": -1}.get(c, 0)
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\left(") == text.count(r"\right)")


def test_markdown_has_whole_maths_that_github_accepts(derivation):
    text = to_markdown(derivation)
    assert text.count("$$") % 2 == 0
    assert text.replace("$$", "").count("$") % 2 == 0
    assert len(displays(text)) >= len(derivation.steps)
    assert r"\operatorname" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(derivation.notation)
    assert all(row.count("|") == 3 for row in rows)


def test_both_formats_show_the_same_formulas(derivation):
    plain = re.sub(r"\\operatorname\{(\w+)\}", r"\\mathop{\\mathrm{\1}}", to_latex(derivation))
    assert re.findall(r"\\\[\n(.*?)\n\\\]", plain, flags=re.DOTALL) == displays(
        to_markdown(derivation)
    )


@pytest.mark.parametrize("expression", EQUATIONS)
def test_abbreviations_stand_for_the_same_value(expression):
    short, values = abbreviate(expression)
    for letter, value in values.items():
        short = short.subs(letter, value)
    rng = random.Random(1)
    point = {s: rng.uniform(0.2, 0.8) for s in sorted(expression.free_symbols, key=str)}
    # fewer copied tokens than positions
    integers = [s for s in expression.free_symbols if s.is_integer]
    point |= {s: 2 if s.name == "s" else rng.randint(3, 9) for s in integers}
    difference = (short - expression).subs(point).evalf()
    assert abs(difference) < 1e-10 * max(1, abs(expression.subs(point).evalf()))


def test_no_line_is_estimated_too_wide(derivation):
    lines = [line for block in _blocks(derivation) for line in getattr(block, "lines", ())]
    assert max(map(estimated_width, lines)) <= LINE_WIDTH


def test_plain_expressions_and_names_are_set_as_well():
    text = to_markdown(one_step(sp.Symbol("S_prior") + sp.Symbol("m_ab") - sp.log(h) ** 2 / 2))
    assert displays(text) == [
        r"S_{\mathrm{prior}} + m_{ab} - \frac{1}{2} \log^{2}{\left(h\right)} \tag{1}"
    ]


def test_matrices_are_set_without_needless_brackets():
    n = sp.Symbol("n", integer=True, positive=True)
    x = sp.MatrixSymbol("X", n, n)
    text = to_markdown(one_step(sp.Trace(x.T * (x + sp.Identity(n)).I * x)))
    assert displays(text) == [
        r"\mathop{\mathrm{tr}}\left(X^{\top} \left(\mathbb{I} + X\right)^{-1} X \right) \tag{1}"
    ]


def test_words_are_escaped_and_maths_is_not():
    step = one_step(h, why="5% of $x_1$ & more_or_less")
    assert r"5\% of $x_1$ \& more\_or\_less" in to_latex(step)
    assert "5% of $x_1$ & more_or_less" in to_markdown(step)


@pytest.mark.parametrize("write", [to_latex, to_markdown])
@pytest.mark.parametrize("bad", ["caf\N{LATIN SMALL LETTER E WITH ACUTE}", "an open $x"])
def test_bad_text_is_refused(write, bad):
    with pytest.raises(ValueError, match=r"ASCII|dollar"):
        write(one_step(h, statement=bad))


def test_pdflatex_compiles_without_complaint(derivation, tmp_path):
    if shutil.which("pdflatex") is None and os.environ.get("PHASETHEORY_REQUIRE_PDFLATEX") != "1":
        pytest.skip("pdflatex is not installed")
    (tmp_path / "document.tex").write_text(to_latex(derivation), encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")
    log = (tmp_path / "document.log").read_text(errors="replace")
    assert "Missing character" not in log
    assert not re.search(r"undefined", log, flags=re.IGNORECASE)
    overfull = map(float, re.findall(r"Overfull \\hbox \(([0-9.]+)pt too wide\)", log))
    assert max(overfull, default=0) <= 10
