"""Files that other engines cannot read are refused; each case is read by PyIceberg, which shows which those are."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema

from firn.model.errors import InvalidInput
from firn.model.schema import Schema
from firn.model.types import STRING, TIME, TIMESTAMP, TIMESTAMPTZ, ListType, NestedField, StructType, Type
from firn.storage.readable_parquet import check_readable

ID = b"PARQUET:field_id"
NOT_UTF8 = pa.array([b"ok", b"\xff\xfe"], pa.binary()).view(pa.string())
MOMENTS = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None]
LIST = ListType(element_id=2, element=STRING, element_required=False)
CASES: dict[str, tuple[Type, pa.Array, str | None]] = {
    "utc": (TIMESTAMPTZ, pa.array(MOMENTS, pa.timestamp("us", "UTC")), None),
    "another name of utc": (TIMESTAMPTZ, pa.array(MOMENTS, pa.timestamp("us", "+00:00")), None),
    "helsinki": (TIMESTAMPTZ, pa.array(MOMENTS, pa.timestamp("us", "Europe/Helsinki")), "Europe/Helsinki"),
    "an offset": (TIMESTAMPTZ, pa.array(MOMENTS, pa.timestamp("us", "+02:00")), r"\+02:00"),
    "no zone": (TIMESTAMP, pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us")), None),  # noqa: DTZ001
    "time in microseconds": (TIME, pa.array([1], pa.time64("us")), None),
    "time in milliseconds": (TIME, pa.array([1], pa.time32("ms")), "microseconds"),
    "time in nanoseconds": (TIME, pa.array([1000], pa.time64("ns")), "microseconds"),
    "texts": (STRING, pa.array(["é", "日本", "", None]), None),
    "no texts": (STRING, NOT_UTF8, "not UTF-8"),
    "no texts in a list": (LIST, pa.ListArray.from_arrays(pa.array([0, 2]), NOT_UTF8), "not UTF-8"),
}


def written(type: Type, values: pa.Array) -> bytes:
    kind = values.type
    if isinstance(type, ListType):
        kind = pa.list_(pa.field("element", pa.string(), metadata={ID: b"2"}))
        values = pa.ListArray.from_arrays(values.offsets, values.values, type=kind)
    schema = pa.schema([pa.field("c", kind, metadata={ID: b"1"})])
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([values], schema=schema), sink)
    return sink.getvalue()


def read_by_pyiceberg(data: bytes) -> None:
    """What PyIceberg does first with a file, and what every reader of texts does."""
    file = pq.ParquetFile(io.BytesIO(data))
    pyarrow_to_schema(file.schema_arrow)
    file.read().validate(full=True)


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_is_what_pyiceberg_cannot_read(case: str) -> None:
    type, values, reason = CASES[case]
    data = written(type, values)
    schema = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="c", type=type, required=False),)))
    if reason is None:
        read_by_pyiceberg(data)
        check_readable(pq.ParquetFile(io.BytesIO(data)), schema=schema, location="f.parquet")
        return
    with pytest.raises((UnsupportedPyArrowTypeException, pa.ArrowInvalid)):
        read_by_pyiceberg(data)
    with pytest.raises(InvalidInput, match=reason) as caught:
        check_readable(pq.ParquetFile(io.BytesIO(data)), schema=schema, location="f.parquet")
    assert caught.value.where == "f.parquet"
    assert caught.value.hint
