"""Tables that another writer has made: registered with manifests as `tests.unit.storage.foreign_manifests` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firn.coordinator.daemon import wall_clock_ms
from firn.model.intent import ContentFile, RegisterTable
from firn.model.manifest import FieldSummary
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import add_snapshot
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED
from firn.model.snapshot import Snapshot
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, new_id
from tests.unit.storage.foreign_manifests import Case, foreign, stored_bytes, tables
from tests.unit.storage.manifest_writing import committed

LOCATION = f"{WAREHOUSE}/db/events"
SNAPSHOT = 5


async def register(
    bench: Workbench,
    case: Case,
    manifests: Sequence[Sequence[Any]],
    *,
    summaries: tuple[FieldSummary, ...] | None = None,
    properties: dict[str, str] | None = None,
) -> TableMetadata:
    """Register a table whose manifests m0, m1, … have files with these partition values: ``0a``, ``0b``, ``1a``, …"""
    spec, schema = tables(case)
    now_ms = wall_clock_ms() - 60_000
    empty = new_table_metadata(
        schema, UNPARTITIONED, location=LOCATION, table_uuid="0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5", now_ms=now_ms,
        properties=properties or {},
    )  # fmt: skip
    empty = msgspec.structs.replace(
        empty, schemas=(schema,), partition_specs=(spec,), default_spec_id=spec.spec_id, last_partition_id=1000
    )
    rows = []
    for number, values in enumerate(manifests):
        made = foreign(case, *map(stored_bytes, values), folder=f"{LOCATION}/data/{number}")
        row = committed(made, f"{LOCATION}/metadata/m{number}.avro", sequence_number=3)
        bench.files.create(row.manifest_path, made.data)
        rows.append(msgspec.structs.replace(row, partitions=summaries))
    listed = f"{LOCATION}/metadata/snap-{SNAPSHOT}.avro"
    data = encode_manifest_list(
        rows, format_version=2, snapshot_id=SNAPSHOT, parent_snapshot_id=None, sequence_number=3
    )  # fmt: skip
    bench.files.create(listed, data)
    snapshot = Snapshot(
        snapshot_id=SNAPSHOT, sequence_number=3, timestamp_ms=now_ms, manifest_list=listed, schema_id=0,
        summary={"operation": "append"},
    )  # fmt: skip
    metadata = add_snapshot(empty, snapshot, branch="main", now_ms=now_ms)
    at = f"{LOCATION}/metadata/00001-of-another.metadata.json"
    bench.files.create(at, encode_metadata(metadata))
    await bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=at))
    return metadata


def path(number: int, letter: str) -> str:
    """The location of a file of manifest `number`."""
    return f"{LOCATION}/data/{number}{letter}"


def content_file(name: str, value: Any) -> ContentFile:
    """A file to append; `value` is its partition's, as JSON has it."""
    return ContentFile(
        file_path=f"{LOCATION}/data/{name}.parquet", file_format="parquet", record_count=10, file_size_in_bytes=1000,
        spec_id=7, partition=(value,),
    )  # fmt: skip
