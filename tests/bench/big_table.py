"""A large table, written as its files are: as many commits would take hours.

Every file is in a manifest with all its metrics, a hundred to each, and every manifest came with a snapshot of its own.
The head lists them all. Older snapshots list their own manifest only, and the oldest have no list at all: nobody reads
them, but registration looks at the newest thousand.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from firn.coordinator.replay.registration import LISTS_READ_MAX
from firn.model.content_file import bind_content_file
from firn.model.datafile import DataFile
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import spec_from_json
from firn.model.schema import schema_from_json
from firn.model.snapshot import Snapshot, SnapshotLogEntry, SnapshotRef
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.manifests import encode_manifest, manifest_file
from firn.storage.metadata_files import encode_metadata
from tests.bench.data_files import SCHEMA, SPEC, content_file, make_facts

FILES_PER_MANIFEST = 100
VARIETY = 256
FIRST_MS = 1_767_225_600_000
"""2026-01-01: when the first snapshot was made, a second before the next."""


def write_big_table(location: Path, *, files: int, properties: Mapping[str, str] | None = None) -> str:
    """Write the table into a folder that is not there yet; the location of its metadata file."""
    (location / "metadata").mkdir(parents=True)
    metadata = new_table_metadata(
        schema_from_json(SCHEMA),
        spec_from_json(SPEC),
        location=str(location),
        table_uuid=str(uuid.uuid4()),
        now_ms=FIRST_MS,
        format_version=2,
    )
    manifests = list(_manifests(metadata, location, files))
    snapshots = tuple(_snapshot(location, number) for number in range(1, len(manifests) + 1))
    for snapshot, own in list(zip(snapshots, manifests, strict=True))[-LISTS_READ_MAX:-1]:
        _write_list(snapshot, [own])
    head = snapshots[-1]
    _write_list(head, manifests[::-1])
    grown = msgspec.structs.replace(
        metadata,
        properties={**metadata.properties, **(properties or {})},
        snapshots=snapshots,
        snapshot_log=tuple(SnapshotLogEntry(timestamp_ms=s.timestamp_ms, snapshot_id=s.snapshot_id) for s in snapshots),
        current_snapshot_id=head.snapshot_id,
        refs={"main": SnapshotRef(snapshot_id=head.snapshot_id, type="branch")},
        last_sequence_number=head.sequence_number,
        last_updated_ms=head.timestamp_ms,
    )
    path = location / "metadata" / "00000-big.metadata.json"
    path.write_bytes(encode_metadata(grown))
    return str(path)


def _write_list(snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
    assert snapshot.manifest_list is not None
    listed = encode_manifest_list(
        manifests,
        format_version=2,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
    )
    Path(snapshot.manifest_list).write_bytes(listed)


def _manifests(metadata: TableMetadata, location: Path, files: int) -> Iterator[ManifestFile]:
    rng = random.Random("big")
    made = [_bound(metadata, rng) for _ in range(VARIETY)]
    for number in range(1, files // FILES_PER_MANIFEST + 1):
        first = (number - 1) * FILES_PER_MANIFEST
        entries = [
            ManifestEntry(
                status=Status.ADDED,
                snapshot_id=number,
                data_file=msgspec.structs.replace(made[n % VARIETY], file_path=f"{location}/data/{n:09d}.parquet"),
            )
            for n in range(first, first + FILES_PER_MANIFEST)
        ]
        encoded = encode_manifest(
            entries,
            schema=metadata.current_schema,
            spec=metadata.default_spec,
            content="data",
            format_version=2,
            snapshot_id=number,
        )
        path = location / "metadata" / f"{number:06d}-m0.avro"
        path.write_bytes(encoded.data)
        yield msgspec.structs.replace(
            manifest_file(encoded, str(path)), sequence_number=number, min_sequence_number=number
        )


def _bound(metadata: TableMetadata, rng: random.Random) -> DataFile:
    return bind_content_file(content_file(make_facts(rng), "/nowhere"), metadata, where="file")


def _snapshot(location: Path, number: int) -> Snapshot:
    return Snapshot(
        snapshot_id=number,
        parent_snapshot_id=number - 1 or None,
        sequence_number=number,
        timestamp_ms=FIRST_MS + number * 1000,
        manifest_list=f"{location}/metadata/snap-{number}.avro",
        summary={
            "operation": "append",
            "added-data-files": str(FILES_PER_MANIFEST),
            "total-data-files": str(number * FILES_PER_MANIFEST),
            "total-delete-files": "0",
        },
        schema_id=0,
    )
