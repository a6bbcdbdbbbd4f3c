"""Pointers made anew from the newest committed segments of their journals."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from firn.coordinator.commits.pointer_move import WATERMARKS_KEPT
from firn.coordinator.recovery.contents import Contents
from firn.coordinator.recovery.journals import Journals, Link
from firn.model.errors import CorruptFile
from firn.model.table_properties import JOURNAL_HEAD
from firn.model.view import ViewMetadata
from firn.storage.journal import JournalFiles, segment_key
from firn.storage.pointers import Pointer

WATERMARK_SEGMENTS: Final = 64
"""Segments that are looked through for the streams' watermarks, which decide nothing."""


def pointer_of(link: Link, *, journals: Journals, journal: JournalFiles, contents: Contents) -> Pointer:
    """The pointer that named this segment as its journal's head. Raises what reading the table raises."""
    pointer = _dropped(link, journals) if link.batch.new_metadata is None else _live(link, journals, contents)
    return msgspec.structs.replace(pointer, watermarks=_watermarks(link, journals, journal))


def _live(link: Link, journals: Journals, contents: Contents) -> Pointer:
    batch = link.batch
    assert batch.new_metadata is not None
    current = contents.current(link, batch.new_metadata)
    catalog: Literal["metastore", "file-system"] = batch.catalog
    if not isinstance(current, ViewMetadata) and journals.find(current.properties.get(JOURNAL_HEAD, "")) is not None:
        catalog = "file-system"  # also where the journal is of a version that did not say so
    location = batch.new_metadata
    if catalog == "file-system":
        newest = contents.newest(link.home)
        location = location if newest is None else newest[0]
    return Pointer(
        table=batch.table,
        kind=batch.kind,
        catalog=catalog,
        uuid=batch.table_uuid,
        location=current.location,
        also_at=batch.also_at,
        metadata_location=location,
        metadata_digest=contents.digest(location),
        journal_head=link.location,
    )


def _dropped(link: Link, journals: Journals) -> Pointer:
    """What a drop or a rename leaves behind: where the table was, and the name under which it goes on."""
    end = link
    while end.batch.base_metadata is None:
        before = end.batch.previous_segment
        if before is None:
            raise CorruptFile(link.location, "the journal says that the table is gone, and nowhere that it was there")
        end = journals.by_key[segment_key(before)]
    assert end.batch.base_metadata is not None
    return Pointer(
        table=link.batch.table,
        kind=link.batch.kind,
        catalog=end.batch.catalog,
        uuid=link.batch.table_uuid,
        location=end.home,
        also_at=link.batch.also_at,
        metadata_location=end.batch.base_metadata,
        journal_head=link.location,
        dropped=True,
        dropped_ms=end.batch.timestamp_ms,
        purge=end.batch.purge,
        renamed_to=end.batch.renamed_to,
    )


def _watermarks(link: Link, journals: Journals, journal: JournalFiles) -> dict[str, str]:
    """The last decided entry of each stream that the newest segments speak of."""
    found: dict[str, str] = {}
    for _ in range(WATERMARK_SEGMENTS):
        for decided in reversed(journal.read(link.location).decided):
            stream, _, entry_id = decided.entry.rpartition("/")
            if decided.outcome.table == link.batch.table:
                found.setdefault(stream, entry_id)
        if len(found) >= WATERMARKS_KEPT or link.batch.previous_segment is None:
            break
        link = journals.by_key[segment_key(link.batch.previous_segment)]
    return dict(list(found.items())[:WATERMARKS_KEPT][::-1])
