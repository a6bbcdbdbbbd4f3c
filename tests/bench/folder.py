"""Where a row keeps its files: on the disk as long as the program runs, because removing them slows down what follows.

An ext4 without a journal passes over the inodes of files that were removed in the last minute or more, one after the
other, whenever a file is made: it uses none again before it is sure that the disk has the removal. After a row that has
made 40,000 files the next one's process that writes files takes three milliseconds of processor time a commit instead
of one, and there are a fifth fewer commits. So a row's files are emptied at its end, and removed when the program ends;
a program that begins soon after that waits.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

PASSED_OVER_S = 62.0
"""A little more than the 60 s of Linux since 2020. It is six minutes while an inode's block is still to be written, but
the kernel leaves none so for longer than half a minute where the disk keeps up."""

_REMOVED = Path(tempfile.gettempdir(), f"firn-bench-removed-{os.getuid()}")
"""When a program of these last removed files: its time of change."""

_left: list[Path] = []


@contextmanager
def bench_folder() -> Iterator[Path]:
    """A new folder, with room taken by no file after it; it goes when the program ends."""
    folder = Path(tempfile.mkdtemp(prefix="firn-bench-"))
    if not _left:
        atexit.register(_remove)
    _left.append(folder)
    try:
        yield folder
    finally:
        _empty(folder)


def wait_for_inodes() -> None:
    """Wait until what the last program removed slows nobody down."""
    try:
        wait_s = _REMOVED.stat().st_mtime + PASSED_OVER_S - time.time()
    except FileNotFoundError:
        return
    if 0 < wait_s <= PASSED_OVER_S:
        Console(stderr=True).print(
            f"waiting {wait_s:.0f} s: files were removed just now, which slows down making others"
        )
        time.sleep(wait_s)


def _empty(folder: Path) -> None:
    for path in folder.rglob("*"):
        with suppress(OSError):  # servers that were killed may be removing theirs
            if path.is_file() and not path.is_symlink():
                os.truncate(path, 0)


def _remove() -> None:
    for folder in _left:
        shutil.rmtree(folder, ignore_errors=True)
    _REMOVED.touch()
