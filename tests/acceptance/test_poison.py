"""An intent that kills its daemon at once, again and again, and what other shards hand over in the same moment."""

from __future__ import annotations

import itertools
import secrets
import signal
import time
from pathlib import Path
from typing import Any

from firn.coordinator.client import Client
from firn.model.identifiers import uuid7
from firn.model.intent import encode_intent
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Rejected
from firn.model.sharding import shard_of
from tests.acceptance.mortal_daemon import FATAL_WRITER
from tests.acceptance.stack import EXIT_S, SHARDS, DaemonProcess, Stack

ROOT = Path(__file__).parents[2]
DELIVERIES_MAX = 4


def test_only_the_intent_that_kills_becomes_poison_however_fast_it_does(stack: Stack) -> None:
    tables = [table_of(shard) for shard in range(SHARDS)]
    maker = stack.daemon("maker")
    with stack.client() as client:
        for created in [client.create_table(table, {"type": "struct", "fields": []}) for table in tables]:
            created.committed(30)
        assert maker.terminate() == 0
        others = [properties(table, f"p{n}") for n in range(2) for table in tables]
        # Shards are gone through in order: what the first three hand over is under way by then, and has no outcome yet.
        fatal = properties(tables[3], "never", writer=FATAL_WRITER, writer_sequence=1)
        for intent in (fatal, *others):
            queue(stack, intent)
        assert die_again_and_again(stack, client, fatal.intent_id) == DELIVERIES_MAX
        refused = client.outcome(fatal.intent_id)
        assert isinstance(refused, Rejected)
        assert refused.rule == "poison"
        stack.wait_settled()
        outcomes = [client.outcome(other.intent_id) for other in others]
        assert [outcome for outcome in outcomes if not isinstance(outcome, Committed)] == []
        assert [letter["outcome"]["intent-id"] for letter in stack.dead_letters()] == [fatal.intent_id]
        for table in tables:
            stored = client.table(table).metadata.properties
            assert stored.keys() >= {"p0", "p1"}
            assert "never" not in stored


def properties(table: str, name: str, **options: Any) -> UpdateProperties:
    """An intent that sets a property."""
    intent_id = uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))
    return UpdateProperties(intent_id=intent_id, table=table, updates={name: "yes"}, **options)


def queue(stack: Stack, intent: UpdateProperties) -> None:
    """Add it once: a client would send it again after some seconds, and that would be another delivery."""
    stack.redis.xadd(stack.names.intents(shard_of(intent.table, shards=SHARDS)), {"intent": encode_intent(intent)})


def table_of(shard: int) -> str:
    """A name whose intents travel on this shard."""
    return next(name for name in (f"db.t{n}" for n in itertools.count()) if shard_of(name, shards=SHARDS) == shard)


def die_again_and_again(stack: Stack, client: Client, fatal: str) -> int:
    """Daemons one after the other, until the intent has an outcome; how many have died."""
    environment = stack.environment(LIMITS_DELIVERIES_MAX=str(DELIVERIES_MAX)) | {"PYTHONPATH": str(ROOT)}
    for deaths in itertools.count():
        name = f"life-{deaths}"
        daemon = DaemonProcess(
            name, stack.folder, environment | {"FIRN_DAEMON_ID": name}, program=("-m", "tests.acceptance.mortal_daemon")
        )
        stack.daemons[name] = daemon
        daemon.start(ready=False)
        ends_at = time.monotonic() + EXIT_S
        while daemon.exit_code is None:
            if client.outcome(fatal) is not None:
                return deaths
            assert time.monotonic() < ends_at, daemon.log()[-3000:]
            time.sleep(0.05)
        assert daemon.exit_code == 128 + signal.SIGKILL, daemon.log()[-3000:]
    raise AssertionError
