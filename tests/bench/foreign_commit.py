"""Row `foreign-commit`: another engine has committed to a large table, and the daemon wants its head.

What is measured is what a batch waits for before it can be replayed, without the metadata file: the manifest list and
those manifests that the daemon does not know, here one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firn.coordinator.replay.head import Head
from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.model.manifest import ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.snapshot import Snapshot
from firn.storage.file_stores import open_files
from firn.storage.manifest_lists import assign_sequence_numbers, encode_manifest_list
from firn.storage.manifests import encode_manifest, manifest_file
from tests.bench.big_table import write_big_table
from tests.bench.folder import bench_folder
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

TARGET = 20
ROUNDS = 7
PEER_ROUNDS = 3


def foreign_commit(options: Options) -> list[Measurement]:
    """The best of several rounds of each: with the head before the commit known, and without any."""
    files = 2 * options.files
    with bench_folder() as folder:
        reader = TableReader(open_files({"file": {}}), limits=Limits(manifest_cache_bytes_max=0))
        before = reader.metadata(write_big_table(folder / "big", files=files))
        known = reader.head(before, before.current_snapshot_id)
        after = _committed(reader, before, path=f"{folder}/big/data/foreign.parquet")
        ours = min(_seconds(reader, after, known=[known], files=files + 1) for _ in range(ROUNDS))
        theirs = min(_seconds(reader, after, known=[], files=files + 1) for _ in range(PEER_ROUNDS))
    return [
        measured(
            "foreign-commit", value=1000 * ours, unit="ms", peer=1000 * theirs, peer_name="reading all manifests",
            target=TARGET, n=ROUNDS,
            note=f"{files} files in {len(known.manifests)} manifests, of which another engine has made one more",
        )
    ]  # fmt: skip


def _seconds(reader: TableReader, metadata: TableMetadata, *, known: Sequence[Head], files: int) -> float:
    started = time.perf_counter()
    head = reader.head(metadata, metadata.current_snapshot_id, known=known)
    took = time.perf_counter() - started
    assert len(head.live.index) == files
    return took


def _committed(reader: TableReader, metadata: TableMetadata, *, path: str) -> TableMetadata:
    """The table with a snapshot more, of one file in a manifest of its own."""
    head = metadata.current_snapshot
    assert head is not None
    number, sequence_number = head.snapshot_id + 1, metadata.next_sequence_number
    manifests = reader.manifests(metadata, head)
    added = _manifest(reader, metadata, manifests[0], number=number, path=path)
    location = f"{metadata.location}/metadata/snap-{number}-foreign.avro"
    listed = assign_sequence_numbers([added, *manifests], snapshot_id=number, sequence_number=sequence_number)
    data = encode_manifest_list(
        listed,
        format_version=2,
        snapshot_id=number,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
    )
    Path(location).write_bytes(data)
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence_number,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=location,
        summary={"operation": "append"},
        schema_id=0,
    )
    return add_snapshot(metadata, snapshot, branch="main", now_ms=snapshot.timestamp_ms)


def _manifest(
    reader: TableReader, metadata: TableMetadata, like: ManifestFile, *, number: int, path: str
) -> ManifestFile:
    """A manifest of one file, which is like one of another manifest."""
    entry = reader.entries(metadata, like)[0]
    file = msgspec.structs.replace(entry.data_file, file_path=path)
    new = msgspec.structs.replace(
        entry, snapshot_id=number, sequence_number=None, file_sequence_number=None, data_file=file
    )
    encoded = encode_manifest(
        [new],
        schema=metadata.current_schema,
        spec=metadata.default_spec,
        content="data",
        format_version=2,
        snapshot_id=number,
    )
    location = f"{metadata.location}/metadata/{number}-foreign-m0.avro"
    Path(location).write_bytes(encoded.data)
    return manifest_file(encoded, location)
