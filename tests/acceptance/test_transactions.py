"""Transactions while daemons are killed and their tables are busy: in all of their tables, or in none."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from firn import Intents
from firn.coordinator.client import Client, TableView
from firn.coordinator.client.data_files import data_files_from_parquet
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.checks import FILES, check_log, journal, live_files
from tests.acceptance.load import Load
from tests.acceptance.stack import Stack
from tests.acceptance.writers import FIRST_DAY

TABLES = ("db.alpha", "db.beta", "db.gamma", "db.delta")
BUSY = "db.beta"
WRITERS = 6
TRANSACTIONS = 15
KILLS = 3
LOST = (
    "zookeeper session", "swap unanswered", "batch waits", "pauses not read",
    "ownership waits", "lease.not-removed-yet", "intake waits",
    "waiting for the session of an earlier life to end",
)  # fmt: skip


class Booked(msgspec.Struct, frozen=True):
    """What a writer was told of one transaction: the outcome, and the file it had for each table."""

    outcome: Any
    files: dict[str, str]


def data_file(view: TableView, number: int) -> ContentFile:
    """A data file with one row, written for a table."""
    row = {"id": [number], "ts": [FIRST_DAY + timedelta(days=number % 3)], "writer": ["bookkeeper"]}
    path = Path(view.location.removeprefix("file://"), "data", f"{uuid.uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(row, schema=arrow_schema(view.schema)), path)
    (file,) = data_files_from_parquet([path], view)
    return file


def bookkeeper(client: Client, views: dict[str, TableView], seed: float, booked: list[Booked]) -> None:
    """Transactions over two to four tables in any order, one after the other."""
    rng, make = random.Random(seed), Intents()
    for number in range(TRANSACTIONS):
        tables = rng.sample(TABLES, rng.randrange(2, len(TABLES) + 1))
        files = {table: data_file(views[table], number) for table in tables}
        members = [make.append(table, [file]) for table, file in files.items()]
        outcome = client.transaction(members).result(90)
        booked.append(Booked(outcome, {table: file.file_path for table, file in files.items()}))
        time.sleep(rng.uniform(0, 0.1))


@pytest.mark.timeout(900)
def test_transactions_are_whole_whoever_is_killed_while_their_tables_are_busy(stack: Stack, rng: random.Random) -> None:
    daemons = [stack.daemon(name) for name in ("a", "b")]
    for table in TABLES:
        stack.create_table(table)
    booked: list[Booked] = []
    with stack.client() as client, Load(stack, BUSY, writers=4, appends=60, pause_s=0.1, seed=rng.random()) as load:
        views = {table: client.table(table) for table in TABLES}
        threads = [
            threading.Thread(target=bookkeeper, args=(client, views, rng.random(), booked)) for _ in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        for kill in range(KILLS):
            wanted = (kill + 1) * WRITERS * TRANSACTIONS // (KILLS + 2)
            ends_at = time.monotonic() + 60
            while len(booked) < wanted and time.monotonic() < ends_at:
                time.sleep(rng.uniform(0, 0.05))
            daemon = rng.choice(daemons)
            daemon.kill()
            daemon.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        singles = {told.file for told in load.finish()}
    check(stack, booked, singles)
    stack.wait_settled()
    for daemon in daemons:
        assert daemon.terminate() == 0
        check_log(daemon, warnings=LOST)


def check(stack: Stack, booked: list[Booked], singles: set[str]) -> None:
    """Every transaction is in each of its tables once; both sides of the journal say so; fsck agrees."""
    assert len(booked) == WRITERS * TRANSACTIONS
    assert all(isinstance(one.outcome, Committed) for one in booked), [b.outcome for b in booked][:3]
    for table in TABLES:
        metadata = TableReader(FILES, limits=Limits()).metadata(stack.pointer(table).metadata_location)
        live = Counter(live_files(metadata))
        expected = {one.files[table] for one in booked if table in one.files} | (singles if table == BUSY else set())
        assert set(live) == expected
        assert set(live.values()) == {1}
        if table != BUSY:  # one row a file
            assert StaticTable.from_metadata(stack.pointer(table).metadata_location).scan().count() == len(expected)
        of_transactions = [part.batch.transaction for part in journal(stack, table) if part.batch.transaction]
        assert sorted(of_transactions) == sorted(one.outcome.intent_id for one in booked if table in one.files)
    fsck = stack.firn("fsck", "--all", timeout_s=300)
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"
