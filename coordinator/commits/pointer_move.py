"""The move of a table's pointer: its metadata file before and after, and the pointer that names the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from firn.coordinator.pending import Pending
from firn.coordinator.replay.places import places_beside
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_state import TableState, uuid_of
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import set_properties, with_metadata_log, without_intermediate_snapshots
from firn.model.table_properties import JOURNAL_HEAD
from firn.model.view import ViewMetadata
from firn.storage.content_digests import digest_of_bytes
from firn.storage.grown_content import Content
from firn.storage.metadata_files import (
    Codec,
    codec_for,
    encode_with_digest,
    metastore_name,
    numbered_name,
    version_of,
)
from firn.storage.pointers import Pointer, with_digest
from firn.storage.view_files import encode_view, view_codec_for

WATERMARKS_KEPT = 8
"""Streams (epoch and shard) whose watermark a pointer keeps; pointers stay small."""


class MetadataFile(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A metadata file to be written, with the digest of its bytes."""

    location: str
    data: Content
    digest: str


class Moved(msgspec.Struct, frozen=True):
    """The metadata file before and after; None where there is no table."""

    base: str | None
    new: str | None


def move(state: TableState, working: Working) -> Moved:
    """The metadata file before and after. A file-system table moves with every batch: the file is its only swap."""
    pointer = state.pointer
    base = None if pointer is None or pointer.dropped else pointer.metadata_location
    current = working.current
    if working.change == "dropped" or (current is None and base is None):
        return Moved(base, None)
    if working.change == "registered":
        return Moved(base, working.registered_at)
    if working.change == "none" and working.catalog == "metastore":
        return Moved(base, base)
    assert current is not None
    previous = None if base is None else version_of(base)
    codec = _codec(current)
    if working.catalog == "file-system":
        name = numbered_name(version=1 if previous is None else previous + 1, codec=codec)
    else:
        name = metastore_name(
            version=0 if previous is None else previous + 1, unique=working.attempt.token, codec=codec
        )
    return Moved(base, f"{current.location}/metadata/{name}")


def _codec(current: TableMetadata | ViewMetadata) -> Codec:
    return view_codec_for(current) if isinstance(current, ViewMetadata) else codec_for(current)


def new_metadata_file(state: TableState, working: Working, *, moved: Moved, segment: Segment) -> MetadataFile | None:
    """The new metadata file, None where none is written; `working.metadata` becomes its content."""
    if working.current is None or moved.new is None or moved.new == moved.base or working.change == "registered":
        return None
    if working.view is not None:
        text = encode_view(working.view, codec=view_codec_for(working.view))
        return MetadataFile(location=moved.new, data=text, digest=digest_of_bytes(text))
    metadata = working.metadata
    assert metadata is not None
    if working.catalog == "file-system":
        properties = {JOURNAL_HEAD: segment.location}
        metadata = set_properties(metadata, properties, now_ms=segment.batch.timestamp_ms)
    if state.metadata is not None and moved.base is not None:
        metadata = with_metadata_log(
            without_intermediate_snapshots(metadata, base=state.metadata),
            moved.base,
            previous_updated_ms=state.metadata.last_updated_ms,
        )
    working.metadata = metadata
    data, digest = encode_with_digest(metadata, codec=codec_for(metadata))
    return MetadataFile(location=moved.new, data=data, digest=digest)


def moved_pointer(
    state: TableState,
    working: Working,
    pendings: Sequence[Pending],
    *,
    segment: Segment,
    new_location: str | None,
    digest: str | None,
) -> Pointer:
    """The pointer after the batch; it also says up to where its streams are decided."""
    watermarks = dict(state.pointer.watermarks) if state.pointer is not None else {}
    for pending in pendings:
        stream = f"{pending.epoch}/{pending.entry.shard}"
        watermarks.pop(stream, None)  # re-inserted at the end: the newest streams are kept
        watermarks[stream] = pending.entry.entry_id
    watermarks = dict(list(watermarks.items())[-WATERMARKS_KEPT:])
    current = working.current
    if state.pointer is not None and (current is None or new_location is None):
        drops = working.change == "dropped"
        return msgspec.structs.replace(
            state.pointer,
            dropped=state.pointer.dropped or drops,
            dropped_ms=segment.batch.timestamp_ms if drops else state.pointer.dropped_ms,
            purge=working.purge if drops else state.pointer.purge,
            journal_head=segment.location,
            watermarks=watermarks,
        )
    assert current is not None
    assert new_location is not None
    if state.pointer is None or state.pointer.dropped:
        pointer = Pointer(
            table=state.table,
            kind="table" if working.view is None else "view",
            catalog=working.catalog,
            uuid=uuid_of(current),
            location=current.location,
            also_at=also_at_after(state, working),
            metadata_location=new_location,
            journal_head=segment.location,
            watermarks=watermarks,
        )
        return with_digest(pointer, digest)
    moved = msgspec.structs.replace(
        state.pointer,
        metadata_location=new_location,
        location=current.location,
        also_at=also_at_after(state, working),
        journal_head=segment.location,
        watermarks=watermarks,
    )
    return moved if new_location == state.pointer.metadata_location else with_digest(moved, digest)


def also_at_after(state: TableState, working: Working) -> tuple[str, ...]:
    """Where the table has files beside its location; a place that it had once stays its own, for the files there."""
    pointer, current = state.pointer, working.current
    if current is None:
        return () if pointer is None else pointer.also_at
    if pointer is None or pointer.dropped:
        return places_beside(current)
    places = (*pointer.also_at, pointer.location, *places_beside(current))
    return tuple(dict.fromkeys(place for place in places if place != current.location))


def catalog_after(state: TableState, working: Working) -> Literal["metastore", "file-system"]:
    """Who owns the truth about the table after the batch."""
    return working.catalog if working.current is not None or state.pointer is None else state.pointer.catalog
