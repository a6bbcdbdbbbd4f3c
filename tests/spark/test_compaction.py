"""Compaction: the same rows in better files, whatever the table is made of."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pyarrow as pa
import pytest

from firn.coordinator.client import TableView
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput, Unsupported
from firn.model.expressions.filter_text import filter_from_text
from firn.model.sorting import SortBy
from firn.model.types import LONG
from firn.model.values import from_bytes
from firn.pipeline.compaction import compact
from firn.pipeline.compaction_layout import Strategy
from firn.pipeline.compaction_outcome import CompactionOutcome, Progress
from firn.pipeline.compaction_rules import rules_of
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.writes import append
from firn.storage.manifest_reader import StoredManifests
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan
from tests.spark.by_hand import append_rows, data_files, delete_equal, delete_files, delete_positions, written
from tests.spark.lake import Lake, committed
from tests.spark.test_row_level import row_ids, same_for_all

STRATEGIES: list[tuple[int, Strategy, tuple[str, ...]]] = [
    (1, "bin-pack", ()),
    (2, "sort", ("ts",)),
    (3, "z-order", ("id", "amount")),
]


def compacted(lake: Lake, table: str, **options: Any) -> CompactionOutcome:
    """Two small files are enough for these tests."""
    outcome = compact(lake.spark, table, **{"rules": rules_of({}, min_input_files=2), **options})
    assert outcome.ok, str(outcome)
    return outcome


def ids_of(file: DataFile) -> tuple[int, int]:
    assert file.lower_bounds is not None
    assert file.upper_bounds is not None
    return from_bytes(LONG, file.lower_bounds[1]), from_bytes(LONG, file.upper_bounds[1])


@pytest.mark.parametrize(("version", "strategy", "by"), STRATEGIES)
def test_files_become_fewer_and_rows_stay(lake: Lake, version: int, strategy: Strategy, by: tuple[str, ...]) -> None:
    table = lake.create(version=version, partition=(("region", "identity"),))
    append_rows(lake, table, (0, 12), (12, 24), (24, 36))
    before, files = same_for_all(lake, table), data_files(lake, table)
    seen: list[Progress] = []
    outcome = compacted(lake, table, strategy=strategy, by=by, progress=seen.append, summary={"who": "night"})
    assert (len(files), outcome.files_before, outcome.files_after) == (9, 9, 3)
    assert same_for_all(lake, table) == before
    assert len(data_files(lake, table)) == 3
    assert lake.summary(table)["who"] == "night"
    assert [one.stage for one in seen] == ["planned", *["written", "settled"] * 3]
    assert [one.group.status for one in seen if one.group is not None] == ["written", "committed"] * 3
    assert (seen[-1].groups_done, seen[-1].groups_total) == (3, 3)
    head = lake.view(table).snapshot_id
    assert compacted(lake, table, strategy=strategy, by=by).groups == ()
    assert lake.view(table).snapshot_id == head


def test_deletes_by_position_and_by_value_are_applied_and_go(lake: Lake) -> None:
    table = lake.create(version=2)
    append_rows(lake, table, (0, 10), (10, 20))
    first, second = (file.file_path for file in data_files(lake, table))
    delete_positions(lake, table, {first: [1], second: [2, 3]})
    delete_equal(lake, table, "region", ["eu"])
    append_rows(lake, table, (20, 24))
    before = same_for_all(lake, table)
    # A filter chooses files; what is deleted from them is none of its business.
    outcome = compacted(lake, table, where="id = 4 or id = 14 or id = 22", strategy="sort", by=("id",))
    assert same_for_all(lake, table) == before
    assert delete_files(lake, table) == []
    (group,) = outcome.groups
    assert (group.files_before, group.files_after) == (3, 1)


@pytest.mark.long
def test_files_out_of_the_filter_stay_and_so_do_their_deletes(lake: Lake) -> None:
    table = lake.create(version=2)
    append_rows(lake, table, (0, 10), (10, 20), (20, 30))
    delete_equal(lake, table, "id", [3, 23])
    before = same_for_all(lake, table)
    compacted(lake, table, where="id < 20")
    assert sorted(ids_of(file) for file in data_files(lake, table)) == [(0, 19), (20, 29)]
    assert len(delete_files(lake, table)) == 1
    assert same_for_all(lake, table) == before
    compacted(lake, table, rules=rules_of({}, rewrite_all=True), where="id >= 20")
    assert delete_files(lake, table) == []
    assert same_for_all(lake, table) == before


def test_rows_keep_their_identity(lake: Lake) -> None:
    """Vectors are applied, a column that came later has its default, and every row is who it was."""
    table = lake.create(version=3)
    append_rows(lake, table, (0, 10), (10, 20))
    committed(delete_where(lake.spark, table, "id in (3, 13)", mode="merge-on-read"))
    committed(update(lake.spark, table, {"region": "'af'"}, "id = 5", mode="merge-on-read"))
    change = lake.client.update_schema(table, base=lake.view(table)).add_column("kind", "string", default="old")
    change.submit().committed(60)
    before, identity = same_for_all(lake, table), row_ids(lake, table)
    outcome = compacted(lake, table)
    assert outcome.files_after == 1
    assert same_for_all(lake, table) == before
    assert {row[4] for row in before} == {"old"}
    assert row_ids(lake, table) == identity
    assert len({number for _, number in identity.values()}) == 3
    java = lake.by_java(table).select("id", "_row_id", "_last_updated_sequence_number").collect()
    assert {row[0]: (row[1], row[2]) for row in java} == identity
    assert delete_files(lake, table) == []


def test_files_of_an_older_spec_move_to_the_newer_one(lake: Lake) -> None:
    table = lake.create(version=2)
    append_rows(lake, table, (0, 10))
    lake.client.update_spec(table, base=lake.view(table)).add_field("region").submit().committed(60)
    append_rows(lake, table, (10, 20))
    before = same_for_all(lake, table)
    outcome = compacted(lake, table, rules=rules_of({}))
    assert [group.partition for group in outcome.groups] == ["files of older specs"]
    files = data_files(lake, table)
    assert {file.spec_id for file in files} == {lake.view(table).spec.spec_id}
    assert len(files) == 6
    assert same_for_all(lake, table) == before


def test_columns_that_spark_has_no_type_for_are_copied(lake: Lake) -> None:
    table = lake.create({"id": "long", "place": "geometry"}, version=3)
    for start in (0, 5, 10):
        places = [struct.pack("<BIdd", 1, 1, float(i), 0.5) for i in range(start, start + 5)]
        rows = pa.record_batch({"id": pa.array(range(start, start + 5)), "place": pa.array(places, pa.binary())})
        lake.client.append(table, written(lake, table, rows)).committed(60)
    delete_equal(lake, table, "id", [3])
    committed(delete_where(lake.spark, table, "id = 7", mode="merge-on-read"))
    before = _rows(lake, table, "id", "place", "_row_id", "_last_updated_sequence_number")
    assert len(before) == 13
    outcome = compacted(lake, table)
    assert (outcome.files_before, outcome.files_after) == (3, 1)
    assert _rows(lake, table, "id", "place", "_row_id", "_last_updated_sequence_number") == before
    with pytest.raises(Unsupported, match="geometry"):
        compact(lake.spark, table, strategy="sort", by=("id",))


def _rows(lake: Lake, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows by firn's own reader, without Spark."""
    metadata, files = lake.view(table).metadata, lake.connection.store()
    plan = plan_scan(metadata, files=StoredManifests(files), columns=columns)
    return sorted(tuple(row.values()) for part in scan_rows(plan, metadata, files=files) for row in part)


@pytest.mark.long
def test_sorted_files_are_narrow_and_say_so(lake: Lake) -> None:
    table = lake.create(version=2, order=(("id", "asc"),))
    rules = rules_of(
        {}, target_file_size_bytes=4_000, min_file_size_bytes=1, max_file_size_bytes=100_000, rewrite_all=True
    )
    for start in range(4):
        append_rows(lake, table, (start, start + 600))
    before = same_for_all(lake, table)
    compacted(lake, table, strategy="sort", rules=rules)
    spans = sorted(ids_of(file) for file in data_files(lake, table))
    assert len(spans) > 1
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    assert {file.sort_order_id for file in data_files(lake, table)} == {1}
    compacted(lake, table, strategy="sort", by=(SortBy(source="amount", direction="desc"),), rules=rules)
    assert {file.sort_order_id for file in data_files(lake, table)} == {None}
    assert same_for_all(lake, table) == before


def test_a_filter_on_two_columns_reads_fewer_files_in_z_order(lake: Lake) -> None:
    table = lake.create({"x": "long", "y": "double"}, version=2)
    rows = lake.spark.range(2_500).selectExpr(
        "pmod(xxhash64(id, 1), 4000) * 1000000 AS x", "pmod(xxhash64(id, 2), 4000) / 100 AS y"
    )
    committed(append(rows.coalesce(1), table))
    rules = rules_of(
        {}, target_file_size_bytes=1_500, min_file_size_bytes=1, max_file_size_bytes=100_000, rewrite_all=True
    )
    looked_for = ("x < 500000000 and y < 5", "x >= 3000000000 and y >= 30", "x < 1000000000 and y >= 30")

    def share_read() -> float:
        view = lake.view(table)
        every = len(data_files(lake, table))
        assert every >= 12
        return sum(_files_read(lake, view, text) for text in looked_for) / every

    compacted(lake, table, strategy="sort", by=("x", "y"), rules=rules)
    by_sort = share_read()
    compacted(lake, table, strategy="z-order", by=("x", "y"), rules=rules)
    by_z_order = share_read()
    assert by_z_order < 0.75 * by_sort, (by_z_order, by_sort)
    assert sorted(tuple(row) for row in lake.by_java(table).collect()) == sorted(tuple(row) for row in rows.collect())


def _files_read(lake: Lake, view: TableView, text: str) -> int:
    files = StoredManifests(lake.connection.store())
    return len(plan_scan(view.metadata, files=files, filter=filter_from_text(text)).tasks)


def test_what_does_not_fit_is_refused_before_anything_is_written(lake: Lake) -> None:
    table = lake.create()
    append_rows(lake, table, (0, 3))
    before = lake.files_on_disk(table)
    wrong: list[tuple[Strategy, tuple[str, ...]]] = [
        ("sort", ()), ("z-order", ()), ("z-order", ("nothing",)), ("bin-pack", ("id",)),
    ]  # fmt: skip
    for strategy, by in wrong:
        with pytest.raises(InvalidInput):
            compact(lake.spark, table, strategy=strategy, by=by)
    assert lake.files_on_disk(table) == before


def test_a_compaction_that_is_told_not_to_go_on_leaves_the_other_groups(lake: Lake) -> None:
    table = lake.create(partition=(("region", "identity"),))
    append_rows(lake, table, (0, 6), (6, 12))
    answers = iter([True, False])
    outcome = compacted(lake, table, go_on=lambda: next(answers))
    assert [one.status for one in outcome.groups] == ["committed", "postponed", "postponed"]
    assert (outcome.postponed, outcome.files_before, outcome.files_after) == (2, 2, 1)
    assert len(data_files(lake, table)) == 5
    assert lake.ids(table) == list(range(12))
    assert compacted(lake, table).files_before == 4
