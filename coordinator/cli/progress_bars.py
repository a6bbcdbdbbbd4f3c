"""The line that shows how far a command has got, drawn by rich: loaded where standard error is a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

BAR_WIDTH = 20


def progress_bars(console: Console | None = None) -> Progress:
    """Return bars on standard error that are gone at the end; a text that is too long for a line is folded."""
    text = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold", ratio=1))
    return Progress(
        text, BarColumn(BAR_WIDTH), TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False) if console is None else console,
        transient=True, redirect_stdout=False, expand=True,
    )  # fmt: skip
