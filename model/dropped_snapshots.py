"""Snapshots that a table has dropped, kept for work that was planned on them or before them.

An immutable record lists what swaps dropped, and names the records before it. The table's property
``firn.dropped-snapshots`` names the newest. `docs/decisions/0033-bases-outlive-snapshots.md` says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from firn.model.cherry_pick import PUBLISHED_WAP_ID, REPLACE_PARTITIONS, SOURCE_SNAPSHOT_ID, STAGED_WAP_ID
from firn.model.errors import CorruptFile
from firn.model.metadata import TableMetadata
from firn.model.snapshot import Snapshot, snapshot_to_json

RECORD_SNAPSHOTS_MAX: Final = 1_000_000
"""Snapshots of a record that is read; those that are written have some thousands, or what one expiry dropped."""

_KEPT: Final = frozenset({"operation", STAGED_WAP_ID, PUBLISHED_WAP_ID, SOURCE_SNAPSHOT_ID, REPLACE_PARTITIONS})
_KEPT_PREFIXES: Final = ("total-", "firn.")


class RecordRef(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Another record: where it is, how many snapshots it lists, and from when to when they were dropped (ms)."""

    location: str
    count: int
    since_ms: int
    until_ms: int


class Header(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, tag_field="record",
    tag="dropped-snapshots",
):  # fmt: skip
    """The first line of a record.

    Its snapshots were dropped from `since_ms` to `until_ms`. `earlier` are the records before it that bases may still
    need, newest first; `beyond` is the newest of those that none needs any more. `merged` are records whose snapshots
    this one lists, too. `statistics` are files that the table named no longer with the same swaps. `lost` says why the
    records before are not known, since `lost_ms`.
    """

    table_uuid: str
    since_ms: int
    until_ms: int
    earlier: tuple[RecordRef, ...] = ()
    beyond: str | None = None
    merged: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    lost: str | None = None
    lost_ms: int = 0


class Record(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One record as read back. Its snapshots stay encoded until they are asked for: few are, of many."""

    location: str
    header: Header
    snapshot_ids: tuple[int, ...]
    lines: Sequence[bytes]

    @property
    def ref(self) -> RecordRef:
        """How later records name it."""
        header = self.header
        return RecordRef(
            location=self.location,
            count=len(self.snapshot_ids),
            since_ms=header.since_ms,
            until_ms=header.until_ms,
        )

    def snapshots(self) -> Iterator[Snapshot]:
        """Return all that it lists; raises CorruptFile."""
        for snapshot_id, line in zip(self.snapshot_ids, self.lines, strict=True):
            yield decode_snapshot(line, snapshot_id=snapshot_id, location=self.location)


_HEADER: Final = msgspec.json.Decoder(Header)
_IDS: Final = msgspec.json.Decoder(tuple[int, ...])
_SNAPSHOT: Final = msgspec.json.Decoder(Snapshot)
_ENCODER: Final = msgspec.json.Encoder()


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as a line of a record, without the part of its summary that no rule asks for."""
    summary = snapshot.summary
    if summary is not None:
        summary = {name: value for name, value in summary.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return _ENCODER.encode(snapshot_to_json(msgspec.structs.replace(snapshot, summary=summary or None, extra={})))


def decode_snapshot(line: bytes, *, snapshot_id: int, location: str) -> Snapshot:
    """Return the snapshot of a line, which must be the one that the record's ids say. Raises CorruptFile."""
    try:
        snapshot = _SNAPSHOT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(location, f"dropped snapshot {snapshot_id} does not parse: {error}") from error
    if snapshot.snapshot_id != snapshot_id:
        raise CorruptFile(location, f"lists dropped snapshot {snapshot.snapshot_id} as {snapshot_id}")
    return snapshot


def encode_record(header: Header, snapshot_ids: Sequence[int], lines: Sequence[bytes]) -> bytes:
    """Return JSON lines: the header, the ids, a snapshot each, and an end mark with how many snapshots there are."""
    end = _ENCODER.encode({"end": len(lines)})
    return b"\n".join([_ENCODER.encode(header), _ENCODER.encode(snapshot_ids), *lines, end, b""])


def decode_record(data: bytes, *, location: str, table_uuid: str) -> Record:
    """Return the record of a table; raises CorruptFile naming what is wrong, also for another table's."""
    if data.count(b"\n") > RECORD_SNAPSHOTS_MAX:
        raise CorruptFile(location, f"lists more than {RECORD_SNAPSHOTS_MAX} dropped snapshots")
    lines = data.splitlines()
    try:
        end = msgspec.json.decode(lines[-1]) if len(lines) > 2 else None
        if not isinstance(end, dict) or end.get("end") != len(lines) - 3:
            raise CorruptFile(location, "record of dropped snapshots is cut: it has no end mark, or another count")
        header = _HEADER.decode(lines[0])
        snapshot_ids = _IDS.decode(lines[1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(location, f"record of dropped snapshots does not parse: {error}") from error
    if len(snapshot_ids) != len(lines) - 3:
        raise CorruptFile(location, f"has {len(snapshot_ids)} ids for {len(lines) - 3} dropped snapshots")
    if header.table_uuid != table_uuid:
        raise CorruptFile(location, f"lists dropped snapshots of table {header.table_uuid}, not of {table_uuid}")
    return Record(location=location, header=header, snapshot_ids=snapshot_ids, lines=lines[2:-1])


def dropped_since(before: TableMetadata, after: TableMetadata) -> list[Snapshot]:
    """Return the snapshots of `before` that `after` has no more, in order."""
    return [snapshot for snapshot in before.snapshots if after.snapshot_by_id(snapshot.snapshot_id) is None]


def statistics_files(metadata: TableMetadata) -> Iterator[str]:
    """The statistics files that a table names."""
    for file in (*metadata.statistics, *metadata.partition_statistics):
        path = file.get("statistics-path")
        if isinstance(path, str):
            yield path
