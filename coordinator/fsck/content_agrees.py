"""Every file that a snapshot names is what its reference says it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from firn.coordinator.fsck.contents import Contents, FileFact, Listed, read_at_once
from firn.coordinator.fsck.finding import Finding
from firn.model.amounts import plural
from firn.model.deletion_vector import from_blob
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.history import SUMMARY_INTENTS
from firn.model.manifest import Status
from firn.model.metadata import TableMetadata
from firn.model.progress import Progress, unseen
from firn.model.snapshot import Snapshot
from firn.storage.files import FileStore
from firn.storage.manifest_lists import total_mismatches
from firn.storage.thrift import read_struct

FOOTER_BYTES_MAX: Final = 256 * 1024 * 1024
_NUM_ROWS: Final = 3
"""Thrift field id."""


def content_agrees(
    metadata: TableMetadata, contents: Contents, sizes: Mapping[str, int | str | None]
) -> Iterator[Finding]:
    """Breaches among manifest lists, manifests and the sizes of files (those that are gone are left out)."""
    own = all(SUMMARY_INTENTS in (snapshot.summary or {}) for snapshot in metadata.snapshots)
    for snapshot in metadata.snapshots:
        listed = contents.snapshots.get(snapshot.snapshot_id)
        if listed is None:
            continue
        yield from _manifests_fit(snapshot, listed)
        if own:
            yield from _summary_adds_up(snapshot, listed)
    for path, fact in contents.live_files().items():
        size = sizes.get(path)
        if isinstance(size, str):
            yield _finding(path, size)
        elif size is not None and size != fact.size:
            yield _finding(path, f"has {size} bytes, its manifest says {fact.size}")


def _manifests_fit(snapshot: Snapshot, listed: Sequence[Listed]) -> Iterator[Finding]:
    where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
    for one in listed:
        manifest = one.manifest
        if manifest.sequence_number > snapshot.sequence_number:
            yield _finding(
                where,
                f"{manifest.manifest_path} has sequence number {manifest.sequence_number}, its snapshot "
                f"{snapshot.sequence_number}",
            )
        elif (
            manifest.added_snapshot_id == snapshot.snapshot_id and manifest.sequence_number != snapshot.sequence_number
        ):
            yield _finding(
                where,
                f"{manifest.manifest_path} was added by this snapshot {snapshot.sequence_number} and has sequence "
                f"number {manifest.sequence_number}",
            )


def _summary_adds_up(snapshot: Snapshot, listed: Sequence[Listed]) -> Iterator[Finding]:
    where = snapshot.manifest_list or f"snapshot {snapshot.snapshot_id}"
    for mismatch in total_mismatches(snapshot, [one.manifest for one in listed]):
        yield _finding(where, mismatch)
    if any(one.facts is None for one in listed):
        return
    own = [
        fact
        for one in listed
        if one.manifest.added_snapshot_id == snapshot.snapshot_id and one.manifest.content == "data"
        for fact in one.facts or ()
        if fact.snapshot_id == snapshot.snapshot_id
    ]
    added = [fact for fact in own if fact.status is Status.ADDED]
    removed = [fact for fact in own if fact.status is Status.DELETED]
    summary = snapshot.summary or {}
    for key, count in (
        ("added-data-files", len(added)),
        ("added-records", sum(fact.records for fact in added)),
        ("deleted-data-files", len(removed)),
        ("deleted-records", sum(fact.records for fact in removed)),
    ):
        if summary.get(key, "0") != str(count):
            yield _finding(where, f"{key} is {summary.get(key, '0')} in the summary, {count} in the manifests")


def files_agree(
    contents: Contents, sizes: Mapping[str, int | str | None], files: FileStore, *, progress: Progress = unseen
) -> Iterator[Finding]:
    """Breaches inside files: rows of Parquet files, checksum and count of deletion vectors. Reads every footer."""
    whole = [fact for path, fact in contents.live_files().items() if sizes.get(path) == fact.size]
    for finding in read_at_once(lambda fact: _inside(fact, files), whole, "file's footer", progress=progress):
        if finding is not None:
            yield finding


def _inside(fact: FileFact, files: FileStore) -> Finding | None:
    try:
        if fact.file_format == "parquet":
            rows = _parquet_rows(fact, files)
            if rows != fact.records:
                return _finding(fact.path, f"has {plural(rows, 'row')}, its manifest says {fact.records}")
        elif fact.blob is not None:
            offset, length = fact.blob
            blob = files.read_range(fact.path, offset=offset, length=length)
            from_blob(blob, location=fact.path, cardinality=fact.records)
    except (CorruptFile, InvalidInput, NotFound) as error:
        return _finding(fact.path, str(error))
    return None


def _parquet_rows(fact: FileFact, files: FileStore) -> int:
    """The number of rows in a Parquet footer (``FileMetaData.num_rows``), read without the rest of the file."""
    tail = files.read_range(fact.path, offset=max(0, fact.size - 8), length=min(8, fact.size))
    if tail[-4:] != b"PAR1":
        raise CorruptFile(fact.path, "not a Parquet file with a footer in plain text")
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= min(FOOTER_BYTES_MAX, fact.size - 8):
        raise CorruptFile(fact.path, f"a footer of {length} bytes does not fit")
    footer = files.read_range(fact.path, offset=fact.size - 8 - length, length=length)
    rows = read_struct(footer).get(_NUM_ROWS)
    if not isinstance(rows, int):
        raise CorruptFile(fact.path, "its footer does not say how many rows there are")
    return rows


def _finding(where: str, message: str) -> Finding:
    return Finding(invariant="content-agrees", where=where, message=message)
