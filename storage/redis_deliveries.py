"""What Redis has counted of a stream and of its consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.exceptions as rx

from firn.storage.intent_streams import COUNTED_MAX, FIRST_ID, GROUP, Deliveries, ShardLag, id_after, id_order


async def group_of(redis: Any, stream: str) -> dict[str, Any] | None:
    """What XINFO says of the group; None where there is no stream, or no group on it."""
    try:
        return _ours(await redis.xinfo_groups(stream))
    except rx.ResponseError as error:
        if "no such key" not in str(error):
            raise
        return None


async def lag_of(redis: Any, stream: str) -> ShardLag | None:
    """As `IntentStreams.lag`; None where there is no stream, or no group on it."""
    pipeline = redis.pipeline(transaction=False)
    pipeline.xinfo_groups(stream)
    pipeline.xinfo_stream(stream)
    pipeline.xpending(stream, GROUP)
    groups, info, pending = await pipeline.execute(raise_on_error=False)
    for answer in (groups, info, pending):
        if isinstance(answer, Exception):
            if isinstance(answer, rx.ResponseError) and ("no such key" in str(answer) or "NOGROUP" in str(answer)):
                return None
            raise answer
    group = _ours(groups)
    if group is None:
        return None
    last = _text(group["last-delivered-id"])
    undelivered = []
    if id_order(_text(info["last-generated-id"])) > id_order(last):
        undelivered = await redis.xrange(stream, min=id_after(last), count=1)
    outstanding = [_text(entry_id) for entry_id, _ in undelivered]
    undelivered_ms = id_order(outstanding[0])[0] if outstanding else None
    if pending["min"] is not None:
        outstanding.append(_text(pending["min"]))
    return ShardLag(
        length=info["length"],
        # Not the server's word alone: it goes on counting entries that were removed before they were delivered.
        undelivered=group.get("lag") if undelivered else 0,
        pending=pending["pending"],
        entries_added=info.get("entries-added", info["length"]),
        oldest_entry_ms=min((id_order(entry_id)[0] for entry_id in outstanding), default=None),
        oldest_undelivered_ms=undelivered_ms,
    )


async def deliveries_of(redis: Any, stream: str, *, atomic: bool) -> Deliveries | None:
    """As `IntentStreams.deliveries`. Where it cannot be `atomic`, undelivered entries are counted only if there are
    none: others may have been added since the server was asked how many there ever were.

    The group's ``lag`` is not asked: after entries were removed undelivered it says something else in each version.
    """
    known = await group_of(redis, stream)
    if known is None:
        return None
    behind = _text(known["last-delivered-id"])
    pipeline = redis.pipeline(transaction=atomic)
    pipeline.xinfo_stream(stream)
    pipeline.xrange(stream, min=id_after(behind), count=COUNTED_MAX + 1)
    pipeline.xrange(stream, min=behind, max=behind, count=1)
    pipeline.xinfo_groups(stream)
    info, undelivered, last, groups = await pipeline.execute()
    group = _ours(groups)
    if group is None or _text(group["last-delivered-id"]) != behind:
        return None  # somebody else is reading: the next look will tell
    counted = len(undelivered) if atomic or not undelivered else COUNTED_MAX + 1
    added: int = info["entries-added"]
    return Deliveries(
        added=added,
        removed=added - info["length"],
        pending=group["pending"],
        undelivered=counted if counted <= COUNTED_MAX else None,
        delivered_id=behind,
        delivered_there=bool(last) and id_order(behind) > id_order(FIRST_ID),
        delivered=group.get("entries-read"),
    )


def _ours(groups: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return next((group for group in groups if _text(group["name"]) == GROUP), None)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
