"""What somebody who misspelt a name most likely meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

NEAREST_MAX: Final = 3
KNOWN_MAX: Final = 10_000
"""Names that are compared; each takes some microseconds."""

WORD_CHARACTERS_MAX: Final = 200


def nearest(word: str, known: Collection[str]) -> str:
    """``'append' or 'publish'``: those of the `known` names that are spelled most like `word`; empty if none is."""
    if len(word) > WORD_CHARACTERS_MAX or len(known) > KNOWN_MAX:
        return ""
    return " or ".join(map(repr, get_close_matches(word, known, n=NEAREST_MAX)))


def did_you_mean(word: str, known: Collection[str]) -> str:
    """``did you mean 'append'?``; empty if nothing is spelled like it."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else ""
