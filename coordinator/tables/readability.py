"""Whether a table can be read: its metadata file, or all that its newest snapshot is made of, or a view's file.

Reads only, and blocking: for a worker thread. What is in the reader's cache is not read again.
"""

from __future__ import annotations

from firn.coordinator.tables.table_reader import TableReader
from firn.storage.pointers import Pointer


def read_metadata(pointer: Pointer, reader: TableReader) -> None:
    """Read the metadata file, and compare it with the pointer. Raises what a commit on it would raise."""
    if pointer.dropped:
        return
    if pointer.digest is not None:
        reader.checked(pointer.metadata_location, pointer.digest)
    elif pointer.kind == "view":
        reader.view(pointer.metadata_location)
    else:
        reader.metadata(pointer.metadata_location)


def read_whole(pointer: Pointer, reader: TableReader) -> None:
    """Read metadata, manifest list and manifests, with their checks. Raises what a commit on them would raise."""
    if pointer.dropped:
        return
    if pointer.kind == "view":
        reader.view(pointer.metadata_location, digest=pointer.digest)
        return
    metadata = reader.metadata(pointer.metadata_location, digest=pointer.digest)
    snapshot = metadata.current_snapshot
    for manifest in () if snapshot is None else reader.manifests(metadata, snapshot):
        reader.entries(metadata, manifest)
