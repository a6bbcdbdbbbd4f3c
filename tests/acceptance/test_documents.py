"""Every command in the documentation is run: each page on a firn of its own, in order, in an empty folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reader import Reader, like
from tests.documents import DOCS, ROOT, SPARK, page, pages

FROM_THE_WHEEL = {DOCS / "start.md"}
"""Run in `test_installed.py` with what is installed of a wheel."""


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    somebody = Reader(tmp_path)
    try:
        somebody.wait_ready()
        yield somebody
    finally:
        somebody.end()


def pages_with_commands() -> list[Any]:
    return [
        pytest.param(path, id=str(path.relative_to(ROOT)))
        for path in pages()
        if path not in SPARK | FROM_THE_WHEEL and any(block.is_run for block in page(path).blocks)
    ]


@pytest.mark.parametrize("path", pages_with_commands())
def test_the_page_does_what_it_says(path: Path, reader: Reader) -> None:
    for block in page(path).blocks:
        if block.is_run:
            reader.runs(block)


@pytest.mark.parametrize(
    ("line", "printed", "alike"),
    [
        ("committed  12 ms", "committed 7.5 ms", True),
        ("id 0192f0c1-5b2e-7cc1-8f4e-2d6a1b3c4d5e …", "id 01a201aa-4f80-7288-af1d-1231ee0d62a2 at 7", True),
        ("rejected by missing-file", "rejected by stale-base", False),
        ("3 rows", "rows", False),
        ("a.b", "axb", False),
    ],
)
def test_lines_are_compared_by_what_they_say(line: str, printed: str, *, alike: bool) -> None:
    assert (re.fullmatch(like(line), printed) is not None) == alike
