"""The columns of partition statistics files: names of fields over all specs, and types of values that others stored."""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot
from firn.model.types import BINARY, INT, LONG, STRING, TIME, UUID, DecimalType, NestedField, StructType, Type
from firn.pipeline.partition_statistics import all_partitions, count_partitions, encode_counts
from tests.strategies.manifests import added

TYPES: dict[int, Type] = {1: LONG, 2: DecimalType(7, 3), 3: TIME, 4: UUID, 5: STRING, 6: INT}
SNAPSHOT = Snapshot(snapshot_id=1, sequence_number=1, timestamp_ms=1, manifest_list="l", summary={}, schema_id=0)


def field(field_id: int, name: str, *, source: int = 1, transform: str = "identity") -> PartitionField:
    return PartitionField(source_ids=(source,), field_id=field_id, name=name, transform=transform)


def table(*specs: Sequence[PartitionField]) -> TableMetadata:
    columns = [NestedField(field_id=one, name=f"c{one}", type=type_, required=False) for one, type_ in TYPES.items()]
    return TableMetadata(
        format_version=2, table_uuid="u", location="memory://wh/t", last_updated_ms=1, last_column_id=9,
        schemas=(Schema(schema_id=0, struct=StructType(tuple(columns))),), current_schema_id=0,
        partition_specs=tuple(PartitionSpec(spec_id=n, fields=tuple(one)) for n, one in enumerate(specs)),
        default_spec_id=len(specs) - 1, last_partition_id=1999, sort_orders=(), snapshots=(SNAPSHOT,),
    )  # fmt: skip


class Listed:
    """A snapshot of one manifest of files, each with its spec and partition."""

    def __init__(self, files: Sequence[tuple[int, tuple[Any, ...]]]) -> None:
        self._files = files

    def manifests(self, _: TableMetadata, __: Snapshot) -> list[ManifestFile]:
        return [ManifestFile(manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1)]

    def entries(self, _: TableMetadata, __: ManifestFile) -> list[ManifestEntry]:
        return [added(f"f{n}", spec_id=spec, partition=values) for n, (spec, values) in enumerate(self._files)]


def counted(metadata: TableMetadata, *files: tuple[int, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """The partitions of the statistics file of these files, as pyarrow reads it."""
    found = count_partitions(metadata, SNAPSHOT, Listed(files))
    data = encode_counts(metadata, found, location="stats.parquet")
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(data)).column("partition").to_pylist()
    return rows


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        ([[(1000, "b", "bucket[10]")], [(1001, "b", "bucket[11]")]], {1000: "b_1000", 1001: "b"}),
        ([[(1000, "b", "bucket[10]")], [(1000, "b", "bucket[10]")]], {1000: "b"}),
        ([[(1000, "old", "bucket[10]")], [(1000, "new", "bucket[10]")]], {1000: "new"}),
        (
            [[(1000, "b", "bucket[10]")], [(1001, "b", "bucket[11]")], [(1002, "b", "bucket[12]")]],
            {1000: "b_1000", 1001: "b_1001", 1002: "b"},
        ),
        (
            [[(1000, "b", "bucket[10]")], [(1001, "b", "bucket[11]"), (1002, "b_1000", "identity")]],
            {1000: "b_1000_", 1001: "b", 1002: "b_1000"},
        ),
    ],
)
def test_fields_of_all_specs_have_names_of_their_own(
    specs: list[list[tuple[int, str, str]]], names: dict[int, str]
) -> None:
    metadata = table(*([field(one, name, transform=how) for one, name, how in spec] for spec in specs))
    assert {one.field_id: one.name for one in all_partitions(metadata).fields} == names


def test_a_file_with_fields_of_one_name_is_read_by_name() -> None:
    metadata = table([field(1000, "b", transform="bucket[10]")], [field(1001, "b", transform="bucket[11]")])
    assert counted(metadata, (0, (1,)), (1, (2,))) == [{"b_1000": None, "b": 2}, {"b_1000": 1, "b": None}]


@pytest.mark.parametrize(
    ("source", "transform", "stored", "expected"),
    [
        (1, "zorder[4]", (ForeignValue(INT, 7), ForeignValue(INT, 8)), [7, 8]),
        (1, "zorder[4]", ("a", "b"), ["a", "b"]),
        (1, "zorder[4]", (None, ForeignValue(BINARY, b"x")), [None, b"x"]),
        (99, "identity", (ForeignValue(STRING, "a"), ForeignValue(STRING, b"\xff")), ["a", r"\xff"]),
        (2, "truncate[10]", (Decimal("-10000.000"), Decimal("1.000")), [Decimal("-10000.000"), Decimal("1.000")]),
        (3, "identity", (5, 86_400_000_000), [5, 86_400_000_000]),
        (6, "identity", (5, 2**40), [5, 2**40]),
        (4, "identity", (ForeignValue(STRING, "nobody"), None), [None, "nobody"]),
    ],
)
def test_partitions_are_counted_in_the_type_in_which_they_were_stored(
    source: int, transform: str, stored: tuple[Any, ...], expected: list[Any]
) -> None:
    metadata = table([field(1000, "p", source=source, transform=transform)])
    found = counted(metadata, *((0, (value,)) for value in stored))
    assert sorted((one["p"] for one in found), key=repr) == sorted(expected, key=repr)


def test_fields_without_a_type_and_without_values_are_left_out() -> None:
    metadata = table([field(1000, "gone", source=99), field(1001, "p", source=6)])
    assert counted(metadata, (0, (None, 1))) == [{"p": 1}]
    with pytest.raises(InvalidInput, match="columns of all partition fields are gone"):
        counted(table([field(1000, "gone", source=99)]), (0, (None,)))
