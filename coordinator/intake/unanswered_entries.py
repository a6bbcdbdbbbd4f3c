"""Entries that stand in a stream as if they were settled, and have no outcome: they are made pending again.

Somebody who moves the consumer group forward, removes a consumer, acknowledges entries or reads in the group leaves
such entries behind, and no read would ever hand them out. Which entries are settled is not what Redis says then, so
the outcomes decide: a daemon puts an intent's outcome before it acknowledges the entry. To read one that was decided
after all is safe, because its first outcome stands.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.metrics import Metrics
from firn.coordinator.operations.dead_letters import DeadLetter
from firn.model.sharding import shard_of
from firn.storage.intent_streams import FIRST_ID, IntentStreams, Standing, id_order
from firn.storage.log import get_logger

PAGE: Final = 128
"""Entries that are looked at at once; all of them may be large."""

SHOWN_MAX: Final = 10


class _Identity(msgspec.Struct, rename="kebab"):
    intent_id: str
    table: str


_IDENTITY: Final = msgspec.json.Decoder(_Identity)


class UnansweredEntries:
    """Finds them for one daemon. Nothing may be trimmed from a shard between what was seen there and `reclaim`.

    Entries older than `window_hours`, the time for which outcomes are remembered, are left alone: they may have been
    answered, and what was refused must not be decided anew.
    """

    def __init__(
        self,
        streams: IntentStreams,
        lanes: Lanes,
        metrics: Metrics,
        *,
        consumer: str,
        shards: int,
        window_hours: float,
    ) -> None:
        self._streams = streams
        self._lanes = lanes
        self._metrics = metrics
        self._consumer = consumer
        self._shards = shards
        self._window_ms = int(window_hours * 3_600_000)
        self._log = get_logger()

    async def reclaim(self, shard: int, *, is_new: bool = False) -> int:
        """Make the unanswered entries of a shard pending; return how many. Raises as the streams do.

        Of a shard that `is_new` to this daemon nobody knows whether it was edited, or who left such entries behind.
        """
        reclaimed: list[str] = []
        after = FIRST_ID
        while page := await self._streams.standing(shard, after=after, count=PAGE):
            after = page[-1].entry_id
            unanswered = await self._unanswered(shard, [one for one in page if one.state == "settled"])
            reclaimed += await self._streams.reclaim(shard, unanswered, consumer=self._consumer)
            if page[-1].state == "waiting":
                break
        if reclaimed:
            self._metrics.reclaimed_entries.inc(len(reclaimed))
            log = self._log.info if is_new else self._log.warning
            log(
                "entries read again", shard=shard, count=len(reclaimed), first=reclaimed[0], last=reclaimed[-1],
                entries=reclaimed[:SHOWN_MAX],
                hint="they stood in the stream, neither pending nor answered: does somebody else work on the group "
                "'firn'?",
            )  # fmt: skip
        return len(reclaimed)

    async def _unanswered(self, shard: int, settled: list[Standing]) -> list[str]:
        """Of entries that seem settled, those of this shard's intents that have no outcome and are no dead letters."""
        intents: dict[str, str] = {}
        for one in settled:
            try:
                identity = _IDENTITY.decode(one.payload or b"")
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue  # no intent: it was set aside, or will not be missed
            is_moved = shard_of(identity.table, shards=self._shards) != shard
            if not is_moved and not self._lanes.under_way(shard, one.entry_id):
                intents[one.entry_id] = identity.intent_id
        if not intents:
            return []
        outcomes = await self._streams.outcomes(list(intents.values()))
        missing = [entry_id for entry_id, outcome in zip(intents, outcomes, strict=True) if outcome is None]
        if not missing:
            return []
        oldest_ms = await self._streams.clock_ms() - self._window_ms
        missing = [entry_id for entry_id in missing if id_order(entry_id)[0] > oldest_ms]
        if not missing:
            return []
        letters = await self._dead_letters(shard, since=missing[0])
        return [entry_id for entry_id in missing if entry_id not in letters]

    async def _dead_letters(self, shard: int, *, since: str) -> set[str]:
        """Entries of a shard that were set aside: they may have no outcome, and one that daemons died over stays so."""
        found: set[str] = set()
        after = f"{max(0, id_order(since)[0] - 1)}-0"
        while letters := await self._streams.dead_letters(after=after, count=PAGE):
            after = letters[-1].entry_id
            for one in letters:
                try:
                    letter = msgspec.json.decode(one.data, type=DeadLetter)
                except msgspec.MsgspecError:
                    continue
                if letter.shard == shard:
                    found.add(letter.entry_id)
        return found
