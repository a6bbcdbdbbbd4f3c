"""Rows of a backlog: intents queued while the daemon stands still, then drained.

`backlog-json` and `backlog-encoded` are against raw reads of the queue, `backlog-batching-peer` and its encoded variant
against a peer that batches.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import redis

from firn.model.sharding import shard_of
from firn.storage.intent_streams import (
    GROUP,
    INTENT_FIELD,
    OUTCOME_FIELD,
    REPLY_LENGTH_MAX,
    SHARDS_DEFAULT,
    StreamNames,
)
from tests.bench import pyiceberg_files
from tests.bench.deployment import Deployment, deployment, run_program
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options
from tests.bench.processor_time import processor_time
from tests.bench.wire import AppendTemplate

TABLE = "bench.backlog"
RAW_TAKE = 512
"""Entries per raw read: as many as the daemon takes."""

RAW_RUNS = 3
WARM_UP = 4 * RAW_TAKE
"""Intents of the backlog before the one that is measured."""

REPLY_STREAMS_OF = REPLY_LENGTH_MAX // 2
"""Intents per reply stream: Redis keeps only so many replies in one."""

PEER_APPENDS = 20
DRAIN_S_MAX = 300.0
PEER = "raw XREADGROUP and XACK of the same entries"


class _Status(msgspec.Struct, rename="kebab"):
    intent_id: str
    status: str


class _Drained(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a backlog: intents a second, beside raw reads of the same entries."""

    rate: float
    raw: list[float]
    failures: int
    note: str


def backlog_json(options: Options) -> list[Measurement]:
    """Intents a second from the first moment that the daemon may work to the last outcome."""
    with deployment() as firn:
        ours = backlog_of(firn, options)
    return [
        measured(
            "backlog-json", value=ours.rate, unit="intents/s", peer=median(ours.raw), peer_name=PEER, target=0.12,
            n=options.intents, note=ours.note, failures=ours.failures,
        )
    ]  # fmt: skip


def backlog_encoded(options: Options) -> list[Measurement]:
    """As `backlog_json`, with the metrics of each file as bytes that its writer has encoded."""
    with deployment() as firn:
        ours = backlog_of(firn, options, encoded=True)
    return [
        measured(
            "backlog-encoded", value=ours.rate, unit="intents/s", peer=median(ours.raw), peer_name=PEER, target=0.3,
            n=options.intents, note=ours.note, failures=ours.failures,
        )
    ]  # fmt: skip


def backlog_batching_peer(options: Options) -> list[Measurement]:
    """Files a second: firn's of a backlog of intents with one file each, the peer's with a thousand a commit."""
    with deployment() as firn:
        ours = backlog_of(firn, options)
    with deployment() as firn:
        encoded = backlog_of(firn, options, encoded=True)
        firn.daemon.stop()
        plan = pyiceberg_files.Plan(folder=str(firn.folder / "peer"), appends=PEER_APPENDS)
        theirs = run_program("tests.bench.pyiceberg_files", plan, answer=pyiceberg_files.Result, timeout_s=1200)
        again = msgspec.structs.replace(plan, folder=str(firn.folder / "patched"), patched=True)
        patched = run_program("tests.bench.pyiceberg_files", again, answer=pyiceberg_files.Result, timeout_s=1200)
    return [
        measured(
            name, value=one.rate, unit="files/s", peer=PEER_APPENDS * plan.batch / peer.append_s,
            peer_name=f"one PyIceberg process that appends {plan.batch} files a commit{how}", target=target,
            n=options.intents, note=one.note, failures=one.failures,
        )
        for name, one, peer, how, target in (
            ("backlog-batching-peer", ours, theirs, "", 3),
            ("backlog-batching-peer-encoded", encoded, theirs, "", 10),
            ("backlog-batching-peer-patched", ours, patched, ", its deep copies of metadata patched out", None),
        )
    ]  # fmt: skip


def backlog_of(firn: Deployment, options: Options, *, encoded: bool = False) -> _Drained:
    with redis.Redis.from_url(firn.redis_url, socket_timeout=60) as client:
        view = firn.create_table(TABLE)
        _warm_up(firn, client, view.location, encoded=encoded)
        replies, templates = templates_of(view.location, options, encoded=encoded)
        raw = [_raw(client, intents_of(templates, options.intents)) for _ in range(RAW_RUNS)]
        with firn.daemon.standing_still():
            waiting = queue_up(client, stream_of(), intents_of(templates, options.intents))
            until_rewritten(client)
        with processor_time() as used:
            seconds, failures = drain(client, replies, waiting)
        if not failures:
            firn.check_total(TABLE, files=WARM_UP + options.intents)
        note = (
            f"{firn.daemon.intents_per_batch():.0f} intents a batch; {len(templates[0].next()[1])} bytes an intent; "
            f"{used.note(options.intents)}"
        )
    return _Drained(rate=options.intents / seconds, raw=raw, failures=failures, note=note)


def templates_of(folder: str, options: Options, *, encoded: bool) -> tuple[list[str], list[AppendTemplate]]:
    """Reply streams of a backlog, and what makes intents that want to be answered there."""
    run = uuid.uuid4().hex
    replies = [f"firn:replies:{run}-{n}" for n in range(-(-options.intents // REPLY_STREAMS_OF))]
    return replies, [
        AppendTemplate(TABLE, folder=folder, reply_to=reply, seed=reply, encoded=encoded) for reply in replies
    ]


def intents_of(templates: Sequence[AppendTemplate], count: int) -> Iterator[tuple[str, bytes]]:
    """Intents, each made when it is asked for: its id says when."""
    return (templates[n % len(templates)].next() for n in range(count))


def queue_up(client: redis.Redis, stream: str, intents: Iterator[tuple[str, bytes]]) -> set[str]:
    """Add intents to a stream; their ids."""
    queued: set[str] = set()
    while page := list(islice(intents, RAW_TAKE)):
        pipeline = client.pipeline(transaction=False)
        for _, payload in page:
            pipeline.execute_command("XADD", stream, "*", INTENT_FIELD, payload)
        pipeline.execute()
        queued.update(intent_id for intent_id, _ in page)
    return queued


def _raw(client: redis.Redis, intents: Iterator[tuple[str, bytes]]) -> float:
    """Entries a second of a loop that takes and acknowledges."""
    stream = f"bench:raw:{uuid.uuid4().hex}"
    count = len(queue_up(client, stream, intents))
    client.xgroup_create(stream, GROUP, id="0")
    until_rewritten(client)
    started = time.monotonic()
    done = 0
    while done < count:
        found: Any = client.xreadgroup(GROUP, "raw", {stream: ">"}, count=RAW_TAKE)
        entries = found[0][1]
        client.xack(stream, GROUP, *(entry_id for entry_id, _ in entries))
        done += len(entries)
    rate = done / (time.monotonic() - started)
    client.delete(stream)
    return rate


def _warm_up(firn: Deployment, client: redis.Redis, folder: str, *, encoded: bool) -> None:
    """A small backlog: the daemon starts what it has for large ones."""
    reply_to = f"firn:replies:{uuid.uuid4().hex}"
    template = AppendTemplate(TABLE, folder=folder, reply_to=reply_to, seed=reply_to, encoded=encoded)
    with firn.daemon.standing_still():
        waiting = queue_up(client, stream_of(), intents_of([template], WARM_UP))
    drain(client, [reply_to], waiting)


def stream_of() -> str:
    """The stream that the table's intents travel on."""
    return StreamNames().intents(shard_of(TABLE, shards=SHARDS_DEFAULT))


def until_rewritten(client: redis.Redis) -> None:
    """Wait until Redis has rewritten its log: what was queued at once makes it do so, on one of the cores."""
    while True:
        persistence: Any = client.info("persistence")
        if not persistence["aof_rewrite_in_progress"] and not persistence["aof_rewrite_scheduled"]:
            return
        time.sleep(0.05)


def drain(client: redis.Redis, replies: Sequence[str], waiting: set[str]) -> tuple[float, int]:
    """Seconds until the last outcome has come, and how many were no commits."""
    started = time.monotonic()
    cursors: dict[Any, Any] = dict.fromkeys((reply.encode() for reply in replies), "0-0")
    decoder = msgspec.json.Decoder(_Status)
    failures = 0
    while waiting:
        assert time.monotonic() - started < DRAIN_S_MAX, f"{len(waiting)} outcomes are left"
        found: Any = client.xread(cursors, block=1000, count=RAW_TAKE)
        for stream, entries in found:
            cursors[stream] = entries[-1][0]
            for _, fields in entries:
                outcome = decoder.decode(fields[OUTCOME_FIELD.encode()])
                waiting.discard(outcome.intent_id)
                failures += outcome.status != "committed"
    return time.monotonic() - started, failures
