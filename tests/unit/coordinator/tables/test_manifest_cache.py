"""Manifests in memory take no more of it than they may, small as they are."""

from __future__ import annotations

import gc
import tracemalloc

from firn.coordinator.tables.manifest_cache import ManifestCache
from firn.model.datafile import DataFile
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.partitioning import PartitionField, PartitionSpec, partition_type
from firn.model.schema import Schema
from firn.model.types import LONG, NestedField, StructType
from firn.storage.packed_entries import PackedEntries, pack

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(tuple(NestedField(field_id=i, name=f"column_{i}", type=LONG, required=False) for i in range(20))),
)
SPEC = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(0,), field_id=1000, name="column_0", transform="identity"),)
)
BYTES_MAX = 2 * 1024 * 1024


def location(number: int) -> str:
    return f"/warehouse/db/table/metadata/01a202e4-0951-774d-bd4f-22df63ee08d6-{number:08}-m0.avro"


def entry_of(number: int) -> ManifestEntry:
    """A file with metrics of every column."""
    file = DataFile(
        content="data",
        file_path=f"/warehouse/db/table/data/{number:032}.parquet",
        file_format="parquet",
        spec_id=0,
        partition=(number,),
        record_count=1_000 + number,
        file_size_in_bytes=100_000 + number,
        value_counts={column: 1_000 + number + column for column in range(20)},
        lower_bounds={column: number.to_bytes(8, "little") for column in range(20)},
        upper_bounds={column: number.to_bytes(8, "little") for column in range(20)},
    )
    return ManifestEntry(
        status=Status.ADDED, snapshot_id=2**60 + number, sequence_number=None, file_sequence_number=None, data_file=file
    )


def one_file(number: int) -> PackedEntries:
    """The manifest of an append of one file."""
    return pack([entry_of(number)], partition_type(SPEC, SCHEMA), format_version=2)


def test_small_manifests_take_the_memory_that_they_may():
    cache = ManifestCache(bytes_max=BYTES_MAX)
    one_file(0)  # what an encoder keeps for itself
    tracemalloc.start()
    try:
        for number in range(4_000):
            cache.keep_packed(location(number), one_file(number))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.packed(location(0)) is None, "there must have been more than fit in"
    assert cache.packed(location(3_999)) is not None
    assert 0.8 * BYTES_MAX < taken < 1.2 * BYTES_MAX


def test_decoded_entries_take_the_memory_that_they_may():
    """However short the manifest is: most of a small one is its header."""
    cache = ManifestCache(bytes_max=BYTES_MAX)
    manifests = [
        ManifestFile(manifest_path=location(number), manifest_length=8_000, partition_spec_id=0, added_snapshot_id=1)
        for number in range(1_000)
    ]
    tracemalloc.start()
    try:
        for number, manifest in enumerate(manifests):
            cache.keep_decoded(manifest, [entry_of(number)])
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.decoded(manifests[0]) is None, "there must have been more than fit in"
    assert cache.decoded(manifests[-1]) is not None
    assert 0.7 * BYTES_MAX < taken < 1.2 * BYTES_MAX
