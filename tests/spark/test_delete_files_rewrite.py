"""Files of deleted positions become one for each data file, or its vector, and the same rows stay deleted."""

from __future__ import annotations

import json

import pytest

from firn.coordinator.cli.main import run as run_command
from firn.coordinator.client import TableView
from firn.model.outcome import Committed
from firn.pipeline.connection import Connection
from firn.pipeline.delete_files_rewrite import rewrite_delete_files
from firn.pipeline.row_level import delete_where
from tests.spark.by_hand import append_rows, data_files, delete_equal, delete_files, delete_positions
from tests.spark.lake import Lake, committed
from tests.spark.test_row_level import same_for_all


def many_deletes(lake: Lake) -> str:
    """A v2 table of three files. Two files of positions may be for any of them, two are for one each."""
    table = lake.create(version=2)
    append_rows(lake, table, (0, 10), (10, 20), (20, 30))
    first, second, third = sorted(data_files(lake, table), key=lambda file: (file.lower_bounds or {})[1])
    delete_positions(lake, table, {first.file_path: [1, 2], second.file_path: [3]})
    delete_positions(lake, table, {first.file_path: [2], second.file_path: [3, 4]})
    delete_positions(lake, table, {first.file_path: [4]})
    delete_positions(lake, table, {third.file_path: [5]})
    return table


def test_every_data_file_has_one_file_of_positions(lake: Lake) -> None:
    table = many_deletes(lake)
    delete_equal(lake, table, "id", [27])
    before = same_for_all(lake, table)
    outcome = rewrite_delete_files(lake.spark, table)
    assert (outcome.ok, outcome.files_before, outcome.files_after) == (True, 4, 3)
    left = delete_files(lake, table)
    named = [file.referenced_data_file for file in left if file.content == "position-deletes"]
    assert sorted(named, key=str) == sorted(file.file_path for file in data_files(lake, table))
    assert [file.equality_ids for file in left if file.content == "equality-deletes"] == [(1,)]
    assert same_for_all(lake, table) == before
    assert rewrite_delete_files(lake.spark, table).answer is None


def test_after_an_upgrade_positions_become_vectors(lake: Lake) -> None:
    table = many_deletes(lake)
    before = same_for_all(lake, table)
    lake.client.upgrade_format(table, 3).committed(60)
    outcome = rewrite_delete_files(lake.spark, table)
    assert (outcome.ok, outcome.files_before, outcome.files_after) == (True, 4, 3)
    assert all(file.is_deletion_vector for file in delete_files(lake, table))
    assert same_for_all(lake, table) == before


def test_a_vector_that_came_meanwhile_is_a_conflict_and_the_rewrite_is_planned_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = many_deletes(lake)
    lake.client.upgrade_format(table, 3).committed(60)
    original = Connection.table

    def table_then_delete(self: Connection, name: str) -> TableView:
        view = original(self, name)
        monkeypatch.setattr(Connection, "table", original)
        committed(delete_where(lake.spark, table, "id = 7", mode="merge-on-read"))
        return view

    monkeypatch.setattr(Connection, "table", table_then_delete)
    outcome = rewrite_delete_files(lake.spark, table)
    assert isinstance(outcome.answer, Committed)
    assert outcome.conflicts == 1
    assert all(file.is_deletion_vector for file in delete_files(lake, table))
    gone = {1, 2, 4, 7, 13, 14, 25}
    assert sorted(row[0] for row in same_for_all(lake, table)) == [i for i in range(30) if i not in gone]


def test_maintenance_rewrites_deletes_when_they_are_many(
    lake: Lake, sessions: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    table = many_deletes(lake)
    before = lake.ids(table)
    # Once deletes name their data file, compaction knows how many of its rows they take.
    leave_alone = {"firn.maintain.orphans-every-hours": "0", "firn.compaction.delete-ratio-threshold": "0.9"}
    lake.client.update_properties(table, leave_alone).committed(60)
    assert run_command(["maintain", "run", table]) == 0
    assert "the table needs nothing" in capsys.readouterr().out
    assert sessions == []
    lake.client.update_properties(table, {"firn.maintain.delete-files-min": "4"}).committed(60)
    assert run_command(["maintain", "plan", table]) == 0
    assert "4 of 4 files of deleted positions are for 3 data files" in capsys.readouterr().out
    assert run_command(["maintain", "run", table, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["tables"]
    done = [(one["action"], one["status"], one["message"]) for one in run["actions"]]
    assert done == [("rewrite-deletes", "done", "4 delete files became 3")]
    assert sessions == ["firn maintain"]
    assert len(delete_files(lake, table)) == 3
    assert lake.ids(table) == before
    assert run_command(["maintain", "run", table]) == 0
    assert "the table needs nothing" in capsys.readouterr().out
