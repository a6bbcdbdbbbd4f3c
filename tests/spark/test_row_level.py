"""Rows are deleted, updated and merged in either mode, and every reader sees the same rows after it."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyspark.sql.functions as F  # noqa: N812 - what everybody calls it
import pytest
from pyspark.errors import PySparkException

from firn.coordinator.client import Client, TableView
from firn.coordinator.client.sync_client import Ticket
from firn.model.errors import InvalidInput
from firn.model.intent import Intent
from firn.model.outcome import Rejected
from firn.pipeline.connection import Connection
from firn.pipeline.data_source import register
from firn.pipeline.merge import Clauses, Delete, Insert, Update, merge
from firn.pipeline.reads import read
from firn.pipeline.row_changes import Mode
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.writes import append, overwrite
from tests.spark.by_hand import append_rows, delete_equal, written
from tests.spark.lake import Lake, committed, list_of, struct_of

MODES = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]


def rows_of(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def same_for_all(lake: Lake, table: str) -> list[tuple]:
    """The rows, which firn's reader and Iceberg's runtime must agree on."""
    ours, theirs = rows_of(read(lake.spark, table)), rows_of(lake.by_java(table))
    assert ours == theirs
    return ours


def row_ids(lake: Lake, table: str) -> dict[int, tuple[int, int]]:
    rows = read(lake.spark, table, columns=["id", "_row_id", "_last_updated_sequence_number"]).collect()
    return {row[0]: (row[1], row[2]) for row in rows}


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_rows_change_in_every_way_and_stay_themselves(lake: Lake, version: int, mode: Mode) -> None:
    table = lake.create(version=version, partition=(("region", "identity"),))
    committed(append(lake.events(0, 12), table))
    committed(append(lake.events(12, 24), table))
    before = row_ids(lake, table)
    committed(delete_where(lake.spark, table, "id in (1, 2, 13) or region is null and id > 20", mode=mode))
    left = [i for i in range(24) if i not in {1, 2, 13} and not (i % 3 == 2 and i > 20)]
    assert [row[0] for row in sorted(same_for_all(lake, table))] == left
    committed(update(lake.spark, table, {"amount": "amount + 100", "region": F.lit("eu")}, "id in (4, 5)", mode=mode))
    found = {row[0]: row for row in same_for_all(lake, table)}
    assert {i: found[i][1] for i in (4, 5, 6, 7)} == {4: "eu", 5: "eu", 6: "eu", 7: "us"}
    assert found[4][3] == Decimal("101.00")
    source = lake.spark.createDataFrame([(4, "as"), (6, "as"), (99, "af")], "id long, region string")
    clauses = Clauses(
        matched=(Delete("t.id = 4"), Update()),
        not_matched=(Insert({"id": "s.id", "region": F.concat(F.col("s.region"), F.lit("!"))}),),
        not_matched_by_source=(Delete("t.id > 17"),),
    )
    committed(merge(source, table, on="t.id = s.id", clauses=clauses, mode=mode))
    found = {row[0]: row for row in same_for_all(lake, table)}
    assert sorted(found) == [i for i in left if i != 4 and i <= 17] + [99]
    assert (found[6][1], found[6][3]) == ("as", Decimal("1.50"))
    assert found[99][1:] == ("af!", None, None)
    deletes = {file for file in lake.files_on_disk(table) if "deletes" in file}
    assert bool(deletes) == (mode == "merge-on-read")
    if version == 3:
        after = row_ids(lake, table)
        assert {i: after[i][0] for i in after if i != 99} == {i: before[i][0] for i in after if i != 99}
        assert {i for i in after if i != 99 and after[i][1] != before[i][1]} == {5, 6}


def test_files_that_match_whole_go_unread_and_nothing_matched_is_no_commit(lake: Lake) -> None:
    table = lake.create(partition=(("region", "identity"),))
    committed(append(lake.events(0, 12), table))
    head = lake.view(table).snapshot_id
    assert delete_where(lake.spark, table, "id = 400") is None
    assert update(lake.spark, table, {"region": "'x'"}, "id = 400") is None
    assert lake.view(table).snapshot_id == head
    committed(delete_where(lake.spark, table, "region = 'eu'"))
    assert int(lake.summary(table)["deleted-data-files"]) > 0
    assert "added-data-files" not in lake.summary(table)
    assert all(row[1] != "eu" for row in same_for_all(lake, table))


def test_rewritten_files_keep_deletes_of_rows_that_the_filter_is_not_about(lake: Lake) -> None:
    table = lake.create(version=2)
    append_rows(lake, table, (0, 10))
    delete_equal(lake, table, "id", [3])
    committed(update(lake.spark, table, {"amount": "0"}, "id = 7", mode="copy-on-write"))
    delete_equal(lake, table, "id", [4])
    committed(delete_where(lake.spark, table, "id = 8", mode="copy-on-write"))
    assert [row[0] for row in same_for_all(lake, table)] == [0, 1, 2, 5, 6, 7, 9]


def test_two_vectors_on_one_file_become_one(lake: Lake) -> None:
    table = lake.create(version=3)
    committed(append(lake.events(0, 10).coalesce(1), table))
    for i in (1, 3, 5):
        committed(delete_where(lake.spark, table, f"id = {i}", mode="merge-on-read"))
    assert [row[0] for row in sorted(same_for_all(lake, table))] == [0, 2, 4, 6, 7, 8, 9]
    assert lake.summary(table)["total-delete-files"] == "1"


def test_a_row_matched_twice_is_refused_and_nothing_is_left(lake: Lake) -> None:
    table = lake.create()
    committed(append(lake.events(0, 3), table))
    before = set(lake.files_on_disk(table))
    twice = lake.spark.createDataFrame([(1, "a"), (1, "b")], "id long, region string")
    with pytest.raises(InvalidInput, match="matched by 2 rows"):
        merge(twice, table, on="t.id = s.id", clauses=Clauses(matched=(Update(),)))
    assert set(lake.files_on_disk(table)) == before
    committed(merge(twice, table, on="t.id = s.id", clauses=Clauses(matched=(Delete(),))))
    assert lake.ids(table) == [0, 2]


@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (3, "merge-on-read")])
def test_what_comes_meanwhile_is_a_conflict_where_it_was_read(
    lake: Lake, version: int, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create(version=version, partition=(("region", "identity"),))
    committed(append(lake.events(0, 12), table))

    original = Connection.table
    races = ["eu", "us"]

    def table_then_race(self: Connection, name: str) -> TableView:
        view = original(self, name)
        monkeypatch.setattr(Connection, "table", original)
        raced = lake.spark.createDataFrame([(500, races.pop(0))], "id long, region string")
        committed(append(raced, table))
        return view

    monkeypatch.setattr(Connection, "table", table_then_race)
    refused = update(lake.spark, table, {"amount": "0"}, "region = 'eu'", mode=mode)
    assert isinstance(refused, Rejected)
    assert refused.hint == "replan"
    assert {file for file in lake.files_on_disk(table) if refused.intent_id in file} == set()
    monkeypatch.setattr(Connection, "table", table_then_race)
    committed(update(lake.spark, table, {"amount": "0"}, "region = 'eu' and id < 400", mode=mode))
    assert [row[0] for row in same_for_all(lake, table) if row[3] == 0 and row[0] < 400] == [0, 3, 6, 9]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_fields_of_structs_are_set_by_name_and_matched_by_what_is_in_them(lake: Lake, mode: Mode) -> None:
    table = lake.create({"id": "long", "s": struct_of(a=10, b=11), "l": list_of(20, struct_of(x=21, y=22))}, version=3)
    rows = "id", "named_struct('a', id, 'b', -id) AS s", "array(named_struct('x', id, 'y', -id)) AS l"
    committed(append(lake.spark.range(1, 5).selectExpr(*rows), table))
    swapped = "named_struct('B', 20, 'a', 10) AS s, array(named_struct('y', 40, 'x', 30), NULL) AS l"
    source = lake.spark.sql(f"SELECT 1L AS id, {swapped} UNION ALL SELECT 9L, NULL, NULL")
    clauses = Clauses(matched=(Update(),), not_matched=(Insert(),))
    committed(merge(source, table, on="t.s.a = s.id", clauses=clauses, mode=mode))
    committed(update(lake.spark, table, {"s": "named_struct('b', s.a, 'a', s.b)"}, "s.a = 2", mode=mode))
    others = Clauses(matched=(Delete(),))
    committed(merge(lake.spark.sql("SELECT -3L AS b"), table, on="t.s.b = s.b", clauses=others, mode=mode))
    assert same_for_all(lake, table) == [
        (1, (10, 20), [(30, 40), None]),
        (2, (-2, 2), [(2, -2)]),
        (4, (4, -4), [(4, -4)]),
        (9, None, None),
    ]
    with pytest.raises(InvalidInput, match="s: has the fields col1, col2, and the table's column has a, b"):
        update(lake.spark, table, {"s": "struct(1L, 2L)"}, "id = 1", mode=mode)


def test_lists_in_lists_that_are_all_empty_are_written(lake: Lake) -> None:
    """What Java sends for them would end Python's process."""
    table = lake.create({"id": "long", "l": list_of(20, list_of(21, "long"))}, version=3)
    committed(append(lake.spark.sql("SELECT id, array(array(id)) AS l FROM range(3)"), table))
    committed(update(lake.spark, table, {"l": "NULL"}, "id = 1"))
    committed(append(lake.spark.sql("SELECT 3L AS id, array() AS l"), table))
    assert same_for_all(lake, table) == [(0, [[0]]), (1, None), (2, [[2]]), (3, [])]


def test_required_fields_of_structs_that_may_be_null(lake: Lake) -> None:
    """What may be null to Spark is cast to them, and nulls are refused where there is a struct."""
    inside = {"id": 10, "name": "a", "type": "long", "required": True}
    table = lake.create({"id": "long", "s": {"type": "struct", "fields": [inside]}}, version=3)
    committed(append(lake.spark.sql("SELECT 1L AS id, NULL AS s UNION ALL SELECT 2L, named_struct('a', 2L)"), table))
    source = lake.spark.createDataFrame([(1, (5,)), (2, None)], "id long, s struct<a: long>")
    committed(merge(source, table, on="t.id = s.id", clauses=Clauses(matched=(Update(),))))
    assert same_for_all(lake, table) == [(1, (5,)), (2, None)]
    register(lake.spark)
    for frame in (read(lake.spark, table), lake.spark.read.format("firn").option("table", table).load()):
        assert frame.orderBy("id").toArrow().to_pylist() == [{"id": 1, "s": {"a": 5}}, {"id": 2, "s": None}]
    with pytest.raises(PySparkException, match=r"s\.a: holds 1 null and is required"):
        update(lake.spark, table, {"s": "named_struct('a', CAST(NULL AS long))"}, "id = 1")


def test_columns_whose_names_have_backquotes(lake: Lake) -> None:
    table = lake.create({"id": "long", "a`b": "long"})
    rows = pa.record_batch({"id": pa.array([1, 2]), "a`b": pa.array([3, 4])})
    lake.client.append(table, written(lake, table, rows)).committed(60)
    assert read(lake.spark, table, columns=["id"], filter='"a`b" = 4').collect() == [(2,)]
    committed(delete_where(lake.spark, table, '"a`b" = 3', mode="merge-on-read"))
    assert read(lake.spark, table).collect() == [(2, 4)]


def test_what_an_operation_reads_is_kept_while_it_runs_and_an_append_keeps_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create(version=2)
    kept: list[tuple[str, list[tuple[str, int | None]]]] = []
    submit = Client.submit

    def look(client: Client, intent: Intent) -> Ticket:
        standing = client.reserved(table).reservations
        kept.append((type(intent).__name__, [(one.purpose, one.base_snapshot_id) for one in standing]))
        return submit(client, intent)

    monkeypatch.setattr(Client, "submit", look)
    bases = [committed(append(lake.events(0, 12), table)).snapshot_id]
    bases.append(committed(delete_where(lake.spark, table, "id = 1")).snapshot_id)
    bases.append(committed(update(lake.spark, table, {"amount": "amount + 1"}, "id = 2")).snapshot_id)
    source = lake.spark.createDataFrame([(3, "as")], "id long, region string")
    merged = merge(source, table, on="t.id = s.id", clauses=Clauses(matched=(Update(),)))
    bases.append(committed(merged).snapshot_id)
    committed(overwrite(lake.events(0, 3), table))
    assert [operation for operation, _ in kept] == ["Append", *["Overwrite"] * 4]
    purposes = ["change of rows"] * 3 + ["overwrite"]
    assert [found for _, found in kept] == [[], *([pair] for pair in zip(purposes, bases, strict=True))]
    assert Connection.of_spark(lake.spark).client().reserved(table).reservations == ()
