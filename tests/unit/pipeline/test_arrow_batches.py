"""Small batches worked on together: the same rows, in their order, in fewer batches."""

from __future__ import annotations

import pyarrow as pa

from firn.pipeline.arrow_batches import TOGETHER_BYTES, TOGETHER_ROWS, together


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
