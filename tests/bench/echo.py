"""The echo ceiling: a program that takes intents, answers each, and acknowledges them. It decides nothing.

``-m tests.bench.echo REDIS_URL STREAM`` answers what is added to one stream until it is killed. No coordinator in
Python can be faster on this machine with these writers.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import msgspec
import redis

from firn.storage.intent_streams import GROUP, INTENT_FIELD, OUTCOME_FIELD

TAKE_COUNT = 512


class _Letter(msgspec.Struct, rename="kebab"):
    intent_id: str
    reply_to: str


def serve(redis_url: str, stream: str) -> None:
    """Answer for ever."""
    client = redis.Redis.from_url(redis_url, socket_timeout=60)
    with contextlib.suppress(redis.ResponseError):  # another has been here before
        client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    decoder = msgspec.json.Decoder(_Letter)
    print("ready", flush=True)
    while True:
        found: Any = client.xreadgroup(GROUP, "echo", {stream: ">"}, count=TAKE_COUNT, block=1000)
        for _, entries in found or []:
            pipeline = client.pipeline(transaction=False)
            for _, fields in entries:
                letter = decoder.decode(fields[INTENT_FIELD.encode()])
                pipeline.execute_command("XADD", letter.reply_to, "*", OUTCOME_FIELD, _answer(letter.intent_id))
            pipeline.xack(stream, GROUP, *(entry_id for entry_id, _ in entries))
            pipeline.execute()


def _answer(intent_id: str) -> bytes:
    outcome = b'","table":"bench.echo","snapshot-id":1,"batch":"echo","latency-ms":0}'
    return b'{"status":"committed","intent-id":"' + intent_id.encode() + outcome


if __name__ == "__main__":
    serve(*sys.argv[1:])
