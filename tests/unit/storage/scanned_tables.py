"""Small tables to scan, and what a scan of them finds."""

from __future__ import annotations

from typing import Any

from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.scan_plan import ScanPlan
from firn.model.schema import Schema
from firn.model.types import DOUBLE, INT, LONG, STRING, NestedField, StructType, Type
from firn.storage.table_scan import plan_scan
from tests.strategies.small_tables import SmallTable


def column(field_id: int, name: str, type: Type, *, required: bool = False, default: Any = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required, initial_default=default)


ID, REGION, SCORE = column(1, "id", LONG, required=True), column(2, "region", STRING), column(3, "score", DOUBLE)
NESTED = column(4, "s", StructType((column(5, "x", INT), column(6, "y", STRING))))
SCHEMA = Schema(schema_id=0, struct=StructType((ID, REGION, SCORE, NESTED)))


def partition_field(source_id: int, transform: str, at: int = 0) -> PartitionField:
    return PartitionField(source_ids=(source_id,), field_id=1000 + at, name=f"part{at}", transform=transform)


def spec_of(*fields: tuple[int, str]) -> PartitionSpec:
    return PartitionSpec(
        spec_id=0, fields=tuple(partition_field(source, text, at) for at, (source, text) in enumerate(fields))
    )


BY_REGION = spec_of((2, "identity"))


def row(id: int, region: str | None = "eu", score: float | None = 0.5, x: int | None = None) -> dict[int, Any]:
    return {1: id, 2: region, 3: score, 4: None if x is None else {5: x, 6: f"y{x}"}}


def plan(table: SmallTable, **scan: Any) -> ScanPlan:
    return plan_scan(table.metadata, files=table.reader, **scan)


def paths(table: SmallTable, **scan: Any) -> list[str]:
    return [task.file.file_path for task in plan(table, **scan).tasks]


def deletes(table: SmallTable, **scan: Any) -> dict[str, list[str]]:
    """Paths of the deletes by that of their data file, for files that have any."""
    tasks = plan(table, **scan).tasks
    return {task.file.file_path: [delete.file_path for delete in task.deletes] for task in tasks if task.deletes}
