"""Views and renames on real servers, with daemons that are killed: nobody's definition, row or answer is lost."""

from __future__ import annotations

import gzip
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyiceberg.view.metadata import ViewMetadata as TheirViewMetadata

from firn.coordinator.client import Client, Intents, TableView
from firn.coordinator.client.data_files import data_files_from_parquet
from firn.model.outcome import Committed, Rejected
from firn.model.view import SqlRepresentation
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.checks import live_files
from tests.acceptance.stack import Stack

VIEW, TABLE, NEW = "db.counter", "db.events", "db.archive"
COLUMNS = {"type": "struct", "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}
TIMEOUT_S = 60.0
WRITERS, TURNS = 4, 6
APPENDS = 8
KEPT = 10
"""Versions that a view keeps unless it is told otherwise."""


def number_in(client: Client) -> int:
    (query,) = client.view(VIEW).version.representations
    assert isinstance(query, SqlRepresentation)
    return int(query.sql.removeprefix("SELECT "))


def count_up(stack: Stack, number: int) -> int:
    """Raise the number in the view's query some times; how often somebody else was first."""
    conflicts = done = 0
    with stack.client() as client:
        while done < TURNS:
            seen = client.view(VIEW)
            (query,) = seen.version.representations
            assert isinstance(query, SqlRepresentation)
            more = int(query.sql.removeprefix("SELECT ")) + 1
            ticket = client.replace_view(seen, {"spark": f"SELECT {more}"}, writer=f"writer-{number}")
            match ticket.result(TIMEOUT_S):
                case Committed():
                    done += 1
                case Rejected(rule="view-conflict"):
                    conflicts += 1
                case answer:
                    raise AssertionError(answer)
    return conflicts


def killing(stack: Stack, rng: random.Random, ended: threading.Event) -> int:
    """Kill one daemon after the other and start it again, until it is enough; how often."""
    kills = 0
    while not ended.wait(rng.uniform(0.5, 1.5)):
        daemon = stack.daemons[rng.choice(["a", "b"])]
        daemon.kill()
        kills += 1
        daemon.start()
    return kills


def under_kills(stack: Stack, rng: random.Random, work: list[Callable[[], object]]) -> tuple[list[object], int]:
    """The results of what runs side by side while daemons are killed, and how often they were."""
    ended = threading.Event()
    with ThreadPoolExecutor(len(work) + 1) as pool:
        killer = pool.submit(killing, stack, rng, ended)
        try:
            results = [future.result() for future in [pool.submit(one) for one in work]]
        finally:
            ended.set()
        return results, killer.result()


def check(stack: Stack, *names: str) -> None:
    fsck = stack.firn("fsck", *names)
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"


def test_writers_of_one_view_never_undo_each_other(stack: Stack, rng: random.Random) -> None:
    stack.daemon("a")
    stack.daemon("b")
    with stack.client() as client:
        client.create_view(VIEW, COLUMNS, {"spark": "SELECT 0"}).committed(TIMEOUT_S)
        conflicts, kills = under_kills(stack, rng, [lambda n=n: count_up(stack, n) for n in range(WRITERS)])  # type: ignore[misc]
        assert number_in(client) == WRITERS * TURNS
        seen = client.view(VIEW)
    print(f"{conflicts} conflicts, {kills} kills")
    assert seen.version.version_id == 1 + WRITERS * TURNS
    data = Path(stack.pointer(VIEW).metadata_location).read_bytes()
    theirs = TheirViewMetadata.model_validate_json(gzip.decompress(data))
    assert theirs.current_version_id == seen.version.version_id
    newest = 1 + WRITERS * TURNS
    assert [entry.version_id for entry in theirs.version_log] == list(range(newest - KEPT + 1, newest + 1))
    check(stack, VIEW)
    stack.wait_settled()


def write_file(view: TableView, first: int) -> Path:
    """A data file of ten rows."""
    path = Path(view.location) / "data" / f"{first}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        "id": list(range(first, first + 10)),
        "ts": [datetime(2026, 1, 1, tzinfo=UTC)] * 10,
        "writer": ["w"] * 10,
    }
    pq.write_table(pa.table(rows, schema=arrow_schema(view.schema)), path)
    return path


def append_wherever(stack: Stack, view: TableView, number: int) -> list[str]:
    """Append files to the table, whatever it is called by then; those that were committed."""
    names, done = [TABLE, NEW], []
    with stack.client() as client:
        for turn in range(APPENDS):
            path = write_file(view, number * 10_000 + turn * 10)
            files = data_files_from_parquet([path], view)
            while True:
                match client.append(names[0], files).result(TIMEOUT_S):
                    case Committed():
                        done.append(str(path))
                        break
                    case Rejected(rule="unknown-table"):
                        names.reverse()
                    case answer:
                        raise AssertionError(answer)
    return done


def rename_there_and_back(stack: Stack) -> list[str]:
    """Rename the table again and again, each intent submitted twice; the names that it was given."""
    names, given = [TABLE, NEW], []
    with stack.client() as client, stack.client() as other:
        for _ in range(5):
            intent = Intents().rename_table(*names)
            first, second = client.submit(intent), other.submit(intent)
            assert first.committed(TIMEOUT_S) == second.committed(TIMEOUT_S)
            given.append(names[1])
            names.reverse()
            time.sleep(0.3)
    return given


def test_a_table_that_is_renamed_under_its_writers_keeps_every_row_once(stack: Stack, rng: random.Random) -> None:
    stack.daemon("a")
    stack.daemon("b")
    stack.create_table(TABLE)
    with stack.client() as client:
        view = client.table(TABLE)
    work: list[Callable[[], object]] = [lambda n=n: append_wherever(stack, view, n) for n in range(4)]  # type: ignore[misc]
    (given, *done), kills = under_kills(stack, rng, [lambda: rename_there_and_back(stack), *work])
    print(f"{kills} kills")
    assert given == [NEW, TABLE, NEW, TABLE, NEW]
    assert stack.pointer(TABLE).dropped
    pointer = stack.pointer(NEW)
    assert (pointer.uuid, pointer.location) == (view.uuid, view.location)
    with stack.client() as client:
        metadata = client.table(NEW).metadata
    assert sorted(live_files(metadata)) == sorted(path for paths in done for path in paths)  # type: ignore[attr-defined]
    ids = StaticTable.from_metadata(pointer.metadata_location).scan(selected_fields=("id",)).to_arrow()["id"]
    assert len(set(ids.to_pylist())) == len(ids) == 4 * APPENDS * 10
    check(stack, TABLE, NEW)
    stack.wait_settled()
