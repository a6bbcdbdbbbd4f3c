"""Batches with nothing between their requests: what a program of Python could do with these writers on this machine.

``-m tests.bench.bare_batches '<Plan as JSON>'`` takes intents as a daemon does, makes and syncs files of the sizes that
firn's have, swaps a pointer, and tells outcomes by firn's own script, until it is killed. Of an intent it reads the id
and the stream to reply to; it checks, decides, encodes and remembers nothing.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import redis
from kazoo.client import KazooClient

from firn.coordinator.outcomes.keeping_time import LONGEST_S
from firn.storage.intent_streams import GROUP, INTENT_FIELD, Settlement, StreamNames
from firn.storage.redis_telling import SCRIPT, argument_of, keys_of
from firn.storage.whole_sync import WholeSyncs
from tests.bench.bare_commits import OUTCOME_BYTES, BareSwap

TAKE_COUNT = 512
GATHER_MS = 10
"""How long more intents are waited for than there are."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to take: intents of one shard, so many for each batch. `sizes` are those of the files of one commit."""

    redis_url: str
    hosts: str
    folder: str
    shard: int
    batch: int
    sizes: tuple[int, ...]


class Letter(msgspec.Struct, rename="kebab"):
    """What is read of an intent."""

    intent_id: str
    reply_to: str


def serve(plan: Plan) -> None:
    """Commit for ever."""
    zookeeper = KazooClient(plan.hosts)
    zookeeper.start()
    commit = BareSwap(plan.sizes, Path(plan.folder), zookeeper, WholeSyncs())
    client = redis.Redis.from_url(plan.redis_url, socket_timeout=60)
    names = StreamNames()
    stream = names.intents(plan.shard)
    with contextlib.suppress(redis.ResponseError):  # a daemon has been here before
        client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    tell = client.register_script(SCRIPT)
    decoder = msgspec.json.Decoder(Letter)
    gathered: list[Settlement] = []
    print("ready", flush=True)
    while True:
        block_ms = GATHER_MS if gathered else 1000
        found: Any = client.xreadgroup(GROUP, "bare", {stream: ">"}, count=TAKE_COUNT, block=block_ms)
        for _, entries in found or []:
            for entry_id, fields in entries:
                letter = decoder.decode(fields[INTENT_FIELD.encode()])
                gathered.append(settlement_of(plan.shard, entry_id.decode(), letter))
        if gathered and (not found or len(gathered) >= plan.batch):
            commit.write()
            commit.swap()
            tell(keys=keys_of(names), args=[argument_of(gathered, events=(), places={}, names=names)])
            gathered = []


def settlement_of(shard: int, entry_id: str, letter: Letter) -> Settlement:
    """What is told of an entry, in as many bytes as firn tells it."""
    outcome = b'{"status":"committed","intent-id":"' + letter.intent_id.encode() + b'","batch":"'
    return Settlement(
        shard=shard,
        entry_id=entry_id,
        intent_id=letter.intent_id,
        outcome=outcome.ljust(OUTCOME_BYTES - 2, b"-") + b'"}',
        outcome_ttl_s=LONGEST_S,
        reply_to=letter.reply_to,
    )


if __name__ == "__main__":
    serve(msgspec.json.decode(sys.argv[1], type=Plan))
