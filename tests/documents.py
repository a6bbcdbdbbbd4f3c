"""The documentation as tests see it: pages with their headings and links, and fenced blocks with what is said of each.

A block of commands is run by `tests/acceptance/test_documents.py`, on the page's turn and in the page's order, unless a
comment right before it says otherwise, each with what it is about:

* ``<!-- test: not run: REASON -->``: it cannot be run here; it is only parsed, and the files that it names must exist.
* ``<!-- test: exits with N -->``: so it does.
* ``<!-- test: sample output -->``: its commands are run, and what they print is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
INDEX: Final = DOCS / "README.md"

SPARK: Final = frozenset({DOCS / "pipeline.md"})
"""Pages that are run in a Spark session: `tests/spark/test_documents.py`."""

COMMANDS: Final = frozenset({"sh", "console", "python"})
"""Languages of blocks that are run."""

DATA: Final = frozenset({"json", "toml", "yaml", "text", "promql", "sql", ""})
"""Languages of blocks that are read. Without a language it is a drawing or what somebody printed."""

PROMPT: Final = "$ "

_FENCE: Final = re.compile(r"^```(\S*)$")
_MARKER: Final = re.compile(r"^<!-- test: (.*) -->$")
_NOT_RUN: Final = "not run: "
_EXIT: Final = re.compile(r"exits with (\d+)")
_SAMPLE: Final = "sample output"
_HEADING: Final = re.compile(r"^#{1,6} (.*)$")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: +(\S+)")
"""The end of an inline link, whose text may begin on an earlier line, or the definition of a reference."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block: where it begins, its text, and what the comment before it says."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str | None = None
    exit_code: int = 0
    sample: bool = False

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether the tests run it."""
        return self.language in COMMANDS and self.not_run is None

    @property
    def script(self) -> str:
        """Its commands, without the output that a console block shows."""
        return "\n".join(command for command, _ in self.steps) if self.language == "console" else self.text

    @property
    def steps(self) -> list[tuple[str, list[str]]]:
        """Of a console block: each command with the lines that it is shown to print."""
        steps: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith(PROMPT):
                steps.append((line.removeprefix(PROMPT), []))
            elif steps and not steps[-1][1] and steps[-1][0].endswith("\\"):
                steps[-1] = (f"{steps[-1][0]}\n{line}", [])
            else:
                assert steps, f"{self}: begins with output; a command begins with {PROMPT!r}"
                steps[-1][1].append(line)
        return steps


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of Markdown."""

    path: Path
    blocks: tuple[Block, ...]
    anchors: frozenset[str]
    links: tuple[tuple[int, str], ...]
    """Line and target of each."""


def pages() -> list[Path]:
    """The README and all of docs/."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@cache
def page(path: Path) -> Page:
    """Read a page. Fails on a block that is not closed, or a comment for the tests that nobody understands."""
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    marker: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is not None and line == "```":
            blocks.append(_block(path, *opened, "\n".join(inside) + "\n", marker))
            opened, inside, marker = None, [], None
        elif opened is not None:
            inside.append(line)
        elif fence is not None:
            opened = number, fence[1]
        elif (said := _MARKER.match(line)) is not None:
            assert marker is None, f"{path}:{number}: two comments for one block"
            marker = said[1]
        else:
            assert marker is None, f"{path}:{number}: the comment before is for no block"
            prose.append((number, line))
    assert opened is None, f"{path}:{opened}: the block is not closed"
    return Page(path=path, blocks=tuple(blocks), anchors=frozenset(_anchors(prose)), links=tuple(_links(prose)))


def _block(path: Path, line: int, language: str, text: str, marker: str | None) -> Block:
    block = Block(page=path, line=line, language=language, text=text)
    match marker:
        case None:
            return block
        case str() if marker.startswith(_NOT_RUN):
            return msgspec.structs.replace(block, not_run=marker.removeprefix(_NOT_RUN))
        case str() if (code := _EXIT.fullmatch(marker)) is not None:
            return msgspec.structs.replace(block, exit_code=int(code[1]))
        case str() if marker == _SAMPLE:
            return msgspec.structs.replace(block, sample=True)
    raise AssertionError(f"{path}:{line}: nobody understands {marker!r}")


def _anchors(prose: list[tuple[int, str]]) -> Iterator[str]:
    """The anchors of headings, as GitHub makes them."""
    seen: dict[str, int] = {}
    for _, line in prose:
        heading = _HEADING.match(line)
        if heading is None:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        yield f"{anchor}-{count}" if count else anchor


def _links(prose: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in prose:
        for found in _LINK.finditer(re.sub(r"`[^`]*`(?!\])", "", line)):
            yield number, found[1] or found[2]
