"""Rows of a rewritten file are looked for in the partitions that they can be in, and in no others."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from firn.coordinator.replay.moved_rows import MovedRows
from firn.model.datafile import DataFile
from firn.model.equality_keys import MetricColumns
from firn.model.manifest import ManifestEntry, Status
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import schema_from_json

VALUES = [0.0, -0.0, math.nan, 1.5, -math.inf, None]


def table(type: str) -> TableMetadata:
    """A table that is partitioned by a float, and has been by an id beside it."""
    columns = [("id", "long", True), ("score", type, False)]
    fields = [
        {"id": at, "name": name, "type": kind, "required": required}
        for at, (name, kind, required) in enumerate(columns, 1)
    ]
    schema = schema_from_json({"type": "struct", "fields": fields})
    score = PartitionField(source_ids=(2,), field_id=1000, name="score", transform="identity")
    by_id = PartitionField(source_ids=(1,), field_id=1001, name="id", transform="identity")
    spec = PartitionSpec(spec_id=0, fields=(score,))
    metadata = new_table_metadata(
        schema, spec, location="/t", table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=1
    )
    both = msgspec.structs.replace(metadata.default_spec, spec_id=1, fields=(*metadata.default_spec.fields, by_id))
    return msgspec.structs.replace(metadata, partition_specs=(*metadata.partition_specs, both))


def file(name: str, *partition: Any) -> DataFile:
    """A data file without metrics."""
    return DataFile(
        file_path=name, file_format="parquet", spec_id=len(partition) - 1, partition=partition, record_count=5,
        file_size_in_bytes=500,
    )  # fmt: skip


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.parametrize("beside", [(), (7,)])
def test_partitions_of_floats_are_as_many_as_java_has(type, beside):
    """-0.0 is not 0.0, all NaNs are one; whether the new files are of the same spec or of another."""
    metadata = table(type)
    nan = math.nan * -1
    added = [file(f"new {value}", nan if value != value else value, *beside) for value in VALUES]  # noqa: PLR0124
    rewritten = [
        ManifestEntry(status=Status.EXISTING, data_file=file(f"old {value}", value), snapshot_id=1, sequence_number=1,
                      file_sequence_number=1)
        for value in VALUES
    ]  # fmt: skip
    moved = MovedRows(metadata, rewritten, added, columns=MetricColumns(metadata.schemas))
    found = {
        entry.data_file.file_path: [one.file_path for one in moved.targets(entry.data_file)] for entry in rewritten
    }
    assert found == {f"old {value}": [f"new {value}"] for value in VALUES}
