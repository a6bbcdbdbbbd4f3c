"""The id of the intent that a request becomes: the same for the same request, so that a repetition changes nothing.

A client that repeats a request either says so by an ``Idempotency-Key``, or sends the same bytes again. An id that is
made from the content is enough for that: an attempt that a client planned anew, after a conflict, has other content
and is another intent, even where it adds the snapshot of the attempt before under the same id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from firn.coordinator.catalog.requests import TableChange
from firn.coordinator.catalog.senders import Sender
from firn.model.errors import InvalidInput
from firn.model.identifiers import is_intent_id, uuid7
from firn.model.rest_updates import AddSnapshot, Update

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

PAST_MS: Final = 6 * 3_600_000
"""How old a snapshot may be whose time an id is made from: intents older than `Limits.dedupe_window_hours` are refused,
and the request may wait in its stream for hours."""

FUTURE_MS: Final = 10 * 60_000
"""How far ahead the clock of a client may be for that."""

_CANONICAL: Final = msgspec.json.Encoder(order="sorted")


def intent_id_of(
    key: str | None, changes: Sequence[tuple[str, TableChange]], *, sender: Sender, now_ms: int, entropy: bytes
) -> str:
    """Return the id of the intent for a request that changes tables, each given by its name.

    It is the key where there is one; what the request says where it adds snapshots, whose ids their client made; and
    new otherwise. Raises InvalidInput for a key that is no UUIDv7.
    """
    if key is not None:
        return id_of_key(key)
    made_ms = _made_ms(update for _, change in changes for update in change.updates)
    if made_ms is None or not now_ms - PAST_MS <= made_ms <= now_ms + FUTURE_MS:
        return uuid7(now_ms=now_ms, entropy=entropy)
    content: list[object] = [(table, change.body.requirements, change.body.updates) for table, change in changes]
    content.append(sender)  # the intent carries it, and one id has one content
    digest = hashlib.blake2b(_CANONICAL.encode(content), digest_size=10, person=b"firn-rest-commit")
    return uuid7(now_ms=made_ms, entropy=digest.digest())


def id_of_key(key: str) -> str:
    """Return an ``Idempotency-Key`` as an intent id; raises InvalidInput for one that is no UUIDv7."""
    lower = key.strip().lower()
    if not is_intent_id(lower):
        raise InvalidInput(f"must be a UUIDv7, not {key[:80]!r}", where=IDEMPOTENCY_KEY)
    return lower


def _made_ms(updates: Iterable[Update]) -> int | None:
    """When the newest snapshot was made that the updates add, by its client's clock; None where they add none."""
    times = [update.snapshot.timestamp_ms for update in updates if isinstance(update, AddSnapshot)]
    return max(times, default=None)
