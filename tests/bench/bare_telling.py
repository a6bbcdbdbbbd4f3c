"""A backlog that is taken and told, and nothing else: what Redis allows any daemon, whatever it is written in.

``-m tests.bench.bare_telling '<Plan as JSON>'`` has looked at the entries of a stream, and put into words what is told
of each batch, before it says that it is ready. Then it waits for something in the list `START`, takes the entries as a
daemon does, and sends for each batch the script that firn sends. Nothing is read of an intent meanwhile, no file is
written and no pointer moved, so a daemon whose own work took no time at all would be as fast.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import redis

from firn.storage.intent_streams import GROUP, INTENT_FIELD, StreamNames
from firn.storage.redis_telling import SCRIPT, argument_of, keys_of
from tests.bench.bare_batches import TAKE_COUNT, Letter, settlement_of

START = "bench:start"
START_S_MAX = 60


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to take: all that is queued for one shard, told in batches of so many."""

    redis_url: str
    shard: int
    batch: int


def serve(plan: Plan) -> None:
    """Tell all that is queued."""
    client = redis.Redis.from_url(plan.redis_url, socket_timeout=START_S_MAX + 10)
    names = StreamNames()
    stream = names.intents(plan.shard)
    decoder = msgspec.json.Decoder(Letter)
    entries: Any = client.xrange(stream)
    told = [
        settlement_of(plan.shard, entry_id.decode(), decoder.decode(fields[INTENT_FIELD.encode()]))
        for entry_id, fields in entries
    ]
    words = [
        argument_of(told[first : first + plan.batch], events=(), places={}, names=names)
        for first in range(0, len(told), plan.batch)
    ]
    tell = client.register_script(SCRIPT)
    tell(keys=keys_of(names), args=[argument_of((), events=(), places={}, names=names)])
    print("ready", flush=True)
    assert client.blpop([START], timeout=START_S_MAX), "nobody said when to start"
    taken = 0
    for number, argument in enumerate(words, 1):
        while taken < min(number * plan.batch, len(told)):
            found: Any = client.xreadgroup(GROUP, "bare", {stream: ">"}, count=TAKE_COUNT)
            taken += len(found[0][1])
        tell(keys=keys_of(names), args=[argument])


if __name__ == "__main__":
    serve(msgspec.json.decode(sys.argv[1], type=Plan))
