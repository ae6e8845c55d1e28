r"""A derivation as a document to read: LaTeX for pdflatex, Markdown for GitHub.

Both come from one list of blocks (headings, prose, displays, the notation table), so the text
exists once. Equations too wide for a line are first written with the letters of the notation and
then broken between the terms of their sum.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from phasetheory.symbolic.functions import logistic
from phasetheory.symbolic.linear import linear_parts
from phasetheory.symbolic.ring import invariants
from phasetheory.symbolic.steps import Derivation
from phasetheory.symbolic.symbols import LAMBDA, L, a, a_G, alpha, b, b_u, c_1, c_G, h, lam, q, r, s

#: widest line of a display, in the units of `estimated_width`
LINE_WIDTH = 60

_WEIGHT: Any = logistic(h - sp.log(L - 1))
_REST: Any = logistic(sp.log(L - 1) - h)  # 1 - _WEIGHT
_ODDS: Any = h + sp.log(s) - sp.log(L - s)
_LINEAR = invariants(c_1, c_G)
#: (letter, its value, the factor it is found with): value * factor is written letter * factor.
#: Later entries may use the letters of earlier ones.
_LETTERS: tuple[tuple[sp.Symbol, sp.Expr, sp.Expr], ...] = (
    (a, _WEIGHT, sp.S.One),
    (a, (1 + (L - 1) * a_G) / L, L),
    (q, L * (a**2 + (1 - a) ** 2 / (L - 1)), 1 / L),
    *((x, sp.factor(_LINEAR[x.name]), sp.S.One) for x in (b, b_u, q, r)),
    *((x, sp.factor(_LINEAR[x.name].subs(c_1, alpha - c_G)), sp.S.One) for x in (b, q)),
    # the same for s copied tokens
    (a, logistic(_ODDS) / s, s),
    (q, L * (s * a**2 + (1 - s * a) ** 2 / (L - s)), 1 / L),
    *((x, value, sp.S.One) for x, value in linear_parts(s)[0].items() if x in (b, q)),
    (lam, LAMBDA, L),
)

PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage{amsmath,amssymb}
\usepackage{longtable}
\usepackage{microtype}
\usepackage[a4paper,margin=27mm]{geometry}
\setlength{\emergencystretch}{3em}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt plus 2pt}
\setlength{\jot}{8pt}
\postdisplaypenalty=10000
\AtBeginDocument{\abovedisplayshortskip=\abovedisplayskip}
\frenchspacing"""

TABLE_HEAD = r"""\begin{longtable}{@{}lp{0.8\linewidth}@{}}
Symbol & Meaning \\ \hline \noalign{\smallskip} \endhead"""

#: What GitHub's mathematics would take for Markdown, in other words.
GITHUB_MATHS = {r"\|": r"\Vert ", "|": r"\vert ", r"\,": r"\thinspace ", r"\!": ""}


@dataclass(frozen=True)
class Heading:
    """A heading; those of the steps are numbered."""

    text: str
    number: int | None = None


@dataclass(frozen=True)
class Prose:
    """A paragraph, LaTeX between dollar signs, after an optional label in italics."""

    text: str
    label: str = ""


@dataclass(frozen=True)
class Display:
    """The lines of a display; the number, where there is one, is the step's."""

    lines: tuple[str, ...]
    number: int | None = None

    @property
    def body(self) -> str:
        tag = "" if self.number is None else rf" \tag{{{self.number}}}"
        if len(self.lines) == 1:
            return self.lines[0].replace("&", "").strip() + tag
        return "\n".join([r"\begin{aligned}", " \\\\\n".join(self.lines), rf"\end{{aligned}}{tag}"])


@dataclass(frozen=True)
class Notation:
    """Rows of the notation table: LaTeX of the symbol, meaning."""

    rows: tuple[tuple[str, str], ...]


Block = Heading | Prose | Display | Notation


class _Printer(LatexPrinter):
    """SymPy's LaTeX in the order and grouping that a reader expects."""

    def _as_ordered_terms(self, expr: Any, order: str | None = None) -> list[Any]:
        """``1 + x``, ``L - 1``, ``y - x``: positive constants first, what is subtracted last."""

        def rank(term: Any) -> int:
            if term.could_extract_minus_sign():
                return 2
            return 0 if term.is_number or isinstance(term, sp.Identity) else 1

        return sorted(super()._as_ordered_terms(expr, order=order), key=rank)

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:
        # Words stand upright; one or two letters are indices.
        name = super()._print_Symbol(expr, style=style)
        return re.sub(r"_\{([A-Za-z]{3,})\}", r"_{\\mathrm{\1}}", name)

    def _print_Mul(self, expr: Any) -> str:
        """Roots under one sign; logarithms, exponentials and traces after the fraction."""
        powers = [f for f in expr.args if f.is_Pow]
        roots = [f for f in powers if 4 * f.exp**2 == 1 and f.base.is_positive]
        roots = roots if len(roots) > 1 else []
        last = [f for f in expr.args if isinstance(f, (sp.log, sp.exp, sp.Trace))]
        last += [f for f in powers if isinstance(f.base, sp.log) and f.exp.is_positive]
        if not roots and not last:
            return super()._print_Mul(expr)
        rest = sp.Mul(*(f for f in expr.args if f not in (*roots, *last)))
        if rest in (1, -1):
            text = "" if rest == 1 else "- "
        else:
            text = self.parenthesize(rest, PRECEDENCE["Mul"], strict=True) + " "
        if roots:
            text += rf"\sqrt{{{self._print(sp.Mul(*(f.base ** (2 * f.exp) for f in roots)))}}} "
        return text + " ".join(map(self._print, last))

    def _print_log(self, expr: Any, exp: str | None = None) -> str:
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\log{power}{{\left({self._print(expr.args[0])}\right)}}"

    def _print_Determinant(self, expr: Any) -> str:
        return rf"\det{{\left({self._print(expr.arg)}\right)}}"

    def _print_Transpose(self, expr: Any) -> str:
        return rf"{self.parenthesize(expr.arg, PRECEDENCE['Atom'], strict=True)}^{{\top}}"


def _tex(expression: sp.Basic | str) -> str:
    return expression if isinstance(expression, str) else _Printer().doprint(expression)


def estimated_width(tex: str) -> float:
    """Width of a formula, roughly in letters; one is some 6.3 pt in the 11 pt document."""
    tex = re.sub(r"\\(left|right|operatorname|mathrm|mathbb)\b", "", tex).replace(r"\frac", "/")
    tex = re.sub(r"\\([A-Za-z]+)", lambda m: m[1] if m[1] in ("log", "det", "qquad") else "x", tex)
    tex = re.sub(r"[\s&]", "", tex)
    before = None
    while tex != before:
        before = tex
        tex = re.sub(r"[_^](\{[^{}]*\}|.)", lambda m: "i" * round(0.7 * len(m[1].strip("{}"))), tex)
        tex = re.sub(r"/\{([^{}]*)\}\{([^{}]*)\}", lambda m: max(m[1], m[2], key=len), tex)
        tex = re.sub(r"(?<=\w)\{([^{}]*)\}", r"\1", tex)
    return len(tex) + 1.5 * sum(map(tex.count, "+-=")) - 0.5 * sum(map(tex.count, "i(),"))


def abbreviate(expression: sp.Basic) -> tuple[sp.Basic, dict[sp.Symbol, sp.Expr]]:
    """The expression in the letters of the notation, with the values of the letters it needed.

    The two are equal: inserting the values, in their order, gives the expression back.
    """
    short = expression.subs({_REST: 1 - _WEIGHT, logistic(-_ODDS): 1 - logistic(_ODDS)})
    values: dict[sp.Symbol, sp.Expr] = {}
    for letter, value, factor in _LETTERS:
        pattern = value * factor
        written = short.subs([(form, letter * factor) for form in (pattern, sp.expand(pattern))])
        if written != short:
            short = written
            values = {letter: value} | values
    return short, values


def _fill(pieces: list[str], first: str, others: str, separator: str) -> list[str]:
    """Pieces laid out in as few lines as fit, and those as even as can be."""

    def lines(limit: float) -> list[str]:
        filled = [first + pieces[0]]
        for piece in pieces[1:]:
            longer = filled[-1] + separator + piece
            fits = estimated_width(longer) <= limit
            filled = [*filled[:-1], longer] if fits else [*filled, others + piece]
        return filled

    fewest = len(lines(LINE_WIDTH))
    return next(even for w in range(LINE_WIDTH + 1) if len(even := lines(w)) == fewest)


def _sum_lines(start: str, value: sp.Basic) -> list[str]:
    """The lines of ``start value``, broken between the terms of a sum."""
    line = start + _tex(value)
    if estimated_width(line) <= LINE_WIDTH or not value.is_Add:
        return [line]
    pieces = []
    for term in _Printer()._as_ordered_terms(value):
        minus = term.could_extract_minus_sign()
        sign = "- " if minus else "+ " if pieces else ""
        pieces.append(sign + _tex(-term if minus else term))
    return _fill(pieces, start, r"&\quad ", " ")


def _displays(expression: sp.Basic, number: int) -> Iterator[Block]:
    """The numbered display of a step and, if it was abbreviated, what its letters stand for."""
    lines: list[str] = []
    letters: dict[sp.Symbol, sp.Expr] = {}
    for part in expression.args if isinstance(expression, sp.Tuple) else (expression,):
        equation = isinstance(part, sp.Eq)
        start, value = (f"{_tex(part.lhs)} &= ", part.rhs) if equation else ("& ", part)
        if estimated_width(start + _tex(value)) > LINE_WIDTH:
            value, used = abbreviate(value)
            letters = used | letters
        lines.extend(_sum_lines(start, value))
    yield Display(tuple(lines), number)
    if letters:
        yield Prose("where")
        pieces = [f"{_tex(letter)} = {_tex(value)}" for letter, value in letters.items()]
        pieces = [*(f"{piece}," for piece in pieces[:-1]), f"{pieces[-1]}."]
        yield Display(tuple(_fill(pieces, "& ", "& ", r" \qquad ")))


def _blocks(derivation: Derivation) -> Iterator[Block]:
    """The document, in order."""
    yield Prose(derivation.summary)
    yield Heading("Notation")
    yield Notation(tuple((_tex(symbol), meaning) for symbol, meaning in derivation.notation))
    numbers = {step.key: i for i, step in enumerate(derivation, start=1)}
    for step in derivation:
        yield Heading(step.title, numbers[step.key])
        yield Prose(step.statement)
        yield from _displays(step.expression, numbers[step.key])
        yield Prose(step.why, "Why:")
    yield Heading("Final formulas")
    for key in derivation.finals:
        yield Prose(f"{derivation[key].title}:")
        yield from _displays(derivation[key].expression, numbers[key])


def _replace(text: str, replacements: dict[str, str], *, in_maths: bool) -> str:
    """Replace between the dollar signs, or everywhere else."""
    parts = text.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"odd number of dollar signs in {text!r}")
    for i in range(int(in_maths), len(parts), 2):
        for old, new in replacements.items():
            parts[i] = parts[i].replace(old, new)
    return "$".join(parts)


def _join(parts: list[str]) -> str:
    text = "\n\n".join(parts) + "\n"
    if odd := sorted({c for c in text if not c.isascii()}):
        raise ValueError(f"the text of a derivation is ASCII, found {odd}")
    return text


def to_latex(derivation: Derivation) -> str:
    """A standalone LaTeX article, for pdflatex.

    Raises:
        ValueError: if the derivation's text is not ASCII or leaves a dollar sign open.
    """

    def words(text: str) -> str:
        return _replace(text, {c: "\\" + c for c in "%&#_"}, in_maths=False)

    def render(block: Block) -> str:
        match block:
            case Heading(text, number):
                return rf"\section{'*' if number is None else ''}{{{words(text)}}}"
            case Prose(text, label):
                return (rf"\textit{{{label}}} " if label else "") + words(text)
            case Display():
                # No page ends after a numbered display: what its letters stand for follows.
                end = "\n\n\\penalty0" if block.number is None else ""
                return f"\\[\n{block.body}\n\\]{end}"
            case Notation(rows):
                body = "\n".join(rf"${symbol}$ & {words(meaning)} \\" for symbol, meaning in rows)
                return f"{TABLE_HEAD}\n{body}\n\\end{{longtable}}"

    title = rf"\begin{{center}}\LARGE {words(derivation.title)}\end{{center}}"
    opening = [PREAMBLE, r"\begin{document}", title]
    text = _join([*opening, *map(render, _blocks(derivation)), r"\end{document}"])
    return text.replace("\n\n\\[", "\n\\[")  # a display belongs to the paragraph before it


def to_markdown(derivation: Derivation) -> str:
    """The same document as Markdown with ``$...$`` and ``$$...$$``, as GitHub renders it.

    Raises:
        ValueError: if the derivation's text is not ASCII or leaves a dollar sign open.
    """

    def words(text: str) -> str:
        return _replace(text, GITHUB_MATHS, in_maths=True)

    def render(block: Block) -> str:
        match block:
            case Heading(text, number):
                return f"## {'' if number is None else f'{number}. '}{words(text)}"
            case Prose(text, label):
                return (f"*{label}* " if label else "") + words(text)
            case Display():
                return f"$$\n{block.body}\n$$"
            case Notation(rows):
                cells = [("Symbol", "Meaning"), ("---", "---")]
                cells += ((words(f"${symbol}$"), words(meaning)) for symbol, meaning in rows)
                return "\n".join(f"| {left} | {right} |" for left, right in cells)

    text = _join([f"# {words(derivation.title)}", *map(render, _blocks(derivation))])
    # GitHub forbids \operatorname.
    return re.sub(r"\\operatorname\{(\w+)\}", r"\\mathop{\\mathrm{\1}}", text)
