"""A terminal: grids that fold long cells, colours, and lines that are never wrapped by us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from firn.coordinator.cli.output import Column

GAP_WIDTH = 2


class Terminal:
    """Draws on the terminal that standard output is, or on a console."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = Console(highlight=False, soft_wrap=True) if console is None else console

    @property
    def width(self) -> int:
        """Characters of a line."""
        return self._console.width

    def line(self, text: str) -> None:
        """Print a line; markup in it means nothing."""
        self._console.print(Text(text), soft_wrap=True)

    def labelled(self, label: str, text: str, *, style: str) -> None:
        """Print a dim label, and a text in its style behind it."""
        line = Text(label)
        line.stylize("dim")
        line.append(text, style=style)
        self._console.print(line, soft_wrap=True)

    def grid(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, styles: Mapping[str, str]) -> None:
        """Draw rows below their titles; `styles` are those of cells with these words."""
        self._console.print(grid_of(columns, rows, styles=styles), soft_wrap=False)


def grid_of(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, styles: Mapping[str, str]) -> Table:
    """Return the grid for rich to draw."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP_WIDTH, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=not column.long,
            overflow="fold",
            ratio=None,
        )
    for row in rows:
        table.add_row(*(Text(cell, style=styles.get(cell, "")) for cell in row))
    return table
