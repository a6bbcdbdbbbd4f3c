"""The pointer is as new as the journal: nothing was committed behind the segment that it names."""

from __future__ import annotations

from collections.abc import Iterator

from firn.coordinator.fsck.finding import Finding
from firn.coordinator.recovery.pointer_ages import built_further, segments_behind
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointer


def pointer_age(pointer: Pointer, *, files: FileStore, journal: JournalFiles) -> Iterator[Finding]:
    """Yield the breach of a pointer that is older than its journal: ZooKeeper was restored from an older copy.

    Only a segment that was built upon counts: others may be leftovers of swaps that failed. A table that goes by its
    files in a folder is not compared, since its pointer may be behind them. Raises Unavailable.
    """
    if pointer.catalog != "metastore" and not pointer.dropped:
        return
    behind = segments_behind(pointer.location, pointer.journal_head, files=files, journal=journal)
    why = built_further(behind.by_name.get(pointer.table, []), pointer.journal_head)
    if why is not None:
        yield Finding(
            invariant="linear-history",
            where=pointer.journal_head or pointer.location,
            message=f"the pointer is older than the journal: {why}. firn recover {pointer.table} sets it",
        )
