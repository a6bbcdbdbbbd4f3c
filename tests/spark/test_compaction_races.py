"""Compaction beside writers: it yields, what it loses it plans again, and nothing that is not in the table is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from firn.coordinator.client import TableView
from firn.model.outcome import Committed, Rejected
from firn.pipeline.compaction import compact
from firn.pipeline.compaction_outcome import Progress, ProgressCallback
from firn.pipeline.compaction_rules import CompactionRules, rules_of
from firn.pipeline.connection import Connection
from firn.pipeline.merge import Clauses, Update, merge
from firn.pipeline.row_level import delete_where
from tests.spark.by_hand import append_rows, batch, data_files, delete_equal, delete_files, written
from tests.spark.lake import Lake, committed
from tests.spark.test_row_level import same_for_all

WRITERS = 8
APPENDS = 4
ROWS = 5


def rules(least: int = 2) -> CompactionRules:
    return rules_of({}, min_input_files=least)


def once_written(number: int, then: Callable[[], object]) -> ProgressCallback:
    """Do something when the files of a group are written for the first time, before they are committed."""
    waiting = [then]

    def told(progress: Progress) -> None:
        if progress.stage == "written" and progress.group is not None and progress.group.number == number and waiting:
            waiting.pop()()

    return told


def left_over(lake: Lake, table: str, *, before: list[str]) -> set[str]:
    """Files that came to the table's folder and are not live."""
    live = {file.file_path for file in (*data_files(lake, table), *delete_files(lake, table))}
    return set(lake.files_on_disk(table)) - set(before) - live


def by_region(lake: Lake, version: int = 3) -> str:
    """A table of three partitions with two files each: null, eu and us."""
    table = lake.create(version=version, partition=(("region", "identity"),))
    append_rows(lake, table, (0, 6), (6, 12))
    return table


def test_equality_deletes_that_come_meanwhile_still_reach_their_rows(lake: Lake) -> None:
    table = lake.create(version=2)
    append_rows(lake, table, (0, 5), (5, 10))
    outcome = compact(
        lake.spark,
        table,
        rules=rules(),
        progress=once_written(1, lambda: delete_equal(lake, table, "id", [2, 7])),
    )
    assert (outcome.ok, outcome.conflicts, len(data_files(lake, table))) == (True, 0, 1)
    assert [row[0] for row in same_for_all(lake, table)] == [0, 1, 3, 4, 5, 6, 8, 9]


def test_rows_that_change_their_partition_are_planned_again_for_such_deletes(lake: Lake) -> None:
    """A delete for the old partition does not reach the new one."""
    table = by_region(lake, version=2)
    lake.client.update_spec(table, base=lake.view(table)).remove_field("region_0").submit().committed(60)
    spec = lake.view(table).metadata.partition_specs[0]
    outcome = compact(
        lake.spark,
        table,
        rules=rules(),
        progress=once_written(1, lambda: delete_equal(lake, table, "id", [3], partition=("eu",), spec=spec)),
    )
    (group,) = outcome.groups
    assert (group.status, group.attempts, group.conflicts) == ("committed", 2, 1)
    assert sorted(row[0] for row in same_for_all(lake, table)) == [0, 1, 2, *range(4, 12)]


def test_rows_that_come_to_one_partition_of_all_stay_under_deletes_that_come_meanwhile(lake: Lake) -> None:
    """Deletes of an unpartitioned spec are for all older rows, those among them that a compaction has moved."""
    table = by_region(lake, version=2)
    lake.client.update_spec(table, base=lake.view(table)).remove_field("region_0").submit().committed(60)

    def upsert() -> None:
        delete_equal(lake, table, "id", [3, 7])
        append_rows(lake, table, (7, 8))

    outcome = compact(lake.spark, table, rules=rules(), progress=once_written(1, upsert))
    (group,) = outcome.groups
    assert (group.status, group.attempts, group.conflicts) == ("committed", 1, 0)
    assert sorted(row[0] for row in same_for_all(lake, table)) == [0, 1, 2, *range(4, 12)]


@pytest.mark.parametrize("deleted", ["in the new partition", "in both"])
def test_rows_that_come_to_a_partition_stay_out_of_deletes_that_came_to_it(lake: Lake, deleted: str) -> None:
    """Deletes of a partition are not for rows that were elsewhere; those that are for them count nevertheless."""
    table = lake.create(version=2)
    append_rows(lake, table, (0, 6), (6, 12))
    (unpartitioned,) = lake.view(table).metadata.partition_specs
    lake.client.update_spec(table, base=lake.view(table)).add_field("region", "identity").submit().committed(60)

    def delete() -> None:
        delete_equal(lake, table, "id", [3, 4], partition=("eu",))
        if deleted == "in both":
            delete_equal(lake, table, "id", [6], spec=unpartitioned)

    outcome = compact(lake.spark, table, rules=rules(), progress=once_written(1, delete))
    (group,) = outcome.groups
    expected = {"in the new partition": (1, 0), "in both": (2, 1)}
    assert (group.status, group.attempts, group.conflicts) == ("committed", *expected[deleted])
    gone = set() if deleted == "in the new partition" else {6}
    assert sorted(row[0] for row in same_for_all(lake, table)) == [i for i in range(12) if i not in gone]


def test_a_group_that_loses_is_planned_again_and_the_others_are_not(lake: Lake) -> None:
    table = by_region(lake)
    before = lake.files_on_disk(table)
    seen: list[str] = []

    def delete() -> None:
        committed(delete_where(lake.spark, table, "id = 3", mode="merge-on-read"))
        seen.extend(lake.files_on_disk(table))

    outcome = compact(lake.spark, table, rules=rules(), max_commits=1, progress=once_written(3, delete))
    assert {group.partition: (group.status, group.attempts, group.conflicts) for group in outcome.groups} == {
        "region_0=eu": ("committed", 2, 1),
        "region_0=us": ("committed", 1, 0),
        "region_0=null": ("committed", 1, 0),
    }
    assert sorted(row[0] for row in same_for_all(lake, table)) == [0, 1, 2, *range(4, 12)]
    assert len(data_files(lake, table)) == 3
    assert left_over(lake, table, before=[*before, *(path for path in seen if "deletes" in path)]) == set()


@pytest.mark.long
def test_what_is_given_up_says_why_and_leaves_nothing(lake: Lake) -> None:
    table = by_region(lake)
    before = lake.files_on_disk(table)

    def delete() -> None:
        committed(delete_where(lake.spark, table, "id = 3", mode="merge-on-read"))

    outcome = compact(
        lake.spark, table, rules=rules(), where="region = 'eu'", attempts=1, progress=once_written(1, delete)
    )
    (group,) = outcome.groups
    assert (outcome.ok, group.status, outcome.conflicts) == (False, "conflict", 1)
    assert group.message is not None
    assert group.message.startswith("new-deletes: ")
    assert left_over(lake, table, before=before) == set()
    assert sorted(row[0] for row in same_for_all(lake, table)) == [0, 1, 2, *range(4, 12)]


def test_a_group_whose_job_fails_does_not_stop_the_others(lake: Lake) -> None:
    table = by_region(lake)
    broken = next(file for file in data_files(lake, table) if file.partition == ("us",))
    path = Path(broken.file_path)
    content = path.read_bytes()
    path.write_bytes(b"PAR1" + bytes(len(content) - 8) + b"PAR1")
    before = lake.files_on_disk(table)
    outcome = compact(lake.spark, table, rules=rules(), max_commits=1)
    path.write_bytes(content)
    statuses = {group.partition: group.status for group in outcome.groups}
    assert statuses == {"region_0=eu": "committed", "region_0=us": "failed", "region_0=null": "committed"}
    assert not outcome.ok
    assert "region_0=us: failed" in str(outcome)
    assert "corrupted file" in str(outcome)
    assert left_over(lake, table, before=before) == set()
    assert sorted(row[0] for row in same_for_all(lake, table)) == list(range(12))


def test_files_that_others_work_on_are_left_to_them(lake: Lake) -> None:
    table = by_region(lake)
    files = [file.file_path for file in data_files(lake, table) if file.partition == ("eu",)]
    with lake.client.begin(table, files=files[:1], holder="the merge", lease_s=300):
        outcome = compact(lake.spark, table, rules=rules())
    statuses = {group.partition: group.status for group in outcome.groups}
    assert statuses == {"region_0=eu": "reserved", "region_0=us": "committed", "region_0=null": "committed"}
    assert "the merge has reserved 1 file" in str(outcome)
    assert set(files) < {file.file_path for file in data_files(lake, table)}


def test_files_of_an_intent_without_an_outcome_stay(lake: Lake) -> None:
    table = by_region(lake)
    daemon = lake.stack.daemons["a"]
    impatient = msgspec.structs.replace(lake.connection, timeout_s=0.5)
    outcome = compact(
        lake.spark,
        table,
        rules=rules(),
        max_commits=1,
        remove_dangling=False,
        connection=impatient,
        progress=once_written(3, daemon.pause),
    )
    daemon.resume()
    assert {group.status for group in outcome.groups} == {"unknown"}
    lake.stack.wait_settled(60)
    assert len(data_files(lake, table)) == 3
    assert sorted(row[0] for row in same_for_all(lake, table)) == list(range(12))


def test_a_merge_that_was_planned_before_a_compaction_is_told_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = by_region(lake)
    original = Connection.table

    def table_then_compaction(self: Connection, name: str) -> TableView:
        view = original(self, name)
        monkeypatch.setattr(Connection, "table", original)
        assert compact(lake.spark, table, rules=rules(), where="region = 'eu'").committed
        return view

    monkeypatch.setattr(Connection, "table", table_then_compaction)
    source = lake.spark.createDataFrame([(3, 1)], "id long, amount int")
    clauses = Clauses(matched=(Update({"amount": "s.amount"}),))
    refused = merge(source, table, on="t.id = s.id", clauses=clauses)
    assert isinstance(refused, Rejected)
    assert (refused.rule, refused.hint) == ("missing-file", "replan")
    committed(merge(source, table, on="t.id = s.id", clauses=clauses))
    found = {row[0]: row[3] for row in same_for_all(lake, table)}
    assert (len(found), found[3]) == (12, 1)


def test_a_compaction_lands_while_eight_writers_append(lake: Lake) -> None:
    table = lake.create(version=3)
    append_rows(lake, table, (0, ROWS), (ROWS, 2 * ROWS))
    done = threading.Event()

    def write(writer: int) -> list[Committed]:
        outcomes = []
        with lake.stack.client() as client:
            for at in range(APPENDS):
                first = 1_000 * (writer + 1) + at * ROWS
                files = written(lake, table, batch(first, first + ROWS))
                outcomes.append(client.append(table, files, writer=f"w{writer}").committed(120))
        return outcomes

    def compactions() -> list[int]:
        files = []
        while not done.is_set():
            outcome = compact(lake.spark, table, rules=rules())
            assert outcome.ok, str(outcome)
            files.append(outcome.files_before)
        return files

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        compacting = pool.submit(compactions)
        landed = [one for outcomes in pool.map(write, range(WRITERS)) for one in outcomes]
        done.set()
        assert sum(compacting.result()) > 0
    assert len(landed) == WRITERS * APPENDS
    compact(lake.spark, table, rules=rules())
    assert len(data_files(lake, table)) == 1
    expected = [*range(2 * ROWS), *(1_000 * (w + 1) + at for w in range(WRITERS) for at in range(APPENDS * ROWS))]
    assert sorted(row[0] for row in same_for_all(lake, table)) == expected
