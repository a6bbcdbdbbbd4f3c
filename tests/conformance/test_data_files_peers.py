"""What firn writes and says of its files, against other readers in this process: PyIceberg, Arrow's ORC, DuckDB."""

from __future__ import annotations

import io
import math
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.schema import Schema as PeerSchema
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile as PeerPuffin

from firn.model.deletion_vector import DeletionVector
from firn.model.schema import Schema, schema_to_json
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from firn.storage.data_files import NewFile, encode_rows
from firn.storage.puffin import deletion_vector_blob, encode_puffin

pytestmark = pytest.mark.interop


def field(field_id, name, type, *, required=False) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required)


SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            field(1, "bo", BOOLEAN),
            field(2, "i", INT, required=True),
            field(3, "l", LONG),
            field(4, "f", FLOAT),
            field(5, "do", DOUBLE),
            field(6, "da", DATE),
            field(7, "t", TIME),
            field(8, "ts", TIMESTAMP),
            field(9, "tz", TIMESTAMPTZ),
            field(10, "s", STRING),
            field(11, "u", UUID),
            field(12, "b", BINARY),
            field(13, "fi", FixedType(3)),
            field(14, "d9", DecimalType(9, 2)),
            field(15, "d18", DecimalType(18, 2)),
            field(16, "d38", DecimalType(38, 2)),
            field(17, "li", ListType(element_id=18, element=LONG, element_required=False)),
            field(19, "m", MapType(key_id=20, key=STRING, value_id=21, value=LONG, value_required=False)),
            field(22, "st", StructType((field(23, "x", LONG), field(24, "y", STRING)))),
        )
    ),
)
ROWS: list[dict[int, Any]] = [
    {
        1: at % 2 == 0, 2: at, 3: -at, 4: at / 4, 5: -at / 8, 6: at, 7: at, 8: at, 9: -at * 10**6,
        10: f"text number {at:010}",
        11: uuid.UUID(int=at << 100), 12: bytes([at]) * 20, 13: bytes([at, 0, 1]), 14: Decimal(at) / 100,
        15: Decimal(-at) / 100, 16: Decimal(at) * 10**20, 17: (at, None), 19: ((f"k{at}", at),), 22: {23: at, 24: None},
    }
    if at
    else dict.fromkeys((field.field_id for field in SCHEMA.fields), None) | {2: 0}
    for at in range(200)
]  # fmt: skip


def encoded(file_format="parquet", rows=None):
    return encode_rows(ROWS if rows is None else rows, SCHEMA, NewFile(location="f", file_format=file_format))


def test_pyiceberg_reads_the_same_schema_out_of_a_parquet_file():
    data, _ = encoded()
    arrow = pq.read_schema(io.BytesIO(data))
    ours = schema_to_json(SCHEMA)
    assert pyarrow_to_schema(arrow) == PeerSchema.model_validate(ours)


def test_pyiceberg_finds_the_same_metrics_in_a_parquet_file():
    data, entry = encoded()
    peer = PeerSchema.model_validate(schema_to_json(SCHEMA))
    theirs = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pq.read_metadata(io.BytesIO(data)),
        stats_columns=compute_statistics_plan(peer, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(peer),
    ).to_serialized_dict()
    assert entry.record_count == theirs["record_count"]
    assert entry.column_sizes == theirs["column_sizes"]
    assert list(entry.split_offsets or ()) == theirs["split_offsets"]
    nested = {18, 20, 21}  # PyIceberg counts values inside lists and maps too, which Java does not
    for name in ("value_counts", "null_value_counts"):
        assert getattr(entry, name) == {i: n for i, n in theirs[name].items() if i not in nested}
    for name in ("lower_bounds", "upper_bounds"):
        ours, their_bounds = getattr(entry, name), {i: b for i, b in theirs[name].items() if i not in nested}
        in_struct = {23}  # PyIceberg keeps no bounds inside structs, which Java does
        assert ours.keys() == their_bounds.keys() | in_struct
        assert {i: b for i, b in ours.items() if i not in in_struct} == their_bounds


def test_duckdb_reads_the_rows_of_a_parquet_file(tmp_path):
    data, _ = encoded()
    path = tmp_path / "f.parquet"
    path.write_bytes(data)
    rows = duckdb.sql(f"select i, d38, s, u, st.x, li[1], m['k7'] from '{path}' where i = 7").fetchall()
    assert rows == [(7, Decimal(7) * 10**20, "text number 0000000007", uuid.UUID(int=7 << 100), 7, 7, 7)]
    assert duckdb.sql(f"select count(*), count(l), sum(l) from '{path}'").fetchall() == [(200, 199, -19900)]


def test_arrow_reads_the_rows_and_ids_of_an_orc_file():
    data, _ = encoded("orc")
    table = pa.orc.ORCFile(pa.BufferReader(data)).read()
    assert table.num_rows == 200
    assert table.schema.field("l").metadata[b"iceberg.id"] == b"3"
    row = table.slice(7, 1).to_pylist()[0]
    assert (row["i"], row["l"], row["s"], row["d38"]) == (7, -7, "text number 0000000007", Decimal(7) * 10**20)
    assert row["st"] == {"x": 7, "y": None}


def test_pyiceberg_reads_deletion_vectors():
    vectors = {f"s3://t/{n}.parquet": DeletionVector.of(range(n, 100_000, n)) for n in (1, 3, 1000)}
    data, _ = encode_puffin([deletion_vector_blob(v, data_file=f) for f, v in vectors.items()])
    theirs = deletion_vectors_from_puffin_file(PeerPuffin(data))
    assert {one.referenced_data_file: one.to_vector().to_pylist() for one in theirs} == {
        path: list(v) for path, v in vectors.items()
    }


def test_nan_is_counted_where_pyiceberg_cannot():
    _, entry = encoded(rows=[{2: 1, 5: math.nan}, {2: 1, 5: 2.0}])
    assert entry.nan_value_counts == {4: 0, 5: 1}
