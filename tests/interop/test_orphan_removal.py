"""Iceberg's own orphan removal, run by Spark on a table of firn: the journal and all promises survive it.

The procedure takes no file that is younger than a day, so every file of the table is made two days old first. Part of
the journal was written by an earlier version, to the folder in which the procedure deletes everything.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.model.intent import CreateTable, Intent
from firn.model.pause import Pause
from firn.pipeline.journal_copy import copy_old_journal
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.journal import JOURNAL_FOLDER, OLD_JOURNAL_FOLDER
from firn.storage.pause_notes import PauseNotes
from tests.interop.test_committed_by_firn import FILES, append_rows, clean, make_bench, rows_of
from tests.unit.coordinator.recovery.test_recover import lose_servers, recover
from tests.unit.coordinator.recovery.test_two_journal_folders import version
from tests.unit.coordinator.workbench import Workbench, decision, delete, new_id

DAY_S = 86_400
COLUMNS: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "name", "type": "string", "required": False},
    ],
}


def relative(home: Path) -> set[str]:
    """The files of a table, below its folder; Hadoop's checksums beside them do not count."""
    files = (one.relative_to(home) for one in home.rglob("*") if one.is_file())
    return {str(one) for one in files if not one.name.endswith(".crc")}


def make_old(home: Path) -> None:
    for one in home.rglob("*"):
        os.utime(one, (time.time() - 2 * DAY_S,) * 2)


async def settled(bench: Workbench, intent: Intent) -> tuple[Intent, Any]:
    (outcome,) = await bench.settle(intent)
    return intent, outcome


@pytest.mark.parametrize("prefix_listing", [False, True])
async def test_the_journal_survives_the_orphan_removal_of_spark(
    spark: SparkSession, warehouse: Path, prefix_listing: bool
) -> None:
    table = f"db.swept_{prefix_listing}".lower()
    home = warehouse / "db" / table.removeprefix("db.")
    bench, decided = make_bench(warehouse), list[tuple[Intent, Any]]()
    # A partition folder of a field whose name begins with an underscore is not hidden. The journal's is no such.
    spec = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "_journal", "transform": "identity"}]}
    made = CreateTable(intent_id=new_id(), table=table, schema=COLUMNS, partition_spec=spec, catalog="file-system")
    with version("old"):
        async with bench.daemon("old"):
            decided.append(await settled(bench, made))
            decided.append(await settled(bench, delete("none", table=table)))  # refused
    old = relative(home / OLD_JOURNAL_FOLDER)
    assert copy_old_journal(FILES, str(home), limits=bench.limits) == len(old) == 2
    async with bench.daemon("new"):
        for number in range(3):
            newest = FileSystemTables(FILES).newest(str(home))
            assert newest is not None
            await append_rows(bench, table, newest, rows_of(number, number + 1))
    notes, pause = PauseNotes(FILES), Pause(by="ann", reason="a move", since_ms=5)
    notes.write(str(home), table, pause, token="a")
    (home / "data" / "orphan.parquet").write_bytes(b"of a writer that died")
    make_old(home)
    before = relative(home)
    swept = spark.sql(
        f"CALL wh.system.remove_orphan_files(table => '{table}', prefix_listing => {prefix_listing}, "
        f"older_than => TIMESTAMP '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(time.time() - DAY_S - 60))}')"
    ).collect()
    assert len(swept) >= 3
    gone = before - relative(home)
    assert gone >= {"data/orphan.parquet", *(f"{OLD_JOURNAL_FOLDER}/{name}" for name in old)}
    assert [name for name in gone if name.startswith(JOURNAL_FOLDER)] == []
    assert len(relative(home / JOURNAL_FOLDER)) == len(old) + 3 + 1  # copies, appends, the note
    assert notes.newest(str(home), table) == pause
    notes.remove(str(home))  # or the table would be recovered as paused
    lose_servers(bench)
    await recover(bench)
    async with bench.daemon("later"):
        for intent, outcome in decided:
            _, again = await settled(bench, intent)
            assert decision(again) == decision(outcome)
    spark.sql(f"REFRESH TABLE wh.{table}")
    assert [row.id for row in spark.sql(f"SELECT id FROM wh.{table} ORDER BY id").collect()] == [0, 1, 2]
    assert await clean(bench, table)
