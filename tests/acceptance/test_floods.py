"""A table that is flooded holds up no other table of its shard, also when the daemon is killed in the midst of it."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from tests.acceptance.checks import FILES, check_log, journal, live_files
from tests.acceptance.stack import SESSION_TIMEOUT_S, SHARDS, DaemonProcess, Stack

pytestmark = pytest.mark.alone

FLOODED = "db.flooded"
QUIET = next(
    name for name in (f"db.quiet{n}" for n in itertools.count())
    if shard_of(name, shards=SHARDS) == shard_of(FLOODED, shards=SHARDS)
)  # fmt: skip
FLOOD = 6_000
LANE = 200
"""Intents that the daemon holds of one table: a twelfth of the flood."""

DAY = 20454  # 2026-01-01 in days since 1970
PROMPT_S = 5.0
"""How long the quiet table's commits may take, with the processors that tests have; the flood takes far longer."""


def append(stack: Stack, table: str, name: str) -> dict[str, Any]:
    """An append of one file that nobody reads."""
    return {
        "intent-id": new_intent_id(), "table": table, "operation": "append",
        "data-files": [{
            "content": "data", "file-path": f"{stack.warehouse}/{table.replace('.', '/')}/data/{name}.parquet",
            "file-format": "parquet", "spec-id": 0, "partition": [DAY], "record-count": 1, "file-size-in-bytes": 100,
        }],
    }  # fmt: skip


def submit(stack: Stack, intents: list[dict[str, Any]]) -> None:
    """Queue intents of one shard, in order."""
    stream = stack.names.intents(shard_of(intents[0]["table"], shards=SHARDS))
    with stack.redis.pipeline(transaction=False) as pipeline:
        for intent in intents:
            pipeline.xadd(stream, {"intent": json.dumps(intent).encode()})
        pipeline.execute()


def committed_in_s(stack: Stack, intent: dict[str, Any], *, timeout_s: float = 60) -> float:
    """How long an intent takes to be committed, from now on."""
    started = time.monotonic()
    while time.monotonic() < started + timeout_s:
        if stack.redis.exists(stack.names.outcome(intent["intent-id"])):
            return time.monotonic() - started
        time.sleep(0.005)
    raise AssertionError(f"nothing was decided on {intent['intent-id']} in {timeout_s} s")


def held_back(daemon: DaemonProcess) -> float:
    """Entries that wait in their stream because their lane is full."""
    deadline = time.monotonic() + 10
    while not (found := daemon.metric("firn_held_back_intents")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_a_flood_holds_up_no_other_table_of_its_shard_and_survives_a_crash(stack: Stack) -> None:
    daemon = stack.daemon(LIMITS_LANE_INTENTS_MAX=str(LANE), LIMITS_BATCH_INTENTS_MAX="25")
    for table in (FLOODED, QUIET):
        stack.create_table(table)
    flood = [append(stack, FLOODED, f"f{number:05}") for number in range(FLOOD)]
    submit(stack, flood)

    waits = []
    for number in range(10):
        quiet = append(stack, QUIET, f"q{number}")
        submit(stack, [quiet])
        waits.append(committed_in_s(stack, quiet))
    assert not stack.redis.exists(stack.names.outcome(flood[-1]["intent-id"])), "the flood was over too soon"
    print(f"quiet commits took {[round(wait, 3) for wait in waits]} s")
    assert max(waits) < PROMPT_S
    assert held_back(daemon) > LANE

    daemon.kill()
    after = append(stack, QUIET, "after")
    submit(stack, [after])
    daemon.start()
    assert committed_in_s(stack, after) < PROMPT_S + SESSION_TIMEOUT_S
    committed_in_s(stack, flood[-1], timeout_s=180)
    stack.wait_settled(30)

    decided = [d for segment in journal(stack, FLOODED) for d in segment.decided if d.operation == "append"]
    assert [d.intent_id for d in decided] == [intent["intent-id"] for intent in flood]
    assert all(isinstance(d.outcome, Committed) for d in decided)
    reader = TableReader(FILES, limits=Limits())
    files = {t: live_files(reader.metadata(stack.pointer(t).metadata_location)) for t in (FLOODED, QUIET)}
    assert {table: (len(names), len(set(names))) for table, names in files.items()} == {
        FLOODED: (FLOOD, FLOOD), QUIET: (11, 11),
    }  # fmt: skip
    check_log(daemon, warnings=("zookeeper session", "batch waits", "pauses not read"))
