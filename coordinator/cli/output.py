"""What commands print: grids for people, JSON for programs.

On a terminal a grid is drawn by rich, which folds long cells; a grid that is wider than the terminal is printed as one
record a row, so that no id, number or reason is cut. Anywhere else it is one line a row, aligned, whatever the width:
`grep`, `awk` and `less -S` can work with it. Markup in values means nothing, and control characters are escaped
(`firn.coordinator.cli.text`).
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import click
import msgspec
from rich.cells import cell_len

from firn.coordinator.cli.text import shown

if TYPE_CHECKING:
    from firn.coordinator.cli.terminal import Terminal

STYLES: Final = {
    "committed": "green", "rejected": "red", "unknown": "yellow", "ok": "green", "breach": "red", "warning": "yellow",
}  # fmt: skip
"""Colours of the words that an eye looks for; only on a terminal."""

GAP: Final = "  "

LONG_WIDTH_MIN: Final = 24
"""Characters of a folded column below which a row is easier to read as a record."""


class Column(msgspec.Struct, frozen=True):
    """A column of a grid. On a narrow terminal `long` ones are folded; all others are kept whole."""

    title: str
    right: bool = False
    long: bool = False


class Line(msgspec.Struct, frozen=True):
    """One line of a story: a label, and a text in a colour of its own or in bold."""

    label: str
    text: str
    style: str = ""
    strong: bool = False


class Output:
    """Standard output in one of two forms. `as_json`: what is printed is JSON, and `grid` and `say` print nothing.

    Where standard output is no terminal, or with a `file`, lines are plain; rich is loaded for terminals alone.
    """

    def __init__(self, *, as_json: bool, file: IO[str] | None = None, terminal: Terminal | None = None) -> None:
        self.as_json = as_json
        self._file = file
        self._terminal = terminal
        if file is None and terminal is None and sys.stdout.isatty() and not as_json:
            self._terminal = importlib.import_module("firn.coordinator.cli.terminal").Terminal()

    def document(self, value: Any) -> None:
        """One JSON document."""
        click.echo(json_text(value, indent=2))

    def line(self, value: Any) -> None:
        """One line of JSON lines."""
        click.echo(json_text(value))

    def say(self, text: str = "") -> None:
        """A line for people; `text` is safe already."""
        if not self.as_json:
            self._line(text)

    def grid(self, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Rows below their titles, or the sentence `empty` when there are none."""
        if self.as_json:
            return
        cells = [[shown("" if value is None else value) for value in row] for row in rows]
        if not cells:
            self.say(empty)
        elif self._terminal is None:
            for line in aligned(columns, cells):
                self._line(line)
        elif fits(columns, cells, width=self._terminal.width):
            self._terminal.grid(columns, cells, styles=STYLES)
        else:
            self._records(columns, cells)

    def _records(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print each row as lines of title and value, with an empty line between rows; empty values are left out."""
        for position, row in enumerate(rows):
            if position:
                self.say()
            filled = [(column, cell) for column, cell in zip(columns, row, strict=True) if cell]
            self.lines(Line(column.title, cell, style=STYLES.get(cell, "")) for column, cell in filled)

    def pairs(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names and values, one below the other; a value of several lines stays aligned."""
        listed = list(pairs)
        width = max((cell_len(name) for name, _ in listed), default=0)
        for name, value in listed:
            lines = [shown(part) for part in value] if isinstance(value, list | tuple) else [shown(value)]
            for position, line in enumerate(lines or ["-"]):
                self.say(f"{_padded(name if position == 0 else '', width)}{GAP}{line}")

    def lines(self, lines: Iterable[Line]) -> None:
        """A story: labels on the left, one below the other; texts are made safe here."""
        if self.as_json:
            return
        listed = list(lines)
        width = max((cell_len(line.label) for line in listed), default=0)
        for line in listed:
            label, text = f"{_padded(line.label, width)}{GAP}", shown(line.text)
            if self._terminal is None:
                self._line(label + text)
            else:
                self._terminal.labelled(label, text, style=line.style or ("bold" if line.strong else ""))

    def _line(self, text: str) -> None:
        if self._terminal is None:
            click.echo(text, file=self._file)
        else:
            self._terminal.line(text)


def fits(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, width: int) -> bool:
    """Return whether a grid can be drawn on a terminal of `width` characters without cutting a cell."""
    needed = len(GAP) * (len(columns) - 1)
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        widest = max(map(cell_len, cells))
        needed += max(cell_len(column.title), min(widest, LONG_WIDTH_MIN) if column.long else widest)
    return needed <= width


def complain(text: str) -> None:
    """A line on standard error; `text` is safe already."""
    click.echo(text, err=True)


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """The grid as lines of plain text, each column as wide as its widest cell."""
    table = [[column.title for column in columns], *rows]
    widths = [max(cell_len(row[i]) for row in table) for i in range(len(columns))]
    lines = []
    for row in table:
        cells = (
            _padded(cell, width, right=column.right) for cell, width, column in zip(row, widths, columns, strict=True)
        )
        lines.append(GAP.join(cells).rstrip())
    return lines


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in ASCII, so that nothing in it means anything to a terminal."""
    separators = None if indent else (",", ":")
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=True, indent=indent, separators=separators)
