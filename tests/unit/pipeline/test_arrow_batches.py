"""Small batches worked on together: the same rows, in their order, in fewer batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from firn.pipeline.arrow_batches import TOGETHER_BYTES, TOGETHER_ROWS, mended, together


def batches(count: int, *, rows: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": pa.array(range(at * rows, (at + 1) * rows))}) for at in range(count)]


def test_rows_stay_in_their_order_in_fewer_batches() -> None:
    found = list(together(batches(100, rows=2_000)))
    assert pa.Table.from_batches(found)["id"].to_pylist() == list(range(200_000))
    assert [one.num_rows for one in found[:-1]] == [TOGETHER_ROWS // 2_000 * 2_000 + 2_000] * (len(found) - 1)


def test_wide_rows_wait_for_few_others() -> None:
    wide = pa.record_batch({"text": pa.array(["x" * (TOGETHER_BYTES // 2)])})
    assert [one.num_rows for one in together([wide] * 5)] == [2, 2, 1]


def test_no_batches_and_batches_without_rows() -> None:
    assert list(together([])) == []
    empty = batches(1, rows=0)[0]
    assert [one.num_rows for one in together([empty, empty])] == [0]


LISTS = pa.list_(pa.list_(pa.int64()))
MAPS = pa.map_(pa.string(), pa.map_(pa.int32(), pa.int64()))
IN_STRUCTS = pa.struct([("one", pa.int64()), ("all", pa.list_(pa.struct([("few", pa.list_(pa.string()))])))])


def as_java_sends_it(array: pa.Array) -> pa.Array:
    """The array without the offsets of lists that there are none of."""
    type, buffers = array.type, array.buffers()
    if pa.types.is_struct(type):
        children = [as_java_sends_it(array.field(at)) for at in range(type.num_fields)]
        return pa.Array.from_buffers(type, len(array), buffers[:1], children=children)
    if not (pa.types.is_list(type) or pa.types.is_map(type)):
        return array
    offsets = buffers[1] if len(array) else None
    return pa.Array.from_buffers(type, len(array), [buffers[0], offsets], children=[as_java_sends_it(array.values)])


@pytest.mark.parametrize(
    ("type", "values"),
    [
        (LISTS, [None, [], None]),
        (LISTS, [[[1], []], None, []]),
        (MAPS, [None, []]),
        (MAPS, [[("a", [(1, 2)])], None]),
        (IN_STRUCTS, [None, {"one": 1, "all": []}]),
        (IN_STRUCTS, [{"one": 1, "all": [{"few": None}]}, None]),
        (LISTS, []),
    ],
)
def test_lists_in_lists_that_are_all_empty_are_worked_on(type: pa.DataType, values: list[object]) -> None:
    """pyarrow would end the process over them."""
    sent = pa.record_batch({"v": as_java_sends_it(pa.array(values, type)), "id": pa.array(range(len(values)))})
    found = mended(sent)
    assert found.nbytes >= 0
    assert found.schema == sent.schema
    found.validate(full=True)
    (both,) = together([sent, sent])
    assert both["v"].to_pylist() == pa.array(values + values, type).to_pylist()
