"""Whether encoded metrics fit a table's columns: compiled code, Python's steps and the types themselves agree."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from firn.model.errors import InvalidIntent
from firn.model.intent import ContentFile, CountMap, ValueMap
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED
from firn.model.schema import schema_from_json
from firn.model.sorting import UNSORTED
from firn.model.values import to_bytes
from firn.storage.fitting_metrics import Forms, fits_by_python, forms_of, require_fitting
from firn.storage.wire_files import compiled_fits
from firn.storage.wire_metrics import encode_wire_metrics
from tests.strategies.examples import examples

TYPES = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
    "timestamptz_ns", "string", "uuid", "binary", "fixed[3]", "fixed[300]", "decimal(1, 0)", "decimal(9, 2)",
    "decimal(18, 3)", "decimal(19, 3)", "decimal(38, 10)", "geometry", "variant",
)  # fmt: skip
COLUMNS = [{"id": n, "name": f"c{n}", "type": name, "required": False} for n, name in enumerate(TYPES, start=1)]
FILE = ContentFile(file_path="/t/a", file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=1)


def forms() -> Forms:
    metadata = new_table_metadata(
        schema=schema_from_json({"type": "struct", "schema-id": 0, "fields": COLUMNS}),
        spec=UNPARTITIONED, order=UNSORTED, location="memory://t", properties={}, format_version=3,
        table_uuid="00000000-0000-0000-0000-000000000001", now_ms=1,
    )  # fmt: skip
    return forms_of(metadata)


BOUNDS = (
    st.binary(max_size=17)
    | st.text(max_size=5).map(str.encode)
    | st.integers(-(10**38), 10**38).map(lambda number: number.to_bytes(17, signed=True).lstrip(b"\0") or b"\0")
)
COUNTS = st.none() | st.dictionaries(st.integers(0, 30), st.integers(0, 2**63 - 1), max_size=4)
MAPS = st.none() | st.dictionaries(st.integers(0, 30), BOUNDS, max_size=4)


def is_taken(encoded: bytes, table: Forms) -> bool:
    try:
        require_fitting(encoded, table, where="")
    except InvalidIntent:
        return False
    return True


def encode(counts: dict[int, int] | None, low: dict[int, bytes] | None, high: dict[int, bytes] | None) -> bytes:
    lists = [None if one is None else ValueMap(tuple(one), tuple(b.hex() for b in one.values())) for one in (low, high)]
    count_map = None if counts is None else CountMap(tuple(counts), tuple(counts.values()))
    file = replace(FILE, column_sizes=count_map, lower_bounds=lists[0], upper_bounds=lists[1])
    return encode_wire_metrics(file, where="")


@pytest.mark.skipif(compiled_fits is None, reason="firn was installed without a C compiler: nothing is compiled")
@examples(1_000)
@given(counts=COUNTS, low=MAPS, high=MAPS, data=st.data())
def test_compiled_code_answers_as_python_does(counts: Any, low: Any, high: Any, data: st.DataObject) -> None:
    assert compiled_fits is not None
    table = forms()
    assert table.by_id is not None
    encoded = encode(counts, low, high)
    fits = compiled_fits(encoded, table.by_id)
    assert fits == fits_by_python(encoded, table.by_id)
    assert is_taken(encoded, table) or not fits
    damaged = bytearray(encoded)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    assert compiled_fits(cut, table.by_id) == fits_by_python(cut, table.by_id)


@examples(300)
@example(low=None, high={8: (106_751_991).to_bytes(4, "little")})
@example(low=None, high={8: (106_751_992).to_bytes(4, "little")})
@example(low={10: (2**31 - 1).to_bytes(4, "little")}, high=None)
@given(low=MAPS, high=MAPS)
def test_lookups_and_types_agree(low: Any, high: Any) -> None:
    near = forms()
    decoded = Forms(near.types, None)
    encoded = encode(None, low, high)
    assert is_taken(encoded, near) == is_taken(encoded, decoded)


@pytest.mark.parametrize("value", [0, 1, -1, 127, -128, 10**9 - 1, 1 - 10**9])
def test_most_files_are_not_decoded(value: int) -> None:
    table = forms()
    assert table.by_id is not None
    name = "decimal(9, 2)"
    field_id = TYPES.index(name) + 1
    type_ = table.types[field_id]
    bound = to_bytes(type_, Decimal(value).scaleb(-2))
    assert fits_by_python(encode({1: 1}, {1: b"\1", 12: "ä".encode(), field_id: bound}, None), table.by_id)
