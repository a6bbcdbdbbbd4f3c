"""Redis and ZooKeeper lost, one or both: the tables come back from their storage, and every answer is the first one."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from firn.coordinator.client import Client, Intents, TableView
from firn.coordinator.client.data_files import data_files_from_parquet
from firn.model.intent import ContentFile, Intent
from firn.model.outcome import Committed, Outcome, Rejected
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.stack import SCHEMA, Stack
from tests.unit.coordinator.workbench import decision

A, B, FILES, OLD, NEW, GONE, VIEW = "db.a", "db.b", "db.files", "db.old", "db.new", "db.gone", "db.view"
COLUMNS: Final = {"type": "struct", "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}
TIMEOUT_S: Final = 60.0
WRITERS, APPENDS = 4, 5
ROWS = 10

MAKE: Final = Intents()
Told = tuple[Intent, Outcome]


def data_file(view: TableView, first: int) -> ContentFile:
    """A data file of some rows, numbered from `first`."""
    path = Path(view.location) / "data" / f"{uuid.uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {
        "id": list(range(first, first + ROWS)), "ts": [datetime(2026, 1, 1, tzinfo=UTC)] * ROWS, "writer": ["w"] * ROWS,
    }  # fmt: skip
    pq.write_table(pa.table(rows, schema=arrow_schema(view.schema)), path)
    (file,) = data_files_from_parquet([path], view)
    return file


def ask(client: Client, intent: Intent) -> Told:
    outcome = client.submit(intent).result(TIMEOUT_S)
    assert isinstance(outcome, Committed | Rejected), outcome
    return intent, outcome


def writer(stack: Stack, view: TableView, number: int) -> list[Told]:
    with stack.client() as client:
        return [
            ask(client, MAKE.append(view.name, [data_file(view, (number * APPENDS + turn) * ROWS)]))
            for turn in range(APPENDS)
        ]


def with_history(stack: Stack) -> list[Told]:
    """Several writers, and everything that makes pointers interesting; what was asked, and what was answered."""
    told: list[Told] = []
    with stack.client() as client:
        told += [ask(client, MAKE.create_table(name, SCHEMA)) for name in (A, B, OLD, GONE)]
        told.append(ask(client, MAKE.create_table(FILES, SCHEMA, catalog="file-system")))
        told.append(ask(client, MAKE.create_view(VIEW, COLUMNS, {"spark": "SELECT 1"})))
        views = {name: client.table(name) for name in (A, B, FILES, OLD)}
        with ThreadPoolExecutor(2 * WRITERS) as pool:
            jobs = [pool.submit(writer, stack, views[A], number) for number in range(WRITERS)]
            jobs += [pool.submit(writer, stack, views[FILES], number) for number in range(2)]
            told += [one for job in jobs for one in job.result()]
        both = MAKE.transaction([MAKE.append(n, [data_file(views[n], 1_000)]) for n in (A, B)])
        told.append(ask(client, both))
        told.append(ask(client, MAKE.append(OLD, [data_file(views[OLD], 0)])))
        told.append(ask(client, MAKE.rename_table(OLD, NEW)))
        told.append(ask(client, MAKE.append(OLD, [data_file(views[OLD], 0)])))  # refused: renamed
        told.append(ask(client, MAKE.drop_table(GONE)))
        told.append(ask(client, MAKE.delete_files(B, [f"{views[B].location}/data/nothing.parquet"])))  # refused
    assert {type(outcome) for _, outcome in told} == {Committed, Rejected}
    return told


def rows_of(stack: Stack, table: str) -> list[int]:
    """Ids in the table, as PyIceberg reads them."""
    scan = StaticTable.from_metadata(stack.pointer(table).metadata_location).scan(selected_fields=("id",))
    return sorted(scan.to_arrow()["id"].to_pylist())


def stop(stack: Stack) -> None:
    for daemon in stack.daemons.values():
        if daemon.running:
            daemon.terminate()


def lose(stack: Stack, *, redis: bool, zookeeper: bool) -> None:
    """Servers begin anew, with nothing in them."""
    if redis:
        stack.redis.flushall()
    if zookeeper:
        stack.root = f"/acceptance-{uuid.uuid4().hex}"


def recover(stack: Stack, *options: str) -> dict[str, Any]:
    said = stack.firn("recover", "--json", *options)
    assert said.returncode == 0, f"{said.stdout}\n{said.stderr}"
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def check_answers(client: Client, told: Sequence[Told]) -> None:
    """Every intent that is asked for again gets the answer that it got first."""
    for intent, first in told:
        _, again = ask(client, intent)
        if isinstance(first, Rejected) and first.rule == "unknown-table":
            assert isinstance(again, Rejected)  # there was no journal to keep the words
            continue
        assert decision(again) == decision(first)


def check(stack: Stack) -> None:
    fsck = stack.firn("fsck", "--all", "--deep")
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"


@pytest.mark.timeout(300)
def test_all_tables_come_back_from_their_storage_with_redis_and_zookeeper_empty(stack: Stack) -> None:
    stack.daemon("a")
    stack.daemon("b")
    told = with_history(stack)
    before = {name: rows_of(stack, name) for name in (A, B, FILES, NEW)}
    assert stack.firn("pause", B, "--reason", "its bucket is moved").returncode == 0
    pointers = {name: stack.pointer(name) for name in (A, B, FILES, NEW, OLD, GONE, VIEW)}
    assert pointers[B].paused is not None
    stop(stack)
    lose(stack, redis=True, zookeeper=True)

    shown = recover(stack)
    assert {one["table"]: one["finding"] for one in shown["tables"]} == dict.fromkeys(pointers, "restore")
    assert stack.firn("table", "list", "--dropped", "--json").stdout.strip() == "[]", "a dry run makes nothing"
    assert set(recover(stack, "--yes")["restored"]) == set(pointers)
    for name, pointer in pointers.items():
        assert same(stack.pointer(name)) == same(pointer)

    assert "its bucket is moved" in stack.firn("resume", B).stdout
    stack.daemon("c")
    with stack.client() as client:
        check_answers(client, told)
        assert {name: rows_of(stack, name) for name in before} == before
        view = client.table(A)
        ask_committed(client, MAKE.append(A, [data_file(view, 5_000)]))
        ask_committed(client, MAKE.append(FILES, [data_file(client.table(FILES), 5_000)]))
        ask_committed(client, MAKE.create_table(GONE, SCHEMA))
    assert rows_of(stack, A) == [*before[A], *range(5_000, 5_000 + ROWS)]
    check(stack)
    stack.wait_settled()


def same(pointer: Any) -> Any:
    """A pointer without what decides nothing."""
    digest = None if pointer.dropped else pointer.metadata_digest
    return msgspec.structs.replace(pointer, watermarks={}, metadata_digest=digest)


def ask_committed(client: Client, intent: Intent) -> None:
    _, outcome = ask(client, intent)
    assert isinstance(outcome, Committed), outcome


@pytest.mark.timeout(300)
def test_a_swap_that_was_under_way_when_all_was_lost_is_decided_once(stack: Stack) -> None:
    """Its files are written, ZooKeeper never answers, the daemon dies: nobody was told. It is taken as committed."""
    daemon = stack.daemon("a")
    stack.create_table(A)
    with stack.client() as client:
        view = client.table(A)
        ask_committed(client, MAKE.append(A, [data_file(view, 0)]))
        under_way = MAKE.append(A, [data_file(view, 100)])
        stack.zookeeper_server.pause()
        try:
            client.submit(under_way)
            wait_until(lambda: len(list(Path(view.location).rglob("_journal/*.gz"))) == 3)
            daemon.kill()
        finally:
            stack.zookeeper_server.resume()
    lose(stack, redis=True, zookeeper=True)
    (found,) = recover(stack, "--yes")["tables"]
    assert (found["journal-number"], found["certainty"]) == (3, "taken")
    stack.daemon("b")
    with stack.client() as client:
        ask_committed(client, under_way)
        ask_committed(client, MAKE.append(A, [data_file(view, 200)]))
    assert rows_of(stack, A) == [*range(ROWS), *range(100, 100 + ROWS), *range(200, 200 + ROWS)]
    check(stack)


@pytest.mark.timeout(300)
def test_a_swap_whose_files_are_not_whole_is_undone_and_asked_for_again(stack: Stack) -> None:
    daemon = stack.daemon("a")
    stack.create_table(A)
    with stack.client() as client:
        view = client.table(A)
        ask_committed(client, MAKE.append(A, [data_file(view, 0)]))
        known = set(Path(view.location, "metadata").iterdir())
        under_way = MAKE.append(A, [data_file(view, 100)])
        stack.zookeeper_server.pause()
        try:
            client.submit(under_way)
            wait_until(lambda: len(list(Path(view.location).rglob("_journal/*.gz"))) == 3)
            daemon.kill()
        finally:
            stack.zookeeper_server.resume()
    (manifest,) = [p for p in set(Path(view.location, "metadata").iterdir()) - known if p.name.endswith("-m0.avro")]
    manifest.write_bytes(manifest.read_bytes()[:-10])
    lose(stack, redis=True, zookeeper=True)
    (found,) = recover(stack, "--yes")["tables"]
    assert (found["journal-number"], found["certainty"]) == (2, "proven")
    stack.daemon("b")
    with stack.client() as client:
        ask_committed(client, under_way)
    assert rows_of(stack, A) == [*range(ROWS), *range(100, 100 + ROWS)]
    check(stack)


def wait_until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@pytest.mark.timeout(300)
def test_with_zookeeper_lost_alone_what_waits_in_redis_is_decided_after_the_recovery(stack: Stack) -> None:
    stack.daemon("a")
    stack.create_table(A)
    with stack.client() as client:
        view = client.table(A)
        told = [ask(client, MAKE.append(A, [data_file(view, turn * ROWS)])) for turn in range(3)]
        stop(stack)
        waiting = MAKE.append(A, [data_file(view, 100)])
        ticket = client.submit(waiting)
        lose(stack, redis=False, zookeeper=True)
        (found,) = recover(stack, "--yes")["tables"]
        assert found["certainty"] == "proven", "Redis tells of the last commit"
        stack.daemon("b")
        assert isinstance(ticket.result(TIMEOUT_S), Committed)
        check_answers(client, told)
    assert rows_of(stack, A) == [*range(3 * ROWS), *range(100, 100 + ROWS)]
    check(stack)
    stack.wait_settled()


@pytest.mark.timeout(300)
def test_with_redis_lost_alone_writers_ask_again_and_are_told_where_tables_are(stack: Stack) -> None:
    stack.daemon("a")
    stack.create_table(A)
    with stack.client() as client:
        view = client.table(A)
        told = [ask(client, MAKE.append(A, [data_file(view, turn * ROWS)])) for turn in range(3)]
    stop(stack)
    lose(stack, redis=True, zookeeper=False)
    assert recover(stack, "--missing-only", "--yes")["restored"] == []
    stack.daemon("b")
    with stack.client() as client:
        assert client.table(A).metadata_location == view_now(stack)
        check_answers(client, told)
        ask_committed(client, MAKE.append(A, [data_file(view, 100)]))
    assert rows_of(stack, A) == [*range(3 * ROWS), *range(100, 100 + ROWS)]
    check(stack)


def view_now(stack: Stack) -> str:
    return stack.pointer(A).metadata_location
