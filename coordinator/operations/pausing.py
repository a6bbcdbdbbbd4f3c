"""Pausing and resuming tables, and waiting until what was submitted to one is decided. For operators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from firn.coordinator.insight.queue_look import PAGE, glance_at
from firn.model.errors import NotFound, Unavailable
from firn.model.pause import Pause
from firn.storage.intent_streams import FIRST_ID, IntentStreams, id_order
from firn.storage.leases import Lease, Leases
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, PointerChange, Pointers, Won
from firn.storage.sessions import Session

LOCK_WAIT_S: Final = 15.0
"""How long the batch under way may take before the table is marked without its lock."""

MARK_TRIES_MAX: Final = 50
LOOK_S: Final = 0.25
"""How often it is looked whether a stream has drained."""


class Paused(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table that was paused. `held_by` still holds its lock: it cannot move the table, but does not know yet."""

    table: str
    pause: Pause
    held_by: str | None = None


async def pause_table(session: Session, table: str, pause: Pause, *, lock_wait_s: float = LOCK_WAIT_S) -> Paused:
    """Let no more be committed to a table; the batch under way is waited for. An earlier pause is replaced.

    When this returns, no swap that began before can come off any more. Raises NotFound for what is no table or view,
    and Unavailable, after which it is to be done again.
    """
    pointers, leases = Pointers(session), Leases(session, member="operator (firn pause)")
    try:
        _require(table, await _pointer_of(pointers, table))
        await Pauses(session).note(table, pause)
        lease = await leases.acquire(table, timeout_s=lock_wait_s)
        holder = None if lease is not None else await leases.holder(table)
        try:
            await _mark(pointers, table, pause, lease=lease)
        finally:
            if lease is not None:
                await leases.release(lease)
    finally:
        await leases.close()
    return Paused(table=table, pause=pause, held_by=None if holder is None else holder.member)


async def resume_table(session: Session, table: str) -> Pause | None:
    """Let a table be committed to again; the pause that ended, None when there was none. Raises as `pause_table`."""
    pauses, pointers = Pauses(session), Pointers(session)
    pause = await pauses.of(table)
    try:
        marked = (await _pointer_of(pointers, table)).paused
        if marked is not None:
            await _mark(pointers, table, None, lease=None)
    except NotFound:
        marked = None
        if pause is None:
            raise
    await pauses.forget(table)
    return pause or marked


async def _pointer_of(pointers: Pointers, table: str) -> Pointer:
    try:
        return (await pointers.read(table)).pointer
    except NotFound as error:
        raise NotFound(f"there is no table or view {table!r} (firn tables shows those there are)") from error


async def _mark(pointers: Pointers, table: str, pause: Pause | None, *, lease: Lease | None) -> None:
    """Change what the pointer says of a pause, and nothing else. It moves the pointer: swaps under way are lost."""
    for _ in range(MARK_TRIES_MAX):
        versioned = await pointers.read(table)
        pointer = msgspec.structs.replace(versioned.pointer, paused=pause)
        change = PointerChange(table=table, pointer=pointer, expected=versioned.version)
        if isinstance(await pointers.swap([change], leases=() if lease is None else (lease,)), Won):
            return
        if lease is not None and (await pointers.read(table)).pointer.paused == pause:
            return  # its answer got lost
    raise Unavailable(f"the pointer of {table!r} moved each of {MARK_TRIES_MAX} times that it was to be marked: again")


def _require(table: str, pointer: Pointer) -> None:
    if pointer.renamed_to is not None:
        raise NotFound(f"{pointer.kind} {table!r} was renamed to {pointer.renamed_to!r}: pause that")
    if pointer.dropped:
        raise NotFound(f"{pointer.kind} {table!r} was dropped: there is nothing to pause")


class Drain(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a drain ended: intents that were undecided when it began, and those of them that still are."""

    submitted: int
    left: int


async def drain(
    streams: IntentStreams, table: str, *, shard: int, timeout_s: float, progress: Callable[[Drain], None]
) -> Drain:
    """Wait until what has been submitted to a table up to now is decided and told.

    Transactions that have the table as a further one are in the streams of their first tables, and not waited for.
    """
    until = await streams.clock_ms()
    ends_at = time.monotonic() + timeout_s
    waiting = await _undecided(streams, table, shard=shard, after=FIRST_ID, until_ms=until)
    submitted = len(waiting)
    while True:
        now = Drain(submitted=submitted, left=len(waiting))
        progress(now)
        if not waiting or time.monotonic() >= ends_at:
            return now
        await asyncio.sleep(min(LOOK_S, max(0.0, ends_at - time.monotonic())))
        before = _before(waiting[0])
        waiting = await _undecided(streams, table, shard=shard, after=before, until_ms=until)


async def _undecided(streams: IntentStreams, table: str, *, shard: int, after: str, until_ms: int) -> list[str]:
    """Entries of a table that were added by then and are not settled, in order."""
    found: list[str] = []
    while page := await streams.standing(shard, after=after, count=PAGE):
        for standing in page:
            if id_order(standing.entry_id)[0] > until_ms:
                return found
            glance = glance_at(standing.payload) if standing.state != "settled" else None
            if glance is not None and glance.table == table:
                found.append(standing.entry_id)
        after = page[-1].entry_id
    return found


def _before(entry_id: str) -> str:
    milliseconds, sequence = id_order(entry_id)
    return f"{milliseconds}-{sequence - 1}" if sequence else f"{milliseconds - 1}-{2**63}"
