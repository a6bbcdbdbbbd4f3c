"""What somebody who misspelt a name most likely meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from firn.model.errors import InvalidInput, UnknownOptionError

NEAREST_MAX: Final = 3
KNOWN_MAX: Final = 10_000
"""Names that are compared; each takes some microseconds."""

WORD_CHARACTERS_MAX: Final = 200

_PARTS: Final = re.compile("[-._]")


def nearest(word: str, known: Collection[str]) -> list[str]:
    """Those of the `known` names that are spelled most like `word`, the nearest first; none if nothing is like it.

    Where nothing is, those that have it as a part: ``add`` is most likely ``add-column``.
    """
    if len(word) > WORD_CHARACTERS_MAX or len(known) > KNOWN_MAX:
        return []
    found = get_close_matches(word, known, n=NEAREST_MAX) or [name for name in known if word in _PARTS.split(name)]
    return found[:NEAREST_MAX]


def did_you_mean(word: str, known: Collection[str]) -> str:
    """``did you mean 'append' or 'publish'?``; empty if nothing is spelled like it."""
    found = [repr(name) for name in nearest(word, known)]
    if not found:
        return ""
    before = f"{', '.join(found[:-1])} or " if found[1:] else ""
    return f"did you mean {before}{found[-1]}?"


def refuse_unknown(given: Iterable[str], known: Collection[str], *, where: str = "options") -> None:
    """Raise UnknownOptionError for the first name `given` that is none of the `known`, with the nearest of them."""
    for name in given:
        if name not in known:
            raise UnknownOptionError(
                f"there is no option {name!r}",
                where=where,
                hint=did_you_mean(name, known) or f"there are {', '.join(sorted(known))}",
            )


def require_one_of(word: str | None, known: Collection[str], *, where: str) -> None:
    """Raise InvalidInput for a word that is none of the `known`; None is what the default stands for."""
    if word is not None and word not in known:
        hint = did_you_mean(word, known) or None
        raise InvalidInput(f"is one of {', '.join(known)}, not {word!r}", where=where, hint=hint)
