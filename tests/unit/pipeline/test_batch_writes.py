"""Each write of a batch has a number of its own, and keeps it when the batch is run again."""

from __future__ import annotations

from firn.pipeline.streams import BatchWrites, query_label

FIRST, SECOND = object(), object()


def write(writes: BatchWrites, by: object = FIRST, *, run: str = "r1", batch: int = 1, table: str = "db.t") -> int:
    """Make a write that is committed."""
    number = writes.number("etl", table, run=run, batch_id=batch, by=by)
    writes.finish("etl", table, number)
    return number


def test_writes_of_one_batch_are_counted() -> None:
    writes = BatchWrites()
    assert [write(writes), write(writes), write(writes, SECOND)] == [1, 2, 3]


def test_each_batch_run_and_table_is_counted_from_one() -> None:
    writes = BatchWrites()
    found = [write(writes), write(writes, batch=2), write(writes, batch=2, run="r2"), write(writes, table="db.u")]
    assert found == [1, 1, 1, 1]
    assert write(writes, SECOND, batch=2, run="r2") == 2


def test_a_write_that_failed_keeps_its_number_and_another_does_not_get_it() -> None:
    writes = BatchWrites()

    def fail(by: object) -> int:
        return writes.number("etl", "db.t", run="r1", batch_id=1, by=by)

    assert [fail(FIRST), fail(FIRST), fail(SECOND), write(writes, FIRST), write(writes, SECOND)] == [1, 1, 2, 1, 2]
    assert write(writes, FIRST) == 3


def test_labels_differ_by_query_and_by_write() -> None:
    assert len({query_label("q1"), query_label("q2"), query_label("q1", 2)}) == 3
    assert query_label("q1") == query_label("q1", 1)
