"""A busy table keeps few of its metadata files, by itself; readers, a takeover and a recovery never miss one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from firn import ContentFile
from firn.coordinator.client import Client
from tests.acceptance.stack import Stack
from tests.acceptance.test_disasters import lose, recover, stop

BUSY, KEPT = "db.busy", "db.kept"
LOGGED = {"write.metadata.previous-versions-max": "10"}
GRACE_S = 4.0
WITHIN_S = 15.0
FIRST, THEN, LAST = 160, 40, 20
FILES = 11
"""Ten that the log names, and the current one."""


def files_of(stack: Stack, table: str) -> list[str]:
    """Metadata files of a table, oldest first."""
    return sorted(str(path) for path in Path(stack.warehouse, *table.split("."), "metadata").glob("*.metadata.json"))


def commit(client: Client, stack: Stack, table: str, numbers: range) -> None:
    """Append one file after the other; what is in it is never looked at."""
    folder = Path(stack.warehouse, *table.split("."), "data")
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"{number}.parquet").write_bytes(b" " * 100)
        file = ContentFile(
            file_path=f"{folder}/{number}.parquet", file_format="parquet", spec_id=0, partition=(20_000,),
            record_count=1, file_size_in_bytes=100,
        )  # fmt: skip
        client.append(table, [file]).committed(30)


def planned(table: StaticTable) -> int:
    """Files that PyIceberg would read."""
    return len(list(table.scan().plan_files()))


def wait_until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + WITHIN_S
    while not holds() and time.monotonic() < ends_at:
        time.sleep(0.2)


@pytest.mark.timeout(300)
def test_a_busy_table_keeps_few_metadata_files_and_nobody_misses_one(stack: Stack) -> None:
    total = FIRST + THEN + LAST
    settings: dict[str, Any] = {"LIMITS_REPLACED_METADATA_MS": str(int(GRACE_S * 1000))}
    first = stack.daemon("a", **settings)
    with stack.client() as client:
        stack.create_table(BUSY, properties=LOGGED)
        stack.create_table(KEPT, properties={**LOGGED, "write.metadata.delete-after-commit.enabled": "false"})
        commit(client, stack, KEPT, range(15))
        commit(client, stack, BUSY, range(FIRST))
        opened = stack.pointer(BUSY).metadata_location
        reader = StaticTable.from_metadata(opened)
        began_s = time.monotonic()
        commit(client, stack, BUSY, range(FIRST, FIRST + THEN))
        if time.monotonic() - began_s < GRACE_S:  # by now the table's log does not name the file any more
            assert planned(StaticTable.from_metadata(opened)) == FIRST
        wait_until(lambda: len(files_of(stack, BUSY)) <= FILES)
        assert len(files_of(stack, BUSY)) == FILES
        assert opened not in files_of(stack, BUSY)
        assert planned(reader) == FIRST, "whoever has opened a table reads on"
        assert len(files_of(stack, KEPT)) == 16

        commit(client, stack, BUSY, range(FIRST + THEN, total))
        first.kill()
        assert len(files_of(stack, BUSY)) > FILES
        second = stack.daemon("b", **settings)
        commit(client, stack, BUSY, range(total, total + 1))
        wait_until(lambda: len(files_of(stack, BUSY)) <= FILES)
        assert len(files_of(stack, BUSY)) == FILES, "what a killed daemon has left goes, too"
        assert 0 < second.metric("firn_metadata_files_removed_total") <= LAST + 1

    stop(stack)
    lose(stack, redis=True, zookeeper=True)
    assert set(recover(stack, "--yes")["restored"]) == {BUSY, KEPT}
    stack.daemon("c", **settings)
    with stack.client() as client:
        commit(client, stack, BUSY, range(total + 1, total + 2))
        assert planned(StaticTable.from_metadata(stack.pointer(BUSY).metadata_location)) == total + 2
    fsck = stack.firn("fsck", "--all")
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"
    assert len(files_of(stack, KEPT)) == 16
