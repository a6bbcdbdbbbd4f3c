"""Entries that no lane gets: those that are no intents, and those that could not be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Final

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.outcomes.publish import Publisher
from firn.model.errors import FirnError, InvalidIntent
from firn.model.intent_codec import identity_of
from firn.model.limits import Limits
from firn.storage.intent_streams import Entry, IntentStreams
from firn.storage.log import get_logger

LOOK_BACK_S: Final = 5.0
"""How long the journal is asked for what was decided on an intent that cannot be read: all others wait."""


Identity = tuple[str | None, str | None, str | None]
"""Intent id, table and reply stream."""


LOOK_PAUSE: Final = 3
"""How many times as long as it took to look for an outcome nothing is looked for: a fourth of the time at most."""

LOOKS_AHEAD_S: Final = 10.0
"""How far ahead of its share looking may be, so that a few entries are all looked for."""


class SetAside:
    """Sets entries of one daemon aside as dead letters; `epoch` is the identity of the queue's content."""

    def __init__(self, streams: IntentStreams, lanes: Lanes, publisher: Publisher, *, limits: Limits) -> None:
        self._streams = streams
        self._reply_prefix = streams.names.replies
        self._lanes = lanes
        self._publisher = publisher
        self._limits = limits
        self._looks_from = 0.0
        self._log: Any = get_logger()

    def identity_of(self, entry: Entry) -> Identity:
        """Whose intent the entry is, as far as it says. Of a long one in a worker thread: it is read as a whole."""
        return identity_of(entry.payload or b"", limits=self._limits, reply_prefix=self._reply_prefix)

    def refuse(self, entry: Entry, error: InvalidIntent, *, identity: Identity, epoch: str) -> Awaitable[None] | None:
        """Set aside what is no intent. Its writer is answered, as far as the entry says who that is.

        The answer goes under the intent's id, too, unless an intent was decided under it: what is returned, if
        anything, is to be awaited, and finds that out.
        """
        if identity[0] is not None and self._publisher.refusals.is_known_by(entry, identity[0]):
            return self._refuse_again(entry, error, identity, epoch=epoch)
        self._publisher.dead_letter(entry, rule=error.rule, message=str(error), identity=identity, epoch=epoch)
        return None

    async def _refuse_again(self, entry: Entry, error: InvalidIntent, identity: Identity, *, epoch: str) -> None:
        intent_id, table, _ = identity
        assert intent_id is not None
        own_id = await self._is_undecided(table, intent_id)
        self._publisher.dead_letter(
            entry, rule=error.rule, message=str(error), identity=identity, epoch=epoch, own_id=own_id
        )

    async def _is_undecided(self, table: str | None, intent_id: str) -> bool:
        """Whether neither Redis nor the table's journal has an outcome of an intent; False where that is not known.

        Looking costs at most a part of the time: entries that are no intents must not hold up those that are.
        """
        started = time.monotonic()
        if started < self._looks_from - LOOKS_AHEAD_S:
            return False
        table = self._publisher.refusals.table_of(intent_id) or table
        try:
            async with asyncio.timeout(LOOK_BACK_S):
                if await self._streams.outcome(intent_id) is not None:
                    return False
                return table is None or await self._lanes.decided_before(table, intent_id) is None
        except (FirnError, OSError) as error:  # TimeoutError, too
            self._log.warning("past of an intent not read", intent_id=intent_id, reason=str(error))
            return False
        finally:
            took_s = time.monotonic() - started
            self._looks_from = max(self._looks_from, started) + (1 + LOOK_PAUSE) * took_s

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
