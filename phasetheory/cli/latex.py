"""``phasetheory latex``: a derivation to read or to put in a paper."""

from pathlib import Path

import click

from phasetheory.files import check_file, write_atomically

NAMES = (
    "linear",
    "linear-meanfield",
    "softmax",
    "softmax-meanfield",
    "sparse",
    "heads",
    "tokens",
    "thresholds",
)


@click.command()
@click.argument("name", type=click.Choice(NAMES), metavar="|".join(NAMES))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write: .tex for LaTeX, .md for Markdown. Without it, the text is printed.",
)
@click.option("--markdown", is_flag=True, help="Markdown instead of LaTeX.")
def latex(name: str, out: Path | None, markdown: bool) -> None:
    """The whole derivation of an effective action, with notation and final formulas.

    The LaTeX file compiles with pdflatex.
    """
    check_file(out)
    from phasetheory import symbolic
    from phasetheory.symbolic.typeset import to_latex, to_markdown

    derivation = getattr(symbolic, f"{name.replace('-', '_')}_derivation")()
    as_markdown = markdown or (out is not None and out.suffix.lower() == ".md")
    text = (to_markdown if as_markdown else to_latex)(derivation)
    if out is None:
        click.echo(text)
    else:
        write_atomically(out, text)
        click.echo(f"wrote {out}")
