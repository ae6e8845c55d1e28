"""``phasetheory latex``: a derivation to read or to put in a paper."""

from pathlib import Path

import click

from phasetheory.cli.output import check_file, write_atomically


@click.command()
@click.argument("attention", type=click.Choice(["linear", "softmax"]))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write: .tex for LaTeX, .md for Markdown. Without it, the text is printed.",
)
@click.option("--markdown", is_flag=True, help="Markdown instead of LaTeX.")
def latex(attention: str, out: Path | None, markdown: bool) -> None:
    """The whole derivation of an effective action, with notation and final formulas.

    ATTENTION is linear or softmax. The LaTeX file compiles with pdflatex.
    """
    check_file(out)
    from phasetheory.symbolic import linear_derivation, softmax_derivation
    from phasetheory.symbolic.typeset import to_latex, to_markdown

    derivation = {"linear": linear_derivation, "softmax": softmax_derivation}[attention]()
    as_markdown = markdown or (out is not None and out.suffix.lower() == ".md")
    text = (to_markdown if as_markdown else to_latex)(derivation)
    if out is None:
        click.echo(text)
    else:
        write_atomically(out, text)
        click.echo(f"wrote {out}")
