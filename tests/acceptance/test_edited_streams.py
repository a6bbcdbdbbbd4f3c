"""Somebody works on an intent stream by hand, each in a way of their own, under a daemon and its writers.

Every intent that stands in the stream is committed once, what is gone is counted and submitted again by its writers,
and the other shards never notice. All cases share a daemon; each has a table, and so a shard, of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
import redis

from firn.coordinator.client import TableView
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.intake.lost_entries import SETTLES_S
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from firn.storage.intent_streams import GROUP
from tests.acceptance.stack import SCHEMA, SHARDS, DaemonProcess, Stack
from tests.acceptance.test_disasters import MAKE, ROWS, check, check_answers, data_file, rows_of

WAITING: Final = 4
LOST: Final = "firn_lost_entries_total"
EDITED: Final = "firn_stream_interferences_total"
ANOTHER: Final = "another"
"""A consumer that is no daemon's."""


def skip(server: redis.Redis, stream: str) -> None:
    server.xgroup_setid(stream, GROUP, "$")


def set_back(server: redis.Redis, stream: str) -> None:
    server.xgroup_setid(stream, GROUP, "0")


def read_and_leave(server: redis.Redis, stream: str) -> Any:
    found: Any = server.xreadgroup(GROUP, ANOTHER, {stream: ">"}, count=100)
    ids = [entry_id for _, entries in found for entry_id, _ in entries]
    assert len(ids) == WAITING, "the daemon was quicker"
    return ids


def read_and_acknowledge(server: redis.Redis, stream: str) -> None:
    server.xack(stream, GROUP, *read_and_leave(server, stream))


def read_and_remove_consumer(server: redis.Redis, stream: str) -> None:
    read_and_leave(server, stream)
    assert server.xgroup_delconsumer(stream, GROUP, ANOTHER) == WAITING


def read_and_claim(server: redis.Redis, stream: str) -> None:
    ids = read_and_leave(server, stream)
    server.xclaim(stream, GROUP, "third", 0, ids[:2])
    server.xautoclaim(stream, GROUP, "fourth", 0, ids[2].decode())


def destroy_group(server: redis.Redis, stream: str) -> None:
    assert server.xgroup_destroy(stream, GROUP)


def begin_group_at_end(server: redis.Redis, stream: str) -> None:
    destroy_group(server, stream)
    server.xgroup_create(stream, GROUP, id="$")


def raise_last_id(server: redis.Redis, stream: str) -> None:
    last: Any = server.xinfo_stream(stream)
    server.execute_command("XSETID", stream, f"{int(last['last-generated-id'].partition(b'-')[0]) + 1000}-0")


def replace(server: redis.Redis, stream: str) -> None:
    entries: Any = server.xrange(stream)
    server.delete(stream)
    for _, fields in entries:
        server.xadd(stream, fields)


def rename_over(server: redis.Redis, stream: str) -> None:
    entries: Any = server.xrange(stream)
    for _, fields in entries[-WAITING:]:
        server.xadd("copy", fields)
    server.rename("copy", stream)


def trim(server: redis.Redis, stream: str) -> None:
    server.xtrim(stream, maxlen=1, approximate=False)


def delete_entries(server: redis.Redis, stream: str) -> None:
    entries: Any = server.xrange(stream)
    assert server.xdel(stream, *(entry_id for entry_id, _ in entries[-2:])) == 2


def delete(server: redis.Redis, stream: str) -> None:
    server.delete(stream)


def change_type(server: redis.Redis, stream: str) -> None:
    server.delete(stream)
    server.set(stream, "no stream")


class Case(NamedTuple):
    """`lost`: so many are counted as lost; None where the numbers went with the stream. `held`: the daemon has been
    handed the intents, and holds them back because their table is paused. `noticed`: the daemon says that it was done.
    `undo`: writers wait until the key is deleted.
    """

    edit: Callable[[redis.Redis, str], object]
    lost: int | None = 0
    held: bool = False
    noticed: bool = True
    undo: bool = False


CASES: Final = {
    "skip": Case(skip),
    "set-back": Case(set_back, noticed=False),
    "read-and-leave": Case(read_and_leave),
    "read-and-acknowledge": Case(read_and_acknowledge),
    "read-and-remove-consumer": Case(read_and_remove_consumer),
    "read-and-claim": Case(read_and_claim),
    "destroy-group": Case(destroy_group),
    "begin-group-at-end": Case(begin_group_at_end),
    "raise-last-id": Case(raise_last_id, noticed=False),
    "replace": Case(replace),
    "rename-over": Case(rename_over),
    "trim": Case(trim, lost=WAITING - 1, noticed=False),
    "delete-entries": Case(delete_entries, lost=2, noticed=False),
    "delete": Case(delete, lost=None),
    "delete-what-is-held": Case(delete, lost=WAITING, held=True),
    "change-type": Case(change_type, lost=None, undo=True),
}
NAMES: Final = {shard_of(name, shards=SHARDS): name for name in map("db.t{}".format, range(400))}
OTHER: Final = "db.beside"


def table_of(case: str) -> str:
    """A table on a shard that no other case has."""
    return NAMES[list(CASES).index(case)]


class Scene(NamedTuple):
    stack: Stack
    daemon: DaemonProcess
    views: dict[str, TableView]

    def wait_for(self, metric: str, count: float, what: str) -> None:
        ends_at = time.monotonic() + 15
        while self.daemon.metric(metric) < count:
            assert time.monotonic() < ends_at, f"{what}: {self.daemon.metric(metric)} of {count}"
            time.sleep(0.05)

    def stop_reading(self) -> None:
        """Stop the daemon's clock, and wait until its last read has ended: it would be handed the next entry."""
        self.daemon.pause()
        while any("b" in one["flags"] and one["cmd"] == "xreadgroup" for one in self.stack.redis.client_list()):
            time.sleep(0.02)


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, durable_redis: RedisServer, zookeeper_server: ZooKeeperServer
) -> Iterator[Scene]:
    """A daemon that knows where each stream stands, below a table with rows for each case."""
    for server in (durable_redis, zookeeper_server):
        server.resume()
        server.start()
    folder = tmp_path_factory.mktemp("edited")
    with Stack(folder, redis_server=durable_redis, zookeeper_server=zookeeper_server) as stack:
        stack.redis.flushall()
        # It is stopped for a while in each case, and is not to lose its shards by that.
        daemon = stack.daemon(ZOOKEEPER_SESSION_TIMEOUT_S="30")
        tables = [OTHER, *map(table_of, CASES)]
        with stack.client() as client:
            made = [client.create_table(table, SCHEMA) for table in tables]
            assert all(isinstance(one.result(timeout=30), Committed) for one in made)
            views = {table: client.table(table) for table in tables}
            first = [client.append(table, [data_file(view, 0)]) for table, view in views.items()]
            assert all(isinstance(one.result(timeout=30), Committed) for one in first)
        time.sleep(SETTLES_S + 2.5)  # no former daemon is expected to read any more, and a look has been had
        yield Scene(stack, daemon, views)
        assert daemon.terminate() == 0
        check(stack)  # here, because a command for each case would take longer than all the rest


@pytest.mark.alone
@pytest.mark.parametrize("name", CASES)
def test_an_edited_stream_loses_no_intent_whose_writer_waits(scene: Scene, name: str) -> None:
    stack, daemon, case, table = scene.stack, scene.daemon, CASES[name], table_of(name)
    stream = stack.names.intents(shard_of(table, shards=SHARDS))
    lost, edited = daemon.metric(LOST), daemon.metric(EDITED)
    intents = [MAKE.append(table, [data_file(scene.views[table], (n + 1) * ROWS)]) for n in range(WAITING)]
    # Where nothing is gone, no writer submits again: what stands in the stream has to be read.
    with stack.client(resubmit_after_s=15.0 if case.lost == 0 else 1.0) as client:
        if case.held:
            assert stack.firn("pause", table, "--reason", "to hold intents back").returncode == 0
        else:
            scene.stop_reading()
        waiting = [client.submit(intent) for intent in intents]
        if case.held:
            scene.wait_for("firn_paused_intents", WAITING, "intents are held back")
            scene.stop_reading()
        case.edit(stack.redis, stream)
        daemon.resume()
        client.append(OTHER, [data_file(scene.views[OTHER], 0)]).committed(30)
        if case.noticed:
            scene.wait_for(EDITED, edited + 1, "the daemon says that the stream was edited")
        if case.lost:
            scene.wait_for(LOST, lost + case.lost, "what is lost is counted")
        if case.undo:
            stack.redis.delete(stream)
        if case.held:
            assert stack.firn("resume", table).returncode == 0
        outcomes = [ticket.result(timeout=40) for ticket in waiting]
        committed = [outcome for outcome in outcomes if isinstance(outcome, Committed)]
        assert committed == outcomes
        check_answers(client, list(zip(intents, committed, strict=True)))
    assert rows_of(stack, table) == list(range((WAITING + 1) * ROWS))
    if case.lost is not None:
        assert daemon.metric(LOST) == lost + case.lost
