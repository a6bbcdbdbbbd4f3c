"""The documentation as pages: a daemon carries a copy, so that a runbook is a link away with no internet.

Addresses are the files' paths in the repository (``/docs/runbooks/commits.md#firnlaggrows``), so that links between
documents lead to each other, and the `runbook` of an alert is an address of the daemon.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token

from firn.model.errors import NotFound

DOCS: Final = Path(__file__).parent / "docs"
PREFIX: Final = "/docs"
_PATH: Final = re.compile(r"(?:[a-z0-9-]+/)?[A-Za-z0-9-]+\.md")
_COMMENT: Final = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_NO_LETTER: Final = re.compile(r"[^\w\- ]")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered page: its title, its HTML, and the anchors of its headings."""

    title: str
    html: str
    anchors: frozenset[str]


@cache
def document_at(path: str) -> Document:
    """Return the document at a path below ``docs``. Raises NotFound for any other file."""
    file = DOCS / path
    if not _PATH.fullmatch(path) or not file.is_file():
        raise NotFound(f"the daemon carries no document {path[:80]!r}: it may be in the project's repository")
    return rendered(file.read_text(encoding="utf-8"))


def rendered(text: str) -> Document:
    """Render Markdown. Raw HTML is escaped, and images are replaced by their descriptions: a daemon carries none."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(_COMMENT.sub("", text))
    seen: Counter[str] = Counter()
    titles: list[str] = []
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            titles.append(_plain(content))
            heading.attrSet("id", _anchor(titles[-1], seen))
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("class", "document")
        token.children = [_without_image(child) for child in token.children or ()] or None
    return Document(
        title=titles[0] if titles else "Documentation",
        html=markdown.renderer.render(tokens, markdown.options, {}),
        anchors=frozenset(str(token.attrGet("id")) for token in tokens if token.type == "heading_open"),
    )


def runbook_address(runbook: str) -> str | None:
    """Return where the daemon serves an alert's `runbook`, such as ``docs/runbooks/commits.md#firnlaggrows``.

    None where it carries no such document: the alert is of somebody else's rules.
    """
    path, _, anchor = runbook.partition("#")
    try:
        found = document_at(path.removeprefix("docs/"))
    except NotFound:
        return None
    return f"/{runbook}" if anchor in found.anchors else f"/{path}"


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _anchor(title: str, seen: Counter[str]) -> str:
    """Name a heading as code hosts do; `seen` counts those that are alike."""
    name = _NO_LETTER.sub("", title.lower()).replace(" ", "-")
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}-{seen[name] - 1}"


def _without_image(token: Token) -> Token:
    return token if token.type != "image" else Token("text", "", 0, content=f"[picture: {token.content}]")
