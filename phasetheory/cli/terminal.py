"""What a terminal shows: tables, and a bar for long work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

#: columns that hold words
WORDS = ("order", "phases", "what", "start", "level", "phase", "verdict")


def console() -> Console:
    """A console that prints names as they are; not too narrow for a table."""
    found = Console(highlight=False, markup=False, emoji=False)
    if not found.is_terminal or found.width < 60:  # narrower tables would be cut to nothing
        found = Console(highlight=False, markup=False, emoji=False, width=120)
    return found


def table(title: str, *columns: str) -> Table:
    """An empty table; columns of numbers are aligned at the right."""
    found = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for name in columns:
        found.add_column(Text(name), justify="left" if name in WORDS else "right")
    return found


@contextmanager
def progress(title: str) -> Iterator[Callable[[float, float], None]]:
    """A bar with the time left on a terminal's standard error, nothing elsewhere."""
    stderr = Console(stderr=True)
    with Progress(console=stderr, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, advance=done, total=total)
