"""The work that waits behind a batch, and what it needs of the tables that the batch may take history from."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from firn.coordinator.lanes.lane_queue import LaneQueue
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.pending import Pending
from firn.coordinator.replay.history_limit import is_due
from firn.coordinator.replay.holds import Hold, holds_of
from firn.coordinator.tables.table_state import TableState
from firn.model.errors import FirnError
from firn.model.intent import Intent
from firn.model.operations.rest import RestCommit
from firn.model.operations.upkeep import ExpireSnapshots
from firn.storage.log import get_logger


def takes_history(intent: Intent) -> bool:
    """Whether an intent asks for snapshots to be forgotten."""
    if isinstance(intent, RestCommit):
        return any(intent.updates_of("remove-snapshots"))
    return isinstance(intent, ExpireSnapshots)


class WorkBehind:
    """What waits behind the batches of one lane. To be asked under the locks of the tables that it is asked about."""

    def __init__(self, table: str, shop: Workshop, *, queue: LaneQueue) -> None:
        self._table = table
        self._shop = shop
        self._queue = queue
        self._log = get_logger()

    async def needs(self, batch: Sequence[Pending], state: TableState) -> tuple[Hold, ...] | None:
        """Return what it needs of the lane's own table; nothing is read where the batch takes no history from it.

        None: it could not be read, and the batch does not depend on it, but must not take history. Raises as reading
        the streams does where an intent of the batch asks for an expiry.
        """
        is_asked_for = any(takes_history(pending.decoded.intent) for pending in batch)
        if not is_asked_for and not is_due(state.metadata):
            return ()
        try:
            in_streams = await self._needed(self._table, state, None)
        except FirnError as error:
            if is_asked_for:
                raise
            self._log_skipped(self._table, error)
            return None
        # The queue is looked at last: what came into the lane meanwhile was not looked for in the streams.
        return (*(hold for intent in self._queue.intents for hold in holds_of(intent)), *in_streams)

    async def needs_beside(
        self, batch: Sequence[Pending], states: Mapping[str, TableState]
    ) -> dict[str, tuple[Hold, ...]]:
        """What is needed of each of the other tables of a transaction whose history is due to be cut back.

        Tables for which it could not be read are left out. Their own lanes are not asked, which may be in other
        daemons: whatever waits anywhere stands in a stream until its outcome has been told. So what has just been
        decided may keep a snapshot until the next cut.
        """
        besides = frozenset((pending.entry.shard, pending.entry.entry_id) for pending in batch)
        due = [table for table, state in states.items() if is_due(state.metadata)]
        found: dict[str, tuple[Hold, ...]] = {}
        for table in due:
            try:
                found[table] = await self._needed(table, states[table], besides)
            except FirnError as error:
                self._log_skipped(table, error)
        return found

    async def _needed(
        self, table: str, state: TableState, besides: Collection[tuple[int, str]] | None
    ) -> tuple[Hold, ...]:
        """Return what the streams, the reservations and the consumers of its changes need of a table."""
        if state.metadata is None:
            return await self._shop.waiting(table, besides)
        waiting = self._shop.waiting(table, besides)
        in_streams, consumed = await asyncio.gather(waiting, self._shop.consumed(state.metadata.table_uuid))
        return (*consumed, *in_streams)

    def _log_skipped(self, table: str, error: FirnError) -> None:
        self._log.warning("expiry on commit skipped", table=table, reason=str(error))
