"""The command line: one module per command, and nothing that another program could not call.

Commands import what computes only when they run, so that ``--help`` answers at once. Bad input ends
in one sentence on standard error and exit status 2; an incomplete result in exit status 1.
"""

import io
import os
import sys

import click

from phasetheory import __version__
from phasetheory.cli.diagram import diagram
from phasetheory.cli.latex import latex
from phasetheory.cli.phases import phases
from phasetheory.cli.scaling import scaling
from phasetheory.cli.validate import validate
from phasetheory.errors import PhaseTheoryError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="phasetheory")
def app() -> None:
    """How much data does a network need before an attention circuit appears, and does it appear
    suddenly or gradually?"""


app.add_command(phases)
app.add_command(diagram)
app.add_command(scaling)
app.add_command(validate)
app.add_command(latex)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (incomplete), 2 (bad input)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal still gets its table
    try:
        status = app.main(arguments, prog_name="phasetheory", standalone_mode=False) or 0
        sys.stdout.flush()
        return status
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _fail(error.format_message())
    except PhaseTheoryError as error:
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", status=130)
    except (BrokenPipeError, SystemExit):  # rich leaves this way where the reader has gone
        _discard_output()
        return 0
    except OSError as error:
        _discard_output()
        return _fail(f"cannot write the output: {(error.strerror or str(error)).lower()}")


def main() -> None:
    """Entry point of the ``phasetheory`` command."""
    sys.exit(run())


def _discard_output() -> None:
    """Let what is still buffered go nowhere when the interpreter exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(sentence: str, status: int = 2) -> int:
    click.echo(f"phasetheory: {' '.join(sentence.split())}", err=True)
    return status
