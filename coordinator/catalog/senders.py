"""Who sent a request, for people: what its headers and the snapshots in it say. Nothing is decided by it, but for
`APPEND`, by which a client vouches that it has read nothing of the table that it appends to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from firn.coordinator.catalog.requests import TableChange
from firn.model.errors import InvalidInput
from firn.model.rest_updates import AddSnapshot

APPEND: Final = "X-Firn-Append"
BLIND: Final = "blind"

CHARACTERS_MAX: Final = 255


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The client that sent a request, and whether it says that it appends blindly."""

    client: str | None = None
    blind: bool = False


def sender_of(headers: Mapping[str, str]) -> Sender:
    """Return who sent a request with these headers. Raises InvalidInput for a wish that is not known."""
    said = [headers.get("User-Agent", "").strip(), headers.get("X-Client-Version", "").strip()]
    wish = headers.get(APPEND)
    if wish is not None and wish.strip().lower() != BLIND:
        raise InvalidInput(f"must be {BLIND!r} or be left out, not {wish[:40]!r}", where=APPEND)
    return Sender(client=_name("; ".join(dict.fromkeys(filter(None, said)))), blind=wish is not None)


def engine_of(changes: Iterable[TableChange]) -> str | None:
    """Return the engine that made the snapshots in a request, as their summaries say: ``spark 4.1.0``."""
    for change in changes:
        for update in change.updates:
            summary = update.snapshot.summary or {} if isinstance(update, AddSnapshot) else {}
            if summary.get("engine-name"):
                return _name(f"{summary['engine-name']} {summary.get('engine-version', '')}".strip())
    return None


def _name(text: str) -> str | None:
    """Cut to what an intent may carry; None for nothing. A header may hold bytes that are no text."""
    clean = "".join(character if character.isprintable() else "?" for character in text[:CHARACTERS_MAX])
    return clean or None
