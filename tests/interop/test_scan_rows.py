"""The same filter asked of firn and of DuckDB over every kind of delete: the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pytest

from firn.model.expressions.filter_text import filter_from_text
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import DATE, DOUBLE, LONG, STRING, NestedField, StructType
from firn.storage.local_files import LocalFiles
from tests.strategies.small_tables import SmallTable

SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="id", type=LONG, required=True),
            NestedField(field_id=2, name="region", type=STRING, required=False),
            NestedField(field_id=3, name="score", type=DOUBLE, required=False),
            NestedField(field_id=4, name="day", type=DATE, required=False),
        )
    ),
)
BY_REGION = PartitionSpec(
    spec_id=0, fields=(PartitionField(source_ids=(2,), field_id=1000, name="region", transform="identity"),)
)
REGIONS = ("eu", "us", None)
PARTITIONS = ("eu", "us", "asia")  # DuckDB 1.5 crashes over a null partition beside equality deletes of a partition
FILTERS = [
    None,
    "id > 20",
    "region = 'us' and id < 35",
    "region is null or region = 'asia' or score >= 12.5",
    "region != 'us'",
    "not (region = 'us' or score < 10)",
    "day between '2024-02-01' and '2024-03-31'",
    "id in (3, 18, 33, 45)",
]


@pytest.fixture(scope="module", params=[(v, s) for v in (2, 3) for s in (UNPARTITIONED, BY_REGION)],
                ids=["v2-whole", "v2-by-region", "v3-whole", "v3-by-region"])  # fmt: skip
def table(request, tmp_path_factory) -> SmallTable:
    """Rows with ids 0 to 59, without 20, in three appends; some deleted by position, by key, and put in again.

    Deletes of a partition only name what is in it: DuckDB 1.5 would apply them to other partitions, too.
    """
    version, spec = request.param
    regions = PARTITIONS if spec.fields else REGIONS
    location = f"file://{tmp_path_factory.mktemp('rows')}/t"
    table = SmallTable(SCHEMA, spec, version=version, files=LocalFiles(), location=location)
    rows = [{1: id, 2: regions[id % 3], 3: None if id % 5 == 0 else id / 2, 4: 19723 + id * 2} for id in range(60)]
    first, second = table.data_by_partition(rows[:20]), table.data_by_partition(rows[21:40])
    assert first[0].partition == second[0].partition
    table.commit(*first)
    table.commit(*second)
    if version == 2:
        several = {file.file_path: [1, 2] for file in (first[0], second[0])}
        table.commit(table.positions(several, like=first[0]), operation="delete")
        table.commit(table.positions({first[0].file_path: [0]}, like=first[0]), operation="delete")
    else:
        table.commit(table.vector(first[0], [0, 1, 2]), table.vector(second[0], [1, 2]), operation="delete")
    again = table.data_by_partition([{**rows[18], 3: 99.0}, {**rows[33], 3: 98.0}])
    keys = table.equality([{1: 18}, {1: 33}, {1: 45}], (1,), like=None if spec.fields == () else first[0])
    table.commit(*again, keys, operation="overwrite")
    table.commit(*table.data_by_partition(rows[40:]))
    return table


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the extensions of its wheels, which never asks the network for others."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "2"}) as connection:
        for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
            folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
            connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
        yield connection


@pytest.mark.parametrize("text", FILTERS)
def test_the_same_rows(table, duck, text):
    scan = {} if text is None else {"filter": filter_from_text(text)}
    epoch = dt.date(1970, 1, 1)
    mine = [(row[1], row[2], row[3], epoch + dt.timedelta(days=row[4])) for row in table.rows(**scan)]
    where = "" if text is None else f" WHERE {text}"
    theirs = duck.execute(f"SELECT id, region, score, day FROM iceberg_scan('{table.written()}'){where}").fetchall()
    assert sorted(map(repr, mine)) == sorted(map(repr, theirs))
    assert mine
