"""How far a long command has got: one line on standard error that is overwritten, and removed at the end.

Only a terminal gets it. Where standard error is a pipe or a file, and with `--json`, nothing is written and rich is not
loaded.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from firn.coordinator.cli.output import Output
from firn.coordinator.cli.text import shown

if TYPE_CHECKING:  # loaded for terminals alone
    from rich.progress import Progress

INTERVAL_S: Final = 0.1
"""How long a text stays at least: nobody reads faster, and drawing each of a million files would take minutes."""


class ProgressLine:
    """What a long piece of work reports to (`firn.model.progress.Progress`); without `bars` it shows nothing."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars
        self._task = None if bars is None else bars.add_task("", total=None)
        self._context = ""
        self._drawn_s = float("-inf")

    def within(self, what: str, number: int, total: int, name: str) -> None:
        """Begin with one of several things, which stands before what is reported from now on."""
        self._context = f"{what} {number:,} of {total:,}, {shown(name)}"
        self._draw(self._context, number=0, total=None)

    def action(self, name: str) -> None:
        """Show an action that cannot say how far it is."""
        self._draw(self._text(name), number=0, total=None)

    def stand_aside(self, name: str) -> None:
        """Leave the terminal to another program that writes to it, below one line that says why."""
        if self._bars is not None:
            self._bars.stop()
            self._bars.console.print(self._text(name), markup=False, highlight=False, soft_wrap=True)

    def __call__(self, what: str, number: int, total: int | None) -> None:
        """Show that number `number` of `total` is being worked on."""
        if self._bars is None or (number != 1 and time.monotonic() - self._drawn_s < INTERVAL_S):
            return
        self._draw(self._text(f"{what} {number:,}" + ("" if total is None else f" of {total:,}")), number, total)

    def _text(self, text: str) -> str:
        return f"{self._context}: {text}" if self._context else text

    def _draw(self, text: str, number: int, total: int | None) -> None:
        if self._bars is None or self._task is None:
            return
        self._drawn_s = time.monotonic()
        self._bars.start()
        self._bars.update(self._task, description=text, completed=number, total=total)


@contextmanager
def showing_progress(output: Output) -> Iterator[ProgressLine]:
    """Show progress until the end of the block, however it ends; then the line is gone."""
    if output.as_json or not sys.stderr.isatty():
        yield ProgressLine(None)
        return
    with importlib.import_module("firn.coordinator.cli.progress_bars").progress_bars() as bars:
        yield ProgressLine(bars)
