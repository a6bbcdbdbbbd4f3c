"""Tables with deletes of every kind, in every format."""

from __future__ import annotations

from pathlib import Path

from firn.model.datafile import FileFormat
from firn.model.partition_update import AddField
from tests.interop.table_builder import BuiltTable
from tests.interop.type_tables import items, regions


def position_deletes(folder: Path, data_format: FileFormat, delete_format: FileFormat) -> BuiltTable:
    table = regions(folder, 2)
    table.append(items(0), file_format=data_format)
    table.append(items(100), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 == 3, how="file", file_format=delete_format)
    table.delete(lambda row: row["id"] % 10 == 4, how="partition", file_format=delete_format)
    table.append(items(200), file_format=data_format)
    table.delete(lambda row: row["id"] in (5, 105, 206), how="partition", file_format=delete_format)
    return table.finish()


def position_deletes_with_rows(folder: Path) -> BuiltTable:
    table = regions(folder, 2)
    table.append(items(0))
    table.delete(lambda row: row["id"] in (1, 2, 3), how="partition", rows=True)
    return table.finish()


def equality_deletes(folder: Path, version: int, data_format: FileFormat, delete_format: FileFormat) -> BuiltTable:
    """In one partition, and with nulls among the values; rows added later and in the same commit stay."""
    table = regions(folder, version)
    table.append(items(0), file_format=data_format)
    table.delete_equal([{"name": "n3"}, {"name": None}], partition=("eu",), file_format=delete_format)
    table.append(items(100), file_format=data_format)
    table.delete_equal(
        [{"id": 102, "name": "n2"}, {"id": 104, "name": "no"}], partition=("us",), file_format=delete_format
    )
    table.delete_equal(
        [{"id": 106}], partition=("us",), file_format=delete_format, added=[{"id": 106, "name": "new", "region": "us"}]
    )
    return table.finish()


def global_equality_deletes(folder: Path, version: int) -> BuiltTable:
    """Written in the unpartitioned spec of a partitioned table: they reach every partition."""
    table = regions(folder, version, is_partitioned=False)
    table.append(items(0))
    table.evolve_spec(AddField(source="region"))
    table.append(items(100))
    table.delete_equal([{"name": "n3"}, {"name": None}])
    table.append(items(200))
    return table.finish()


def deletion_vectors(folder: Path, data_format: FileFormat) -> BuiltTable:
    """New ones, and ones that replace their predecessors; several in one Puffin file."""
    table = regions(folder, 3)
    table.append(items(0), file_format=data_format)
    table.append(items(100), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 == 3, how="vector")
    table.append(items(200), file_format=data_format)
    table.delete(lambda row: row["id"] % 10 in (4, 5), how="vector")
    table.delete(lambda row: row["id"] < 20 and row["region"] == "us", how="vector")
    return table.finish()


def upgraded(folder: Path) -> BuiltTable:
    """v1 files, v2 files with position deletes, v3 files with deletion vectors."""
    table = regions(folder, 1)
    table.append(items(0))
    table.upgrade(2)
    table.append(items(100))
    table.delete(lambda row: row["id"] % 10 == 3, how="file")
    table.upgrade(3)
    table.append(items(200))
    table.delete(lambda row: row["id"] >= 200 and row["id"] % 10 == 4, how="vector")
    table.overwrite(lambda row: row["id"] == 1, [{"id": 1, "name": "one", "region": "eu"}])
    return table.finish()
