"""A table that was dropped with --purge goes for good after its delay, through the command line, and no other does."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.stack import Stack

RUN = ("maintain", "run", "--all", "--no-spark", "--force", "--purge-after", "1s", "--forget-after", "1s", "--json")


def files_of(stack: Stack, table: str) -> tuple[Path, set[Path]]:
    with stack.client() as client:
        folder = Path(urlsplit(client.table(table).metadata.location).path)
    return folder, {one for one in folder.rglob("*") if one.is_file()}


def test_a_purged_table_goes_for_good_and_its_neighbours_stay(stack: Stack) -> None:
    daemon = stack.daemon()
    for table in ("db.gone", "db.kept", "db.live"):
        stack.create_table(table)
    gone, files = files_of(stack, "db.gone")
    kept, kept_files = files_of(stack, "db.kept")
    assert len(files) >= 2
    assert stack.firn("table", "drop", "db.gone", "--purge").returncode == 0
    assert stack.firn("table", "drop", "db.kept").returncode == 0
    listed = {one["table"]: one["purge"] for one in json.loads(stack.firn("maintain", "dropped", "--json").stdout)}
    assert listed == {"db.gone": True, "db.kept": False}
    assert "under 24 hours" in stack.firn("maintain", "run", "--all", "--no-spark", "--purge-after", "1s").stderr
    assert all(one.exists() for one in files)
    time.sleep(1.1)
    ran = stack.firn(*RUN)
    assert ran.returncode == 0, ran.stderr
    assert [(one["table"], one["status"]) for one in json.loads(ran.stdout)["dropped"]] == [("db.gone", "forgotten")]
    assert not any(one.is_file() for one in gone.rglob("*"))
    assert all(one.exists() for one in kept_files)
    assert kept.exists()
    left = json.loads(stack.firn("maintain", "dropped", "--json").stdout)
    assert [one["table"] for one in left] == ["db.kept"]
    stack.create_table("db.gone")
    assert stack.firn("fsck", "db.gone", "db.live").returncode == 0
    assert daemon.terminate() == 0
