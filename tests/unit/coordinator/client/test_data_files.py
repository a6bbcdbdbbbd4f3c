"""What a writer's Parquet files are described as: never in a partition that some of their rows are not in."""

from __future__ import annotations

import errno
import math
import os
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn import TableView, data_files_from_parquet
from firn.model.content_file import bind_content_file
from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, NotFound
from firn.model.metadata_create import new_table_metadata
from firn.model.name_mapping import NAME_MAPPING_PROPERTY, name_mapping_of, name_mapping_to_text
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.transforms import Bucket
from firn.model.types import DOUBLE, FLOAT, LONG, STRING, TIMESTAMPTZ, UUID, DecimalType, NestedField, StructType
from firn.model.values import from_bytes
from firn.storage.memory_files import MemoryFiles
from firn.storage.parquet_schema import arrow_schema

FIELDS = (
    NestedField(field_id=1, name="id", type=LONG, required=True),
    NestedField(field_id=2, name="ts", type=TIMESTAMPTZ, required=False),
    NestedField(field_id=3, name="customer_id", type=LONG, required=False),
    NestedField(field_id=4, name="name", type=STRING, required=False),
    NestedField(field_id=5, name="score", type=DOUBLE, required=False),
    NestedField(field_id=6, name="price", type=DecimalType(9, 2), required=False),
    NestedField(field_id=7, name="key", type=UUID, required=False),
    NestedField(
        field_id=8,
        name="place",
        required=False,
        type=StructType((NestedField(field_id=9, name="zone", type=FLOAT, required=False),)),
    ),
)
DAY = 86_400_000_000


def table(*fields: tuple[int, str], **changes: Any) -> TableView:
    """A table that is partitioned by transforms of columns, by id."""
    spec = PartitionSpec(
        spec_id=0,
        fields=tuple(
            PartitionField(source_ids=(source,), field_id=1000 + i, name=f"p{i}", transform=transform)
            for i, (source, transform) in enumerate(fields)
        ),
    )
    metadata = new_table_metadata(
        Schema(schema_id=0, struct=StructType(FIELDS)),
        spec,
        location="/wh/db/t",
        table_uuid=str(uuid.uuid4()),
        now_ms=1,
        **changes,
    )
    return TableView(name="db.t", metadata_location="/wh/db/t/metadata/0.metadata.json", metadata=metadata)


def rows(count: int, **columns: Any) -> dict[str, list[Any]]:
    full: dict[str, list[Any]] = {field.name: [None] * count for field in FIELDS}
    return {**full, "id": list(range(count)), **columns}


def written(path: Path, view: TableView, data: dict[str, list[Any]], **options: Any) -> Path:
    pq.write_table(pa.table(data, schema=arrow_schema(view.schema)), path, **options)
    return path


def customers_of(bucket: int, count: int) -> list[int]:
    of = [c for c in range(100_000) if Bucket(16).apply(LONG, c) == bucket]
    return of[:count]


def test_a_file_is_described_with_all_its_metrics(tmp_path: Path) -> None:
    view = table()
    data = rows(4, name=["b" * 40, None, "a", "c"], score=[1.0, math.nan, None, 3.0], price=[Decimal("1.25")] * 4)
    path = written(tmp_path / "a.parquet", view, data)
    (file,) = data_files_from_parquet([path], view, sort_order_id=0)
    bound = bind_content_file(file, view.metadata, where="file")
    assert (bound.file_path, bound.file_format, bound.spec_id, bound.partition) == (str(path), "parquet", 0, ())
    assert (bound.record_count, bound.file_size_in_bytes) == (4, path.stat().st_size)
    assert bound.column_sizes is not None
    assert set(bound.column_sizes) == {1, 2, 3, 4, 5, 6, 7, 9}
    assert bound.value_counts is not None
    assert bound.value_counts[4] == 4
    assert bound.null_value_counts is not None
    assert (bound.null_value_counts[4], bound.null_value_counts[2], bound.null_value_counts[1]) == (1, 4, 0)
    assert bound.nan_value_counts == {5: 1, 9: 0}
    assert bound.lower_bounds is not None
    assert bound.upper_bounds is not None
    assert from_bytes(STRING, bound.lower_bounds[4]) == "a"
    assert from_bytes(LONG, bound.upper_bounds[1]) == 3
    assert from_bytes(DecimalType(9, 2), bound.upper_bounds[6]) == Decimal("1.25")
    assert bound.split_offsets == (4,)
    assert (file.table_uuid, file.schema_id) == (view.uuid, view.schema.schema_id)


def test_long_bounds_are_truncated(tmp_path: Path) -> None:
    view = table()
    path = written(tmp_path / "a.parquet", view, rows(1, name=["x" * 40]))
    (file,) = data_files_from_parquet([path], view)
    bound = bind_content_file(file, view.metadata, where="file")
    assert bound.lower_bounds is not None
    assert bound.upper_bounds is not None
    assert from_bytes(STRING, bound.lower_bounds[4]) == "x" * 16
    assert from_bytes(STRING, bound.upper_bounds[4]) == "x" * 15 + "y"


def test_a_day_is_told_by_the_footer(tmp_path: Path) -> None:
    view = table((2, "day"))
    path = written(tmp_path / "a.parquet", view, rows(3, ts=[DAY * 19_000, DAY * 19_000 + 5, DAY * 19_001 - 1]))
    (file,) = data_files_from_parquet([path], view)
    assert bind_content_file(file, view.metadata, where="file").partition == (19_000,)


def test_a_bucket_is_told_by_the_rows(tmp_path: Path) -> None:
    view = table((2, "day"), (3, "bucket[16]"))
    data = rows(50, ts=[datetime(2026, 1, 2, 3, tzinfo=UTC)] * 50, customer_id=customers_of(7, 50))
    (file,) = data_files_from_parquet([written(tmp_path / "a.parquet", view, data, row_group_size=7)], view)
    assert bind_content_file(file, view.metadata, where="file").partition == (20_455, 7)


def test_rows_of_two_buckets_are_refused_by_name_and_row(tmp_path: Path) -> None:
    view = table((3, "bucket[16]"))
    data = rows(70_000, customer_id=[customers_of(7, 1)[0]] * 69_000 + customers_of(3, 1) * 1_000)
    path = written(tmp_path / "a.parquet", view, data)
    with pytest.raises(InvalidInput, match=r"p0 \(bucket\[16\]\) is 7 in row 0 and 3 in row 69000") as caught:
        data_files_from_parquet([path], view)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("source", "transform", "column", "values"),
    [
        (3, "identity", "customer_id", [1, 2]),
        (3, "bucket[16]", "customer_id", [None, 1]),
        (2, "day", "ts", [0, DAY]),
        (4, "truncate[1]", "name", ["ab", "bb"]),
        (5, "identity", "score", [0.0, math.nan]),
        (5, "identity", "score", [0.0, -0.0]),
        (6, "identity", "price", [Decimal("1.00"), Decimal("1.01")]),
        (7, "bucket[4]", "key", [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes]),
    ],
)
def test_rows_of_two_partitions_are_refused(
    tmp_path: Path, source: int, transform: str, column: str, values: list[Any]
) -> None:
    view = table((source, transform))
    path = written(tmp_path / "a.parquet", view, rows(2, **{column: values}))
    with pytest.raises(InvalidInput, match=r"in row 0 and .* in row 1"):
        data_files_from_parquet([path], view)


@pytest.mark.parametrize(
    ("source", "transform", "column", "values", "expected"),
    [
        (3, "identity", "customer_id", [None, None], None),
        (3, "void", "customer_id", [1, 2], None),
        (4, "truncate[2]", "name", ["abc", "abd"], "ab"),
        (5, "identity", "score", [0.5, 0.5], 0.5),
        (5, "identity", "score", [0.0, 0.0], 0.0),
        (7, "identity", "key", [uuid.UUID(int=9).bytes] * 2, uuid.UUID(int=9)),
        (9, "identity", "place", [{"zone": 1.5}, {"zone": 1.5}], 1.5),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_the_partition_of_all_rows_is_found(  # with statistics in the footer and without
    tmp_path: Path, source: int, transform: str, column: str, values: list[Any], expected: Any, statistics: bool
) -> None:
    view = table((source, transform))
    path = written(tmp_path / "a.parquet", view, rows(2, **{column: values}), write_statistics=statistics)
    (file,) = data_files_from_parquet([path], view)
    (value,) = bind_content_file(file, view.metadata, where="file").partition
    assert repr(value) == repr(expected), "0.0 and -0.0 are two partitions"


@pytest.mark.parametrize("given", [["2022-01-08", 7], {"p0": 19_000, "p1": 7}])
def test_a_partition_that_is_given_is_taken(tmp_path: Path, given: Any) -> None:
    view = table((2, "day"), (3, "bucket[16]"))
    path = written(tmp_path / "a.parquet", view, rows(1))
    (file,) = data_files_from_parquet([path], view, partition=given)
    assert bind_content_file(file, view.metadata, where="file").partition == (19_000, 7)


def test_a_partition_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    view = table((2, "day"))
    with pytest.raises(InvalidInput, match="partition values"):
        data_files_from_parquet([written(tmp_path / "a.parquet", view, rows(1))], view, partition=[1, 2])


def test_many_files_keep_their_order(tmp_path: Path) -> None:
    view = table()
    paths = [written(tmp_path / f"{n}.parquet", view, rows(n + 1)) for n in range(30)]
    assert [file.record_count for file in data_files_from_parquet(paths, view)] == list(range(1, 31))
    assert data_files_from_parquet([], view) == []


def test_a_file_uri_stays_as_it_is_given(tmp_path: Path) -> None:
    view = table()
    uri = written(tmp_path / "a.parquet", view, rows(1)).as_uri()
    assert data_files_from_parquet([uri], view)[0].file_path == uri


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = table()
    path = written(tmp_path / "a.parquet", view, rows(1))
    monkeypatch.chdir(tmp_path)
    assert [f.file_path for f in data_files_from_parquet(["a.parquet", Path("a.parquet")], view)] == [str(path)] * 2


def test_files_of_an_object_store_are_read_through_it(tmp_path: Path) -> None:
    view = table((3, "bucket[16]"))
    files = MemoryFiles()
    data = written(tmp_path / "a.parquet", view, rows(50, customer_id=customers_of(7, 50))).read_bytes()
    files.create("memory://bucket/t/a.parquet", data)
    (file,) = data_files_from_parquet(["memory://bucket/t/a.parquet"], view, files=files)
    assert (file.file_path, file.file_size_in_bytes) == ("memory://bucket/t/a.parquet", len(data))
    assert file.partition == (7,)
    with pytest.raises(InvalidInput, match="no file store"):
        data_files_from_parquet(["memory://bucket/t/a.parquet"], view)


def test_what_is_no_parquet_file_is_told_with_what_it_is_where_and_what_to_do(tmp_path: Path) -> None:
    view = table()
    good = written(tmp_path / "part-1.parquet", view, rows(3))
    (tmp_path / "text.parquet").write_text("not parquet, not at all")
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "half.parquet").write_bytes(good.read_bytes()[:-10])
    (tmp_path / "folder.parquet").mkdir()
    os.mkfifo(tmp_path / "pipe.parquet")
    for name, kind, said in [
        ("other.txt", NotFound, r"there is no file {}: a file is written, and its writer closed, before it is added"),
        ("part-2.parquet", NotFound, r"there is no file {}: did you mean 'part-1\.parquet'"),
        ("gone/part-1.parquet", NotFound, rf"there is no file {{}}: there is no folder {tmp_path}/gone"),
        ("part-1.parquet/x.parquet", NotFound, rf"there is no folder {tmp_path}/part-1\.parquet"),
        ("text.parquet", CorruptFile, r"{}: not a Parquet file: it ends in .*23 bytes; was its writer closed"),
        ("half.parquet", CorruptFile, r"{}: not a Parquet file: .* bytes; was its writer closed"),
        ("empty.parquet", CorruptFile, r"{}: not a Parquet file: it is empty \("),
        ("folder.parquet", InvalidInput, r"{}: is a folder, not a file \(name its Parquet files: {}/\*\.parquet\)"),
        ("pipe.parquet", InvalidInput, r"{}: is no regular file"),
    ]:
        path = tmp_path / name
        with pytest.raises(kind, match=said.replace("{}", str(path))):
            data_files_from_parquet([good, path], view)


def test_a_file_that_may_not_be_read_is_no_server_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the tests as root may read anything, so the refusal is made here."""
    path = written(tmp_path / "a.parquet", table(), rows(3))
    refusals: list[Path] = []

    def refuse(self: Path, *_args: object, **_options: object) -> None:
        refusals.append(self)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidInput, match=rf"{path}: may not be read .*chmod, or chown, {path}"):
        data_files_from_parquet([path], table())
    assert refusals == [path]


def test_a_file_that_an_object_store_does_not_have_is_named() -> None:
    with pytest.raises(NotFound, match=r"there is no file memory://bucket/t/none\.parquet: a file is written"):
        data_files_from_parquet(["memory://bucket/t/none.parquet"], table(), files=MemoryFiles())


def test_what_is_no_file_of_the_table_is_refused(tmp_path: Path) -> None:
    view = table()
    named = view_with_mapping(view)
    pq.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    with pytest.raises(InvalidSchema):
        data_files_from_parquet([tmp_path / "other.parquet"], named)
    part = pa.schema([field for field in arrow_schema(view.schema) if field.name == "name"])
    pq.write_table(pa.table({"name": ["x"]}, schema=part), tmp_path / "part.parquet")
    with pytest.raises(InvalidInput, match="'id' is missing"):
        data_files_from_parquet([tmp_path / "part.parquet"], view)


def view_with_mapping(view: TableView) -> TableView:
    text = name_mapping_to_text(name_mapping_of(view.schema))
    metadata = msgspec.structs.replace(view.metadata, properties={NAME_MAPPING_PROPERTY: text})
    return msgspec.structs.replace(view, metadata=metadata)


def test_files_without_field_ids_need_a_name_mapping_or_other_engines_could_not_read_them(tmp_path: Path) -> None:
    view = table((4, "identity"))
    pq.write_table(pa.table({"id": [1, 2], "name": ["x", "x"]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"no field ids.*arrow_schema"):
        data_files_from_parquet([tmp_path / "a.parquet"], view)
    (file,) = data_files_from_parquet([tmp_path / "a.parquet"], view_with_mapping(view))
    assert (file.partition, file.record_count) == (("x",), 2)
