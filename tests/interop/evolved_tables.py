"""Tables whose schema, spec or version changed between their snapshots, and tables that other tests point at."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from firn.model.datafile import FileFormat
from firn.model.partition_update import AddField, RemoveField, RenameField
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveAfter,
    MoveFirst,
    RenameColumn,
    SetDefault,
    UpdateDoc,
    UpdateType,
)
from firn.model.sorting import SortBy, SortField, SortOrder
from firn.model.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    Type,
)
from tests.interop.table_builder import BuiltTable, TableBuilder
from tests.interop.type_tables import DAY, columns, items, list_of, regions, struct


def evolved_spec(folder: Path, version: int) -> BuiltTable:
    """Unpartitioned, then by day, then by bucket without the day, then renamed and by day again."""
    schema = columns(id=LONG, ts=TIMESTAMP, name=STRING)
    table = TableBuilder(folder, schema, format_version=version)

    def rows(start: int) -> list[dict[str, Any]]:
        return [{"id": start + i, "ts": i * DAY // 2, "name": f"n{i % 3}"} for i in range(6)]

    table.append(rows(0))
    table.evolve_spec(AddField(source="ts", transform="day"))
    table.append(rows(10))
    table.evolve_spec(RemoveField(name="ts_day"), AddField(source="id", transform="bucket[4]", name="b"))
    table.append(rows(20))
    table.evolve_spec(RenameField(name="b", new_name="bucket"), AddField(source="name", transform="truncate[1]"))
    table.append(rows(30))
    table.evolve_spec(AddField(source="ts", transform="hour"))
    table.append([*rows(40), {"id": 50}])
    return table.finish()


# -- schema evolution --------------------------------------------------------------------------------------------------
def evolved_schema(folder: Path, version: int, file_format: FileFormat) -> BuiltTable:
    """Columns added, dropped, renamed, promoted, moved, and added anew under a dropped one's name."""
    schema = columns(id=INT, gone=STRING, price=FLOAT, amount=DecimalType(9, 2), old_name=STRING, tags=list_of(INT))
    table = TableBuilder(folder, schema, format_version=version)

    def rows(start: int, **more: Any) -> list[dict[str, Any]]:
        return [
            {"id": start + i, "price": i / 4, "amount": Decimal(i).scaleb(-2), "tags": [i], **more} for i in range(3)
        ]

    table.append(rows(0, gone="gone", old_name="old"), file_format=file_format)
    table.evolve(
        DropColumn(name="gone"),
        RenameColumn(name="old_name", new_name="new_name"),
        AddColumn(name="added", type=STRING, doc="added later"),
    )
    table.append(rows(10, new_name="new", added="a"), file_format=file_format)
    table.evolve(
        UpdateType(name="id", type=LONG),
        UpdateType(name="price", type=DOUBLE),
        UpdateType(name="amount", type=DecimalType(18, 2)),
        UpdateType(name="tags.element", type=LONG),
        MoveFirst(name="added"),
        MoveAfter(name="price", reference="amount"),
        UpdateDoc(name="added", doc=None),
        # Another column than the one that was dropped: its values must not come back.
        AddColumn(name="gone", type=STRING),
    )
    big = {"id": 2**40, "price": 0.1, "amount": Decimal("1234567890123456.78"), "tags": [2**40]}
    table.append([*rows(20, new_name="newer"), big], file_format=file_format)
    return table.finish()


def evolved_struct(folder: Path, file_format: FileFormat) -> BuiltTable:
    """The same inside a struct, and inside the structs of a list."""
    schema = columns(id=LONG, point=struct(x=INT, y=INT, gone=STRING), points=list_of(struct(x=INT)))
    table = TableBuilder(folder, schema, format_version=2)
    table.append(
        [{"id": 1, "point": {"x": 1, "y": 2, "gone": "g"}, "points": [{"x": 1}]}, {"id": 2, "points": []}],
        file_format=file_format,
    )
    table.evolve(
        AddColumn(name="z", type=LONG, parent="point"),
        AddColumn(name="y", type=LONG, parent="points"),
        DropColumn(name="point.gone"),
        UpdateType(name="point.x", type=LONG),
        RenameColumn(name="point.y", new_name="why"),
        MoveFirst(name="point.z"),
    )
    row = {"id": 3, "point": {"x": 2**40, "why": 3, "z": 4}, "points": [{"x": 5, "y": 6}]}
    table.append([row], file_format=file_format)
    return table.finish()


def defaults(folder: Path, file_format: FileFormat) -> BuiltTable:
    """Columns with initial and write defaults, added after the rows."""
    table = TableBuilder(folder, columns(id=LONG), format_version=3)
    table.append([{"id": 1}, {"id": 2}], file_format=file_format)
    table.evolve(
        AddColumn(name="country", type=STRING, default="CH", required=True),
        AddColumn(name="n", type=INT, default=7),
        AddColumn(name="d", type=DecimalType(9, 2), default="1.25"),
        AddColumn(name="day", type=DATE, default="2020-01-02"),
        AddColumn(name="ts", type=TIMESTAMPTZ, default="2020-01-02T03:04:05.000006+00:00"),
    )
    row = {"id": 3, "country": "FR", "n": None, "d": Decimal("0.01"), "day": 0, "ts": 0}
    table.append([row], file_format=file_format)
    table.evolve(SetDefault(name="n", default=8), MakeOptional(name="country"))
    table.append([{"id": 4, "country": None, "n": 8}], file_format=file_format)
    return table.finish()


def nested_defaults(folder: Path, file_format: FileFormat) -> BuiltTable:
    table = TableBuilder(folder, columns(id=LONG, s=struct(a=INT)), format_version=3)
    table.append([{"id": 1, "s": {"a": 1}}, {"id": 2}], file_format=file_format)
    table.evolve(AddColumn(name="b", type=LONG, parent="s", default=9))
    table.append([{"id": 3, "s": {"a": 3, "b": 3}}], file_format=file_format)
    return table.finish()


def promoted_dates(folder: Path, to: Type) -> BuiltTable:
    table = TableBuilder(folder, columns(id=LONG, d=DATE), format_version=3)
    table.append([{"id": 1, "d": 0}, {"id": 2, "d": 20_000}, {"id": 3}])
    table.evolve(UpdateType(name="d", type=to))
    table.append([{"id": 4, "d": 1}])
    return table.finish()


# -- the rest ---------------------------------------------------------------------------------------------------------
def rewritten(folder: Path, version: int) -> BuiltTable:
    """Copy on write: overwritten and deleted files, tombstones in manifests."""
    table = regions(folder, version)
    table.append(items(0))
    table.append(items(100))
    table.overwrite(lambda row: row["id"] in (3, 4), [{"id": 3, "name": "three", "region": "eu"}])
    table.overwrite(lambda row: row["region"] == "us" and row["id"] >= 100)
    table.append(items(200, 3))
    return table.finish()


def references(folder: Path, version: int) -> BuiltTable:
    table = regions(folder, version)
    table.append(items(0, 4))
    table.ref("first", type="tag", max_ref_age_ms=10**12)
    table.evolve(AddColumn(name="extra", type=STRING))
    table.append(items(100, 4))
    table.ref("audit", type="branch", min_snapshots_to_keep=2, max_snapshot_age_ms=10**12)
    table.append(items(200, 4), branch="audit")
    table.append([{"id": 300, "extra": "main"}])
    return table.finish()


def sorted_rows(folder: Path, version: int) -> BuiltTable:
    schema = columns(id=LONG, price=DOUBLE, name=STRING)
    order = SortOrder(
        order_id=1,
        fields=(
            SortField(source_ids=(3,), transform="truncate[1]", direction="desc", null_order="nulls-last"),
            SortField(source_ids=(2,), transform="identity"),
        ),
    )
    table = TableBuilder(folder, schema, order=order, format_version=version)
    prices = [0.5, -0.0, 0.0, math.nan, -math.inf, None]
    rows = [{"id": i, "price": prices[i % 6], "name": f"{'abc'[i % 3]}{i}"} for i in range(18)]
    table.append(rows)
    table.sort_by(SortBy(source="id", direction="desc"))
    table.append(rows)
    return table.finish()


def compressed_metadata(folder: Path) -> BuiltTable:
    table = TableBuilder(
        folder, columns(id=LONG), format_version=2, properties={"write.metadata.compression-codec": "gzip"}
    )
    table.append([{"id": 1}])
    return table.finish()


def plain_paths(folder: Path) -> BuiltTable:
    """Absolute paths without a scheme in all of the metadata."""
    table = TableBuilder(folder, columns(id=LONG), format_version=2, scheme="")
    table.append([{"id": 1}, {"id": 2}])
    table.delete(lambda row: row["id"] == 1, how="file")
    return table.finish()


def empty(folder: Path, version: int) -> BuiltTable:
    return TableBuilder(folder, columns(id=LONG, name=STRING), format_version=version).finish()


def row_lineage(folder: Path) -> BuiltTable:
    table = regions(folder, 3)
    table.append(items(0, 6))
    table.append(items(100, 6))
    table.delete(lambda row: row["id"] in (1, 100), how="vector")
    table.append(items(200, 2))
    return table.finish()
