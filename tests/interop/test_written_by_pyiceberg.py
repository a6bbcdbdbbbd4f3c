"""Tables that PyIceberg wrote are read equal by firn: metadata, every manifest, the rows of every reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from firn.model.metadata_json import metadata_to_json
from firn.storage.manifest_lists import check_totals
from firn.storage.manifest_reader import StoredManifests
from tests.interop.readers import FILES, METADATA_BYTES_MAX, firn_metadata, firn_rows, pyiceberg_rows
from tests.interop.rows import expected_rows, table_rows

EVENTS: Final = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "ts", TimestampType(), required=False),
    NestedField(4, "region", StringType(), required=False),
)
ALL_TYPES: Final = (
    BooleanType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2), DecimalType(38, 10),
    DateType(), TimeType(), TimestampType(), TimestamptzType(), StringType(), UUIDType(), FixedType(4), BinaryType(),
)  # fmt: skip
ONE_ROW: Final = (
    True, -1, 2**40, 1.5, float("nan"), "1.25", "1234567890.0123456789", 19_000, 86_399_999_999, -1, 10**15, "héllo",
    bytes(range(16)), b"four", b"\x00\xff",
)  # fmt: skip


def events(start: int, count: int = 10) -> pa.Table:
    rows = range(start, start + count)
    columns = {
        "id": pa.array(rows, pa.int64()),
        "name": pa.array([f"n{i % 3}" if i % 4 else None for i in rows], pa.string()),
        "ts": pa.array([i * 40_000 * 10**6 for i in rows], pa.int64()).cast(pa.timestamp("us")),
        "region": pa.array(["eu" if i % 2 else None for i in rows], pa.string()),
    }
    return pa.table(columns)


def types(catalog: SqlCatalog, name: str, properties: dict[str, str]) -> None:
    fields = [NestedField(at, f"c{at}", type, required=False) for at, type in enumerate(ALL_TYPES, 1)]
    point = StructType(NestedField(41, "x", IntegerType(), required=False))
    fields.append(NestedField(30, "points", ListType(40, point, element_required=False), required=False))
    fields.append(
        NestedField(31, "map", MapType(50, StringType(), 51, LongType(), value_required=False), required=False)
    )
    table = catalog.create_table(name, Schema(*fields), properties=properties)
    arrow = table.schema().as_arrow()
    columns: list[pa.Array] = []
    for at, field in enumerate(arrow):
        if at >= len(ONE_ROW):
            value: Any = [{"x": 1}, None] if field.name == "points" else [("k", 1), ("n", None)]
            columns.append(pa.array([value, None], field.type))
        else:
            columns.append(_column(ONE_ROW[at], field.type))
    table.append(pa.Table.from_arrays(columns, schema=arrow))


def _column(value: Any, type: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type):
        return pa.array([value, None], pa.string()).cast(type)
    if pa.types.is_date(type) or pa.types.is_time(type) or pa.types.is_timestamp(type):
        return pa.array([value, None], pa.int32() if pa.types.is_date(type) else pa.int64()).cast(type)
    if isinstance(type, pa.ExtensionType):
        return type.wrap_array(pa.array([value, None], type.storage_type))
    return pa.array([value, None], type)


def partitioned(catalog: SqlCatalog, name: str, properties: dict[str, str]) -> None:
    spec = PartitionSpec(
        PartitionField(1, 1000, BucketTransform(4), "id_bucket"),
        PartitionField(4, 1001, IdentityTransform(), "region"),
        PartitionField(2, 1002, TruncateTransform(1), "name_trunc"),
        PartitionField(3, 1003, DayTransform(), "ts_day"),
    )
    table = catalog.create_table(name, EVENTS, partition_spec=spec, properties=properties)
    table.append(events(0))
    table.append(events(100))
    table.delete("region == 'eu' and id < 5")


def changed(catalog: SqlCatalog, name: str, properties: dict[str, str]) -> None:
    """Deletes, overwrites and upserts, all of them copy on write; tags and branches; a rollback."""
    table = catalog.create_table(name, EVENTS, properties=properties)
    table.append(events(0))
    table.append(events(100))
    table.delete("id == 3 or name == 'n1'")
    _tag(table, "before")
    table.overwrite(events(5, 10), overwrite_filter="id < 10")
    table.upsert(events(100, 15), join_cols=["id"])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit", min_snapshots_to_keep=2).commit()
    table.append(events(1000, 2), branch="audit")
    table.delete("id >= 100")


def _tag(table: Table, name: str) -> None:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_tag(snapshot.snapshot_id, name, max_ref_age_ms=10**12).commit()


def evolved(catalog: SqlCatalog, name: str, properties: dict[str, str]) -> None:
    table = catalog.create_table(name, EVENTS, properties=properties)
    table.append(events(0, 4))
    with table.update_schema() as update:
        update.add_column("added", IntegerType())
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.move_first("label")
    with table.update_spec() as spec:
        spec.add_field("ts", DayTransform(), "day")
        spec.add_field("id", BucketTransform(2), "b")
    rows = (
        events(10, 4)
        .rename_columns(["id", "label", "ts", "region"])
        .append_column("added", pa.array([1, 2, None, 4], pa.int32()))
    )
    table.append(rows.select(["label", "id", "ts", "region", "added"]))
    with table.update_schema() as update:
        update.update_column("added", LongType())
        update.delete_column("label")
    with table.update_spec() as spec:
        spec.remove_field("day")
    table.append(events(20, 4).drop_columns(["name"]).append_column("added", pa.array([2**40] * 4, pa.int64())))


TABLES: Final[dict[str, Callable[[SqlCatalog, str, dict[str, str]], None]]] = {
    "types": types, "partitioned": partitioned, "changed": changed, "evolved": evolved,
}  # fmt: skip
Written = Callable[[str, int], str]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """The metadata location of tables by name and format version, each written on first use."""
    root: Path = tmp_path_factory.mktemp("pyiceberg")
    catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("db")
    done: dict[str, str] = {}

    def get(name: str, version: int) -> str:
        full = f"db.{name}_v{version}"
        if full not in done:
            TABLES[name](catalog, full, {"format-version": str(version)})
            done[full] = catalog.load_table(full).metadata_location
        return done[full]

    yield get
    catalog.close()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", TABLES)
def test_rows_of_every_reference_are_read_equal(written: Written, name, version):
    location = written(name, version)
    for ref in firn_metadata(location).refs:
        rows, schema = firn_rows(location, ref=ref)
        assert rows
        assert expected_rows(rows, schema) == table_rows(pyiceberg_rows(location, ref=ref), schema)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", TABLES)
def test_metadata_survives_a_round_trip(written: Written, name, version):
    location = written(name, version)
    """To PyIceberg, without v1's deprecated members, which it leaves as the table was created."""
    as_written = FILES.read(location, bytes_max=METADATA_BYTES_MAX).decode()
    again = msgspec.json.encode(metadata_to_json(firn_metadata(location))).decode()
    first, second = (
        TableMetadataUtil.parse_raw(text).model_dump(exclude={"partition_spec", "schema_"})
        for text in (as_written, again)
    )
    assert first == second


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", TABLES)
def test_every_manifest_of_every_snapshot_adds_up(written: Written, name, version):
    metadata = firn_metadata(written(name, version))
    reader = StoredManifests(FILES)
    for snapshot in metadata.snapshots:
        manifests = reader.manifests(metadata, snapshot)
        check_totals(snapshot, manifests)
        for manifest in manifests:
            assert reader.entries(metadata, manifest)
