"""`firn report commits` is killed at any moment, and run twice at once: every decision is in the table once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from firn import ContentFile
from firn.coordinator.client import TableView
from firn.model.limits import Limits
from firn.pipeline.commits_table import COMMITS_TABLE
from firn.storage.journal import JournalFiles
from firn.storage.local_files import LocalFiles
from firn.storage.manifest_reader import StoredManifests
from firn.storage.scan_rows import scan_rows
from firn.storage.table_scan import plan_scan
from tests.acceptance.stack import Stack

TABLES = ("db.a", "db.b")
Place = tuple[str, int, int]
"""A decision: table, number of its swap, number in it."""


def append_without_end(stack: Stack, stop: threading.Event) -> None:
    """Appends to both tables and refused deletes, until `stop`."""
    with stack.client() as client:
        number = 0
        while not stop.is_set():
            table = TABLES[number % 2]
            path = f"{stack.warehouse}/{table.replace('.', '/')}/data/{number}.parquet"
            file = ContentFile(
                file_path=path, file_format="parquet", spec_id=0, partition=(20_000,), record_count=1,
                file_size_in_bytes=100,
            )  # fmt: skip
            client.append(table, [file], writer="etl").committed(60)
            if number % 5 == 0:
                client.delete_files(table, ["/nowhere.parquet"], writer="cleaner").result(60)
            number += 1


def start_collecting(stack: Stack) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "firn", "report", "commits"], env=stack.environment(), cwd=stack.folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def journaled(stack: Stack) -> set[Place]:
    journal = JournalFiles(LocalFiles(), bytes_max=Limits().journal_bytes_max)
    return {
        (table, segment.batch.sequence, position)
        for table in TABLES
        for segment in journal.walk(stack.pointer(table).journal_head)
        for position in range(len(segment.decided))
    }


def collected(stack: Stack) -> Counter[Place]:
    files = LocalFiles()
    view = TableView.from_metadata(stack.pointer(COMMITS_TABLE).metadata_location, files)
    plan = plan_scan(
        view.metadata, files=StoredManifests(files), columns=["table_name", "journal_sequence", "position"]
    )
    ids = [field.field_id for field in plan.projection.fields]
    rows = (row for part in scan_rows(plan, view.metadata, files=files) for row in part)
    return Counter((table, sequence, at) for table, sequence, at in ([row[i] for i in ids] for row in rows))


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_collector_that_is_killed_doubles_and_loses_nothing(stack: Stack, rng: random.Random, kills: int) -> None:
    stack.daemon()
    for table in TABLES:
        stack.create_table(table)
    stop = threading.Event()
    writer = threading.Thread(target=append_without_end, args=(stack, stop))
    writer.start()
    try:
        start = time.monotonic()
        assert start_collecting(stack).wait(120) == 0
        usual_s = time.monotonic() - start
        for _ in range(kills):
            process = start_collecting(stack)
            time.sleep(rng.uniform(0.4, 1.1) * usual_s)
            process.kill()
            process.wait()
    finally:
        stop.set()
        writer.join(120)
    last = [start_collecting(stack) for _ in range(2)]
    assert [process.wait(120) for process in last] == [0, 0]
    expected = journaled(stack)
    found = Counter({place: count for place, count in collected(stack).items() if place[0] in TABLES})
    assert found == Counter(dict.fromkeys(expected, 1))
    assert len(expected) > 10
