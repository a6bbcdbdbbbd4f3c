"""Refusals that no journal keeps: there was no table, or none that could be read.

They are final like all others. So they are remembered here for a while, and in Redis, with the intent's digest, for as
long as outcomes are; what is submitted again is answered from there. Where Redis was emptied, too, nobody can know any
more: the intent is decided anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.pending import Pending
from firn.model.errors import FirnError
from firn.model.identifiers import intent_id_ms, intent_ids_ms
from firn.model.outcome import Committed, Rejected, decode_outcome
from firn.storage.intent_streams import IntentStreams

RECENT_MAX: Final = 10_000
"""Refusals that are remembered without asking Redis: for the moment until it has them, and for young ids."""

STATED_DIGEST: Final = "digest"
"""Under this name the details of a stated outcome have the digest of the intent that it is about."""

YOUNG_MS: Final = 1_000
"""An intent whose id is no further from the queue's clock comes for the first time, or was refused just now."""


class Refusals:
    """What was refused without a journal, by this daemon or another."""

    def __init__(self, streams: IntentStreams) -> None:
        self._streams = streams
        self._recent: OrderedDict[str, Rejected] = OrderedDict()
        self._since_ms: dict[int, int] = {}
        """By shard, the queue's time since when it is this daemon that takes its entries, and not one before it."""

    def took_over(self, shard: int) -> None:
        """The shard has been another daemon's, which may have refused what comes again now."""
        self._since_ms.pop(shard, None)

    def takes(self, shards: Iterable[int], *, now_ms: int) -> None:
        """These shards are this daemon's, at the queue's time `now_ms`; nothing was taken of those that are new."""
        for shard in shards:
            self._since_ms.setdefault(shard, now_ms)

    def add(self, outcome: Rejected) -> None:
        """Remember a refusal, before it is told. It must have the intent's digest."""
        assert outcome.digest is not None
        self._recent[outcome.intent_id] = outcome
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)

    async def of(self, batch: Sequence[Pending]) -> Mapping[str, Rejected]:
        """The refusals of those in the batch that were refused before, by intent id.

        Asks Redis only where there is an intent that is not new by its looks: then raises Unavailable when it does not
        answer, because nobody knows whether it was decided.
        """
        known: dict[str, Rejected] = {}
        asked: list[str] = []
        ids = [pending.decoded.intent.intent_id for pending in batch]
        recent, may_be_known = self._recent, self._may_be_known
        for pending, intent_id, made_ms in zip(batch, ids, intent_ids_ms(ids), strict=True):
            if intent_id in recent:
                known[intent_id] = recent[intent_id]
            elif may_be_known(pending, made_ms):
                asked.append(intent_id)
        if asked:
            for intent_id, data in zip(asked, await self._streams.outcomes(asked), strict=True):
                outcome = None if data is None else refusal_in(data)
                if outcome is not None:
                    known[intent_id] = outcome
        return known

    async def stated(self, batch: Sequence[Pending]) -> Mapping[str, Committed]:
        """What somebody has stated of those in the batch (`firn.storage.given_up`), and Redis has, by intent id.

        Only of the same content. Nothing while Redis does not answer: then they wait, and others need not.
        """
        try:
            told = await self._streams.outcomes([pending.decoded.intent.intent_id for pending in batch])
        except (FirnError, OSError):
            return {}
        found: dict[str, Committed] = {}
        for pending, data in zip(batch, told, strict=True):
            try:
                outcome = None if data is None else decode_outcome(data)
            except msgspec.DecodeError:
                continue
            if isinstance(outcome, Committed) and outcome.details.get(STATED_DIGEST) == pending.decoded.digest:
                found[outcome.intent_id] = outcome
        return found

    def may_be_known(self, pending: Pending) -> bool:
        """Whether an intent may have been seen before: its entry comes again, or its id is not young."""
        return self._may_be_known(pending, intent_id_ms(pending.decoded.intent.intent_id))

    def _may_be_known(self, pending: Pending, made_ms: int) -> bool:
        entry = pending.entry
        if entry.deliveries > 1:
            return True
        entry_ms = pending.entry_ms
        since_ms = self._since_ms.get(entry.shard)
        # A young id that the daemon before has refused was made before `since_ms`, by a clock that may be a bit ahead.
        return abs(entry_ms - made_ms) > YOUNG_MS or since_ms is None or entry_ms <= since_ms + 2 * YOUNG_MS


def refusal_in(data: bytes) -> Rejected | None:
    """The refusal without a journal that Redis has; None for other outcomes, and for what is none."""
    try:
        outcome = decode_outcome(data)
    except msgspec.DecodeError:
        return None
    return outcome if isinstance(outcome, Rejected) and outcome.digest is not None else None
