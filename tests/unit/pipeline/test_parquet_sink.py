"""The sink writes what it is given, all of it, into files that say what is in them."""

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.model.errors import InvalidInput, Unavailable, Unsupported
from firn.model.partitioning import partition_of
from firn.model.sorting import SortField, SortOrder
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
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from firn.pipeline.parquet_sink import ParquetSink
from firn.pipeline.partition_split import PartitionSplitter
from firn.storage.arrow_rows import batch_of_rows, rows_of_batch
from firn.storage.local_files import LocalFiles
from tests.unit.pipeline.sink_table import bound, rows, schema_of, spec_of, target, written, written_all

EVENTS = schema_of(id=LONG, name=STRING, at=TIMESTAMPTZ)
POINT = StructType(
    (
        NestedField(field_id=20, name="x", type=LONG, required=True),
        NestedField(field_id=21, name="y", type=DOUBLE, required=False),
    )
)
ALL_TYPES = schema_of(
    flag=BOOLEAN, i=INT, n=LONG, f=FLOAT, d=DOUBLE, day=DATE, t=TIME, ts=TIMESTAMP, tz=TIMESTAMPTZ, ns=TIMESTAMP_NS,
    zns=TIMESTAMPTZ_NS, s=STRING, u=UUID, raw=BINARY, fixed=FixedType(3), dec=DecimalType(20, 4), point=POINT,
    items=ListType(element_id=30, element=POINT, element_required=False),
    named=MapType(key_id=40, key=STRING, value_id=41, value=ListType(element_id=42, element=INT, element_required=True),
                  value_required=False),
)  # fmt: skip


def batch(**columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(dict(columns))


def events(*ids: int) -> pa.RecordBatch:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    at = pa.array([now + dt.timedelta(hours=i) for i in ids], pa.timestamp("us", tz="UTC"))
    return batch(at=at, id=list(ids), name=[f"n{i}" for i in ids])


def test_every_type_is_written_as_it_was(tmp_path: Path) -> None:
    one = target(tmp_path, ALL_TYPES)
    schema = one.schema
    by_name = {
        "flag": True, "i": -1, "n": 2**40, "f": 1.5, "d": float("-inf"), "day": -719162, "t": 86_399_999_999,
        "ts": -1, "tz": 2**50, "ns": 1_700_000_000_000_000_001, "zns": -1, "s": "héllo", "u": uuid.UUID(int=7),
        "raw": b"\x00\xff", "fixed": b"abc", "dec": Decimal("1234567890123456.7891"),
    }  # fmt: skip
    full = {field.field_id: by_name.get(field.name) for field in schema.fields}
    point, items, named = (schema.find_field(name) for name in ("point", "items", "named"))
    assert point is not None
    assert items is not None
    assert named is not None
    x, y = (field.field_id for field in point.type.fields)  # type: ignore[union-attr]
    ex, ey = (schema.find_field(f"items.element.{name}").field_id for name in "xy")  # type: ignore[union-attr]
    full |= {
        point.field_id: {x: 1, y: None},
        items.field_id: ({ex: 1, ey: 2.0}, None),
        named.field_id: (("k", (1, 2)), ("n", None)),
    }
    empty = dict.fromkeys(full)
    (file,) = written(one, batch_of_rows([full, empty], schema))
    assert rows(file, schema) == [full, empty]
    footer = pq.read_metadata(file.file_path)
    ids = [footer.schema.column(i).path for i in range(footer.num_columns)]
    assert len(ids) == 16 + 2 + 2 + 2


def test_other_arrow_types_are_taken_where_nothing_is_lost(tmp_path: Path) -> None:
    one = target(tmp_path, schema_of(u=UUID, t=TIME, ns=TIMESTAMP_NS, n=LONG, f=FixedType(2), s=STRING, d=DOUBLE))
    given_batch = batch(
        U=["00000000-0000-0000-0000-000000000007", None],
        t=["23:59:59.000001", "00:00:00"],
        ns=[5, None],
        n=pa.array([1, 2], pa.int16()),
        f=[b"ab", None],
        s=pa.array(["a", "b"]).dictionary_encode(),
        d=pa.array([0.5, None], pa.float32()),
    )
    (file,) = written(one, given_batch)
    assert [list(row.values()) for row in rows(file, one.schema)] == [
        [uuid.UUID(int=7), 86_399_000_001, 5, 1, b"ab", "a", 0.5],
        [None, 0, None, 2, None, "b", None],
    ]


@pytest.mark.parametrize(
    ("given_batch", "complaint"),
    [
        (batch(id=[1], nam=["x"]), "no column 'nam'"),
        (batch(id=["1"]), "id: is string"),
        (batch(id=[1.0]), "id: is double"),
        (batch(id=pa.array([2**63], pa.uint64())), "id: a value does not fit long"),
        (batch(id=[1], at=pa.array([0], pa.timestamp("us"))), "at: is timestamp"),
        (batch(id=[1], ID=[2]), "given twice"),
    ],
)
def test_what_would_be_lost_is_refused_by_column(tmp_path: Path, given_batch: pa.RecordBatch, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        written(target(tmp_path, EVENTS), given_batch)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_required_column_may_be_null_only_where_its_struct_is(tmp_path: Path) -> None:
    one = target(tmp_path, schema_of(point=POINT))
    x = one.schema.find_field("point.x")
    assert x is not None
    given_batch = batch(point=[{"x": 1, "y": 2.0}, None])
    (file,) = written(one, given_batch)
    assert [row[1] is None for row in rows(file, one.schema)] == [False, True]
    (file,) = written(one.__class__(**{f: getattr(one, f) for f in one.__struct_fields__} | {"run": "b"}),
                      batch(point=pa.array([None, None], given_batch.schema.field("point").type)))  # fmt: skip
    assert [row[1] for row in rows(file, one.schema)] == [None, None]
    with pytest.raises(InvalidInput, match=r"point\.x: holds 1 null"):
        written(target(tmp_path / "b", schema_of(point=POINT)), batch(point=[{"x": None, "y": 2.0}]))


def test_rows_go_to_the_files_of_their_partitions(tmp_path: Path) -> None:
    spec = spec_of((1, "bucket[3]"), (3, "day"), (2, "identity"))
    one = target(tmp_path, EVENTS, spec)
    given_rows = [*range(40), *range(40, 0, -1)]
    files = written(one, events(*given_rows[:50]), events(*given_rows[50:]))
    metadata = one.metadata
    found = []
    for file in files:
        data_file = bound(file, metadata)
        inside = rows(file, one.schema)
        assert {partition_of(one.spec, one.schema, row) for row in inside} == {data_file.partition}
        assert data_file.record_count == len(inside)
        assert "p1_day=" in file.file_path or "p1=" in file.file_path
        found += [row[1] for row in inside]
    assert sorted(found) == sorted(given_rows)
    assert len({tuple(file.partition) for file in files}) == len(files)


VALUES = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "date": st.integers(-(10**6), 10**6),
    "timestamptz": st.integers(-(10**15), 10**15),
    "timestamp_ns": st.integers(-(10**18), 10**18),
    "string": st.text(max_size=4),
    "double": st.floats(),
}
CASES = [
    (INT, "identity"), (INT, "bucket[7]"), (INT, "truncate[10]"), (LONG, "bucket[7]"), (LONG, "truncate[10]"),
    (DATE, "month"), (DATE, "year"), (DATE, "bucket[5]"), (TIMESTAMPTZ, "hour"), (TIMESTAMPTZ, "day"),
    (TIMESTAMPTZ, "month"), (TIMESTAMPTZ, "year"), (TIMESTAMP_NS, "day"), (TIMESTAMP_NS, "bucket[9]"),
    (STRING, "truncate[2]"), (STRING, "bucket[3]"), (STRING, "identity"), (DOUBLE, "identity"), (LONG, "void"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "transform"), CASES, ids=str)
@given(data=st.data())
def test_a_batch_is_split_as_row_by_row(type: object, transform: str, data: st.DataObject) -> None:
    schema, spec = schema_of(v=type), spec_of((1, transform))  # type: ignore[arg-type]
    values = data.draw(st.lists(st.none() | VALUES[str(type)], min_size=1, max_size=20))
    parts = list(PartitionSplitter(spec, schema).split(batch_of_rows([{1: value} for value in values], schema)))
    expected: dict[str, list[str]] = {}
    for value in values:
        expected.setdefault(repr(partition_of(spec, schema, {1: value})), []).append(repr(value))
    found = {repr(part.values): [repr(row[1]) for row in rows_of_batch(part.rows, schema)] for part in parts}
    assert found == expected
    assert len(parts) == len(found)


def test_files_roll_at_their_target_size(tmp_path: Path) -> None:
    properties = {
        "write.target-file-size-bytes": "20000",
        "write.parquet.row-group-size-bytes": "8000",
        "write.parquet.compression-codec": "uncompressed",
    }
    one = target(tmp_path, schema_of(id=LONG), properties=properties)
    files = written(one, *[batch(id=list(range(i * 500, (i + 1) * 500))) for i in range(40)])
    assert sum(file.record_count for file in files) == 20_000
    assert len(files) > 5
    assert all(10_000 < file.file_size_in_bytes < 40_000 for file in files[:-1])
    assert all(pq.read_metadata(file.file_path).num_row_groups > 1 for file in files[:-1])
    assert len(files[0].split_offsets or ()) == pq.read_metadata(files[0].file_path).num_row_groups


def test_few_files_are_open_at_once_and_clustered_rows_still_make_one_each(tmp_path: Path) -> None:
    one = target(tmp_path, schema_of(id=LONG), spec_of((1, "identity")))
    clustered = [batch(id=[i, i]) for i in range(10) for _ in range(3)]
    assert len(written(one, *clustered, open_files_max=2)) == 10
    scattered = [batch(id=list(range(10))) for _ in range(3)]
    two = target(tmp_path / "b", schema_of(id=LONG), spec_of((1, "identity")))
    files = written(two, *scattered, open_files_max=4)
    assert sum(file.record_count for file in files) == 30
    assert 10 <= len(files) <= 30


def test_metrics_are_kept_as_the_table_asks(tmp_path: Path) -> None:
    properties = {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.name": "truncate(2)",
        "write.metadata.metrics.column.at": "none",
    }
    one = target(tmp_path, EVENTS, properties=properties)
    (file,) = written(one, events(1, 2, 3))
    entry = bound(file, one.metadata)
    assert entry.value_counts == {1: 3, 2: 3}
    assert entry.lower_bounds == {2: b"n1"}
    assert entry.upper_bounds == {2: b"n3"}


def test_the_sort_order_is_on_record(tmp_path: Path) -> None:
    order = SortOrder(order_id=1, fields=(SortField(source_ids=(1,), transform="identity"),))
    one = target(tmp_path, EVENTS, order=order)
    fields = {name: getattr(one, name) for name in one.__struct_fields__} | {"sort_order_id": 1}
    (file,) = written(type(one)(**fields), events(1))
    assert file.sort_order_id == 1


def test_lineage_columns_are_in_the_file_and_not_in_its_metrics(tmp_path: Path) -> None:
    one = target(tmp_path, schema_of(id=LONG), lineage=True)
    (file,) = written(one, batch(id=[1, 2], _row_id=[7, None], _last_updated_sequence_number=[3, None]))
    assert [list(row.values()) for row in rows(file, one.schema)] == [[1, 7, 3], [2, None, None]]
    assert set(bound(file, one.metadata).value_counts or ()) == {1}


def test_object_storage_spreads_files_over_folders(tmp_path: Path) -> None:
    spread = {"write.object-storage.enabled": "true"}
    one = target(tmp_path, EVENTS, spec_of((1, "identity")), properties=spread)
    (file,) = written(one, events(5))
    folders = file.file_path.removeprefix(f"{one.metadata.location}/data/").split("/")
    assert [len(folder) for folder in folders[:4]] == [4, 4, 4, 8]
    assert folders[4] == "p0=5"
    elsewhere = target(tmp_path, EVENTS, properties={**spread, "write.data.path": str(tmp_path / "elsewhere")})
    (file,) = written(elsewhere, events(5))
    assert file.file_path.startswith(str(tmp_path / "elsewhere"))
    assert f"{tmp_path.name}/table/" in file.file_path


def test_a_sink_that_fails_leaves_no_file(tmp_path: Path) -> None:
    one = target(tmp_path, EVENTS, spec_of((1, "identity")))
    seen: list[Path] = []

    def batches():
        yield events(1, 2, 3)
        seen.extend(tmp_path.rglob("*.parquet"))
        yield batch(wrong=[1])

    with pytest.raises(InvalidInput, match="wrong"):
        written_all(one, batches())
    assert len(seen) == 3
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_transform_that_is_not_known_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="unknown transform"):
        ParquetSink(target_with_unknown_transform(tmp_path), name="a")


def target_with_unknown_transform(tmp_path: Path):
    one = target(tmp_path, EVENTS)
    return type(one)(
        **{name: getattr(one, name) for name in one.__struct_fields__} | {"spec": spec_of((1, "zorder[3]"))}
    )


def test_a_disk_that_refuses_is_unavailable(tmp_path: Path) -> None:
    one = target(tmp_path, EVENTS)
    (tmp_path / "table").write_bytes(b"in the way")
    with pytest.raises(Unavailable):
        written(one, events(1))
    LocalFiles().close()
