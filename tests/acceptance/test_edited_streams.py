"""Somebody works on an intent stream by hand, each in a way of their own, under a daemon and its writers.

Every intent that stands in the stream is committed once, and the other shards never notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from firn.coordinator.intake.intake import BLOCK_MS
from firn.coordinator.intake.lost_entries import SETTLES_S
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from firn.storage.intent_streams import GROUP
from tests.acceptance.stack import SHARDS, Stack

TABLE = "db.edited"
STREAM = f"firn:intents:{shard_of(TABLE, shards=SHARDS)}"
OTHER = next(n for n in map("db.t{}".format, range(50)) if shard_of(n, shards=SHARDS) != shard_of(TABLE, shards=SHARDS))
WAITING = 4


def skip(stack: Stack) -> None:
    stack.redis.xgroup_setid(STREAM, GROUP, "$")


def read_and_acknowledge(stack: Stack) -> None:
    found: Any = stack.redis.xreadgroup(GROUP, "foreign", {STREAM: ">"}, count=100)
    for _, entries in found:
        stack.redis.xack(STREAM, GROUP, *(entry_id for entry_id, _ in entries))


def read_and_leave(stack: Stack) -> None:
    stack.redis.xreadgroup(GROUP, "foreign", {STREAM: ">"}, count=100)


EDITS = [skip, read_and_acknowledge, read_and_leave]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    ends_at = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < ends_at, what
        time.sleep(0.1)


@pytest.mark.alone
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edited_stream_loses_no_intent_whose_writer_waits(stack: Stack, edit: Callable[[Stack], None]) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    stack.create_table(OTHER)
    with stack.client() as client:
        client.update_properties(TABLE, {"first": "yes"}).committed(20)
        time.sleep(SETTLES_S + 2.5)  # no former daemon is expected to read any more, and a look has been had
        daemon.pause()
        time.sleep(2 * BLOCK_MS / 1000)
        waiting = [client.update_properties(TABLE, {f"p{number}": "yes"}) for number in range(WAITING)]
        edit(stack)
        daemon.resume()
        client.update_properties(OTHER, {"beside": "yes"}).committed(30)
        first = [ticket.result(timeout=60) for ticket in waiting]
        assert all(isinstance(outcome, Committed) for outcome in first)
        again = [client.outcome(outcome.intent_id) for outcome in first]
        assert [one.snapshot_id for one in again] == [one.snapshot_id for one in first]  # type: ignore[union-attr]
        properties = client.table(TABLE).metadata.properties
        assert all(properties[f"p{number}"] == "yes" for number in range(WAITING))
        wait_for(lambda: daemon.metric("firn_stream_interferences_total") >= 1, "nobody says that it was edited")
    assert stack.firn("fsck", TABLE, OTHER).returncode == 0
    assert daemon.terminate() == 0
