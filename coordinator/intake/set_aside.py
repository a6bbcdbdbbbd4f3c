"""Entries that no lane gets: those that are no intents, and those that could not be read."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.outcomes.publish import Publisher
from firn.model.errors import FirnError, InvalidIntent
from firn.model.intent_codec import identity_of
from firn.model.limits import Limits
from firn.storage.intent_streams import Entry, IntentStreams

LOOK_BACK_S: Final = 5.0
"""How long the journal is asked for what was decided on an intent that cannot be read: all others wait."""


Identity = tuple[str | None, str | None, str | None]
"""Intent id, table and reply stream."""


class SetAside:
    """Sets entries of one daemon aside as dead letters; `epoch` is the identity of the queue's content."""

    def __init__(self, streams: IntentStreams, lanes: Lanes, publisher: Publisher, *, limits: Limits) -> None:
        self._streams = streams
        self._reply_prefix = streams.names.replies
        self._lanes = lanes
        self._publisher = publisher
        self._limits = limits
        self._log: Any = structlog.get_logger()

    def identity_of(self, entry: Entry) -> Identity:
        """Whose intent the entry is, as far as it says. Of a long one in a worker thread: it is read as a whole."""
        return identity_of(entry.payload or b"", limits=self._limits, reply_prefix=self._reply_prefix)

    def refuse(self, entry: Entry, error: InvalidIntent, *, identity: Identity, epoch: str) -> None:
        """It is no intent, or none that may be: its writer is told, as far as the entry says who that is."""
        self._publisher.dead_letter(entry, rule=error.rule, message=str(error), identity=identity, epoch=epoch)

    async def unreadable(self, entry: Entry, error: Exception, *, epoch: str) -> None:
        """Reading it failed, for want of memory or by a mistake of ours, which says nothing about the intent.

        Its content cannot be compared with what was decided under its id before. But the id is its writer's word that
        it is the same: what the journal has of it is told again. Where the journal cannot say, or has nothing yet of
        one that was handed out before, nobody is told anything, and it is submitted again.
        """
        self._log.error(
            "intent not read", shard=entry.shard, entry=entry.entry_id, bytes=len(entry.payload or b""), exc_info=error
        )
        try:
            identity = await asyncio.to_thread(self.identity_of, entry)
        except Exception:  # noqa: BLE001 - it is what could not be read
            identity = None, None, None
        intent_id, table, _ = identity
        first, is_known = None, intent_id is None or table is None
        if intent_id is not None and await self._streams.outcome(intent_id) is not None:
            identity = None, table, None
        elif intent_id is not None and table is not None:
            try:
                async with asyncio.timeout(LOOK_BACK_S):
                    first = await self._lanes.decided_before(table, intent_id)
                is_known = True
            except (FirnError, OSError) as looking:  # TimeoutError, too: a store that hangs stops no other table
                self._log.warning("past of an intent not read", intent_id=intent_id, reason=str(looking))
        if first is None and (entry.deliveries > 1 or not is_known):
            identity = None, table, None
        message = f"the daemon could not read it: {error!r}"
        if first is not None:
            message += f"; intent {intent_id} had been decided before, which was told again"
        self._publisher.dead_letter(
            entry, rule="internal-error", message=message, identity=identity, epoch=epoch, first=first
        )

    def unread(self, entry: Entry, *, epoch: str) -> None:
        """Not even refusing it came to an end: nothing in it is looked at any more, so nobody can be told."""
        self._log.error("entry set aside unread", shard=entry.shard, entry=entry.entry_id, deliveries=entry.deliveries)
        message = f"it was delivered {entry.deliveries} times, and could not even be refused"
        self._publisher.dead_letter(entry, rule="poison", message=message, identity=(None, None, None), epoch=epoch)
