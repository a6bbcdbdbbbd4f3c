"""What was decided under an intent's id and stands in no journal of its table.

A refusal that no journal keeps, because there was no table, or none that could be read, is final like all others. So it
is remembered here for a while, and in Redis, with the intent's digest, for as long as outcomes are; what is submitted
again is answered from there. Where Redis was emptied, too, nobody can know any more: the intent is decided anew.

An id that was used for another table belongs to the intent there: its journal has it, and Redis for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.pending import Pending
from firn.model.errors import FirnError
from firn.model.identifiers import intent_id_ms, intent_ids_ms
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome, is_final
from firn.storage.intent_streams import Entry, IntentStreams, id_order

RECENT_MAX: Final = 10_000
"""Refusals that are remembered without asking Redis: for the moment until it has them, and for young ids."""

STATED_DIGEST: Final = "digest"
"""Under this name the details of a stated outcome have the digest of the intent that it is about."""

TABLES_OF_IDS_MAX: Final = 50_000
"""Ids of which is remembered for which table they came first; twice as many at most. Redis is not asked of young ones:
these are remembered for longer than they are young.
"""

YOUNG_MS: Final = 1_000
"""An intent whose id is no further from the queue's clock comes for the first time, or was refused just now."""


class OfAnotherTable(msgspec.Struct, frozen=True):
    """An id that belongs to an intent for another table."""

    table: str


class Refusals:
    """What was refused without a journal, by this daemon or another, and ids that belong to other tables."""

    def __init__(self, streams: IntentStreams) -> None:
        self._streams = streams
        self._recent: OrderedDict[str, Rejected] = OrderedDict()
        self._tables: dict[str, str] = {}
        """By intent id, the table for which it came first; `_tables_before` has those that came before these."""
        self._tables_before: dict[str, str] = {}
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

    async def of(self, batch: Sequence[Pending]) -> Mapping[str, Rejected | OfAnotherTable]:
        """Return those in the batch that were refused before or whose ids are of another table, by intent id.

        Asks Redis only where there is an intent that is not new by its looks: then raises Unavailable when it does not
        answer, because nobody knows whether it was decided.
        """
        known: dict[str, Rejected | OfAnotherTable] = {}
        asked: list[Pending] = []
        ids = [pending.decoded.intent.intent_id for pending in batch]
        recent, may_be_known = self._recent, self._may_be_known
        for pending, intent_id, made_ms in zip(batch, ids, intent_ids_ms(ids), strict=True):
            table = self._first_table(intent_id, pending.decoded.intent.table)
            if intent_id in recent:
                known[intent_id] = recent[intent_id]
            elif table is not None:
                known[intent_id] = OfAnotherTable(table)
            elif may_be_known(pending, made_ms):
                asked.append(pending)
        if asked:
            found = await self._streams.outcomes([pending.decoded.intent.intent_id for pending in asked])
            for pending, data in zip(asked, found, strict=True):
                first = None if data is None else _first_in(data, table=pending.decoded.intent.table)
                if first is not None:
                    known[pending.decoded.intent.intent_id] = first
        return known

    def _first_table(self, intent_id: str, table: str) -> str | None:
        """The other table for which an id came before; None, and it is remembered, where it did not."""
        first = self.table_of(intent_id)
        if first is None:
            self._tables[intent_id] = table
            if len(self._tables) >= TABLES_OF_IDS_MAX:
                self._tables, self._tables_before = {}, self._tables
        return None if first in {None, table} else first

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

    def is_known_by(self, entry: Entry, intent_id: str) -> bool:
        """As `may_be_known`, of an entry that carries the id and is no intent."""
        is_new = self.table_of(intent_id) is None
        return not is_new or self._came_before(entry, id_order(entry.entry_id)[0], intent_id_ms(intent_id))

    def table_of(self, intent_id: str) -> str | None:
        """The table for which an intent with this id came first, as far as that is remembered."""
        return self._tables.get(intent_id) or self._tables_before.get(intent_id)

    def _may_be_known(self, pending: Pending, made_ms: int) -> bool:
        return self._came_before(pending.entry, pending.entry_ms, made_ms)

    def _came_before(self, entry: Entry, entry_ms: int, made_ms: int) -> bool:
        if entry.deliveries > 1:
            return True
        since_ms = self._since_ms.get(entry.shard)
        # A young id that the daemon before has refused was made before `since_ms`, by a clock that may be a bit ahead.
        return abs(entry_ms - made_ms) > YOUNG_MS or since_ms is None or entry_ms <= since_ms + 2 * YOUNG_MS


def _first_in(data: bytes, *, table: str) -> Rejected | OfAnotherTable | None:
    """What Redis has under the id of an intent for `table`, unless the table's journal has it or it is nobody's."""
    try:
        outcome = decode_outcome(data)
    except msgspec.DecodeError:
        return None
    if outcome.table != table and is_final(outcome):
        return OfAnotherTable(outcome.table)
    return _unjournaled(outcome)


def refusal_in(data: bytes) -> Rejected | None:
    """The refusal without a journal that Redis has; None for other outcomes, and for what is none."""
    try:
        return _unjournaled(decode_outcome(data))
    except msgspec.DecodeError:
        return None


def _unjournaled(outcome: Outcome) -> Rejected | None:
    if isinstance(outcome, Rejected) and outcome.batch is None and outcome.digest is not None:
        return outcome
    return None
