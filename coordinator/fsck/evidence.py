"""The history of a table as it is stored: its journal, and its metadata versions boiled down to what is compared.

Versions are read one after the other and only two are held at a time: a table of ten thousand versions is checked in
the memory of a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from firn.coordinator.fsck.finding import Finding
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.progress import Progress, counted, unseen
from firn.model.snapshot import Snapshot
from firn.storage.journal import JournalFiles, sequence_of
from firn.storage.pointers import Pointer


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One metadata file: its counters, and how it differs from the version before it.

    `base` is the version that it was made from as the journal (or its own log) says, None for a table's first;
    `logged_base` what its metadata log says. `compared` tells whether the base could be read; without it
    `new_snapshots` is empty.
    """

    location: str
    base: str | None
    logged_base: str | None
    table_uuid: str
    format_version: int
    last_updated_ms: int
    last_sequence_number: int
    last_column_id: int
    last_partition_id: int
    next_row_id: int
    compared: bool
    new_snapshots: tuple[Snapshot, ...] = ()
    changed_snapshot_ids: tuple[int, ...] = ()


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Pointer, journal (oldest first), versions (oldest first), the metadata as it is now.

    `journal_complete`: it was read back to the table's first swap. `findings` are what gathering found wrong already.
    """

    pointer: Pointer
    segments: tuple[Segment, ...]
    journal_complete: bool
    versions: tuple[Version, ...]
    current: TableMetadata | None
    findings: tuple[Finding, ...]


def gather(pointer: Pointer, *, reader: TableReader, journal: JournalFiles, progress: Progress = unseen) -> Evidence:
    """Read the history of a table, of a view only its journal.

    Raises Unavailable; all else that is wrong becomes a finding.
    """
    findings: list[Finding] = []
    segments, complete = _segments(pointer, journal, findings, progress)
    if pointer.kind == "view":
        return Evidence(
            pointer=pointer, segments=tuple(segments), journal_complete=complete, versions=(), current=None,
            findings=tuple(findings),
        )  # fmt: skip
    current = None if pointer.dropped else _read(reader, pointer.metadata_location, findings)
    logged = () if current is None else tuple(entry.metadata_file for entry in current.metadata_log)
    moves = _moves(pointer, segments, logged)
    each = counted(moves, "version", total=len(moves), progress=progress)
    versions = tuple(_versions(each, reader, needed={*logged, pointer.metadata_location}, findings=findings))
    return Evidence(
        pointer=pointer,
        segments=tuple(segments),
        journal_complete=complete,
        versions=versions,
        current=current,
        findings=tuple(findings),
    )


def _segments(
    pointer: Pointer, journal: JournalFiles, findings: list[Finding], progress: Progress
) -> tuple[list[Segment], bool]:
    found: list[Segment] = []
    seen: set[str] = set()
    location = pointer.journal_head
    newest = -1 if location is None else sequence_of(location)
    while location is not None:
        if location in seen:
            findings.append(Finding(invariant="linear-history", where=location, message="the journal runs in a circle"))
            return found[::-1], False
        seen.add(location)
        progress("journal segment", len(seen), newest if newest > 0 else None)
        try:
            segment = journal.read(location)
        except NotFound:
            findings.append(Finding(invariant="nothing-missing", where=location, message="the journal segment is gone"))
            return found[::-1], False
        except (CorruptFile, InvalidInput) as error:
            findings.append(Finding(invariant="content-agrees", where=location, message=str(error)))
            return found[::-1], False
        found.append(segment)
        location = segment.batch.previous_segment
    return found[::-1], pointer.journal_head is not None


def _moves(pointer: Pointer, segments: Sequence[Segment], logged: Sequence[str]) -> list[tuple[str | None, str]]:
    """(base, new) of every version that is known of, oldest first: from the journal, and before it from the log."""
    journaled: list[tuple[str | None, str]] = []
    for segment in segments:
        base, new = segment.batch.base_metadata, segment.batch.new_metadata
        if segment.batch.kind == "table" and new is not None and new != base:
            journaled.append((base, new))
    known = {new for _, new in journaled}
    older = [location for location in (*logged, pointer.metadata_location) if location not in known]
    if pointer.dropped:
        older = []
    # Versions of other writers may stand between journaled ones: what came before is said by the log, not by `older`.
    every = [*logged, pointer.metadata_location]
    before = dict(zip(every[1:], every, strict=False))
    chain: list[tuple[str | None, str]] = [(before.get(location), location) for location in older]
    return chain + journaled


def _versions(
    moves: Iterable[tuple[str | None, str]], reader: TableReader, *, needed: set[str], findings: list[Finding]
) -> Iterator[Version]:
    """The versions that can be read; of those in `needed` it is a breach when one cannot."""
    before: tuple[str, TableMetadata] | None = None
    for base, location in moves:
        metadata = _read(reader, location, findings if location in needed else None)
        if metadata is None:
            before = None
            continue
        base_metadata = before[1] if before is not None and before[0] == base else None
        if base_metadata is None and base is not None:  # another writer's version, or one whose file is gone
            base_metadata = _read(reader, base, None)
        yield version_of_metadata(metadata, location=location, base=base, base_metadata=base_metadata)
        before = (location, metadata)


def version_of_metadata(
    metadata: TableMetadata, *, location: str, base: str | None, base_metadata: TableMetadata | None
) -> Version:
    """What is compared of a version. `base_metadata` is None where it cannot be read, and for a table's first."""
    known = {} if base_metadata is None else {s.snapshot_id: s for s in base_metadata.snapshots}
    compared = base is None or base_metadata is not None
    return Version(
        location=location,
        base=base,
        logged_base=metadata.metadata_log[-1].metadata_file if metadata.metadata_log else None,
        table_uuid=metadata.table_uuid,
        format_version=metadata.format_version,
        last_updated_ms=metadata.last_updated_ms,
        last_sequence_number=metadata.last_sequence_number,
        last_column_id=metadata.last_column_id,
        last_partition_id=metadata.last_partition_id,
        next_row_id=metadata.next_row_id or 0,
        compared=compared,
        new_snapshots=tuple(s for s in metadata.snapshots if s.snapshot_id not in known) if compared else (),
        changed_snapshot_ids=tuple(
            s.snapshot_id for s in metadata.snapshots if s.snapshot_id in known and known[s.snapshot_id] != s
        ),
    )


def _read(reader: TableReader, location: str, findings: list[Finding] | None) -> TableMetadata | None:
    """A metadata file; None when it cannot be read, which is a finding where `findings` are given."""
    try:
        return reader.metadata(location)
    except NotFound:
        found = Finding(invariant="nothing-missing", where=location, message="the metadata file is gone")
    except (CorruptFile, InvalidInput) as error:
        found = Finding(invariant="content-agrees", where=location, message=str(error))
    if findings is not None and found not in findings:
        findings.append(found)
    return None
