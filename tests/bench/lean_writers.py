"""Closed-loop writers that cost next to nothing: a program, run as ``-m tests.bench.lean_writers '<Plan as JSON>'``.

Each writer has one intent under way and a reply stream of its own, and sends the next, which it has made meanwhile,
when it hears of an outcome. All of them share one thread and a few connections, so that the two cores are left to what
is measured.
"""

from __future__ import annotations

import heapq
import sys
import time
import uuid
from typing import Any

import hiredis
import msgspec
import redis

from firn.model.sharding import shard_of
from firn.storage.intent_streams import INTENT_FIELD, OUTCOME_FIELD, StreamNames
from tests.bench.wire import VARIETY, AppendTemplate

FULL_VARIETY_WRITERS = 64
"""More writers than these have fewer different files each: they take memory."""

SHARING = 8
"""Writers who add their intents over one connection: Redis takes 16 kB at a time of each, and their intents have 2."""

GIVE_UP_S = 30.0
"""After the end, how long outcomes are waited for."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do. The first `warm_up_s` of the time are not measured; `prefix` begins the names of intent streams.

    Writers take the tables (name, location) in turns. Each waits until `every_s` after its last intent with the next.
    """

    redis_url: str
    tables: list[tuple[str, str]]
    shards: int
    writers: int
    seconds: float
    warm_up_s: float = 1.0
    every_s: float = 0.0
    prefix: str = "firn"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What the writers saw: outcomes within the measured time, each one's latency, and what was not committed."""

    seconds: float
    committed: int
    latencies_ms: list[float]
    failures: int
    all_committed: int
    """Including those before and after the measured time."""
    first_failure: str = ""

    @property
    def rate(self) -> float:
        """Commits a second."""
        return self.committed / self.seconds


class _Status(msgspec.Struct, rename="kebab"):
    intent_id: str
    status: str


class _Writers:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        connections = -(-plan.writers // SHARING)
        pool = redis.ConnectionPool.from_url(
            plan.redis_url, socket_timeout=60, protocol=2, max_connections=connections + 1
        )
        self._hearing: Any = pool.get_connection()
        self._adding: list[Any] = [pool.get_connection() for _ in range(connections)]
        names, run = StreamNames(plan.prefix), uuid.uuid4().hex
        self._streams: dict[bytes, str] = {}
        self._templates: dict[bytes, AppendTemplate] = {}
        self._made: dict[bytes, tuple[str, bytes]] = {}
        """What each writer sends next: the intent's id, and the command that adds it."""
        variety = max(1, VARIETY * FULL_VARIETY_WRITERS // max(plan.writers, FULL_VARIETY_WRITERS))
        for number in range(plan.writers):
            (table, folder), reply_to = plan.tables[number % len(plan.tables)], f"firn:replies:{run}-{number}"
            self._streams[reply_to.encode()] = names.intents(shard_of(table, shards=plan.shards))
            self._templates[reply_to.encode()] = AppendTemplate(
                table, folder=folder, reply_to=reply_to, seed=number, variety=variety
            )
        self._due: list[tuple[float, bytes]] = []
        self._cursors: dict[Any, Any] = dict.fromkeys(self._templates, "0-0")
        self._out: dict[str, float] = {}
        self._decoder = msgspec.json.Decoder(_Status)
        self._latencies: list[float] = []
        self._committed = self._all_committed = self._failures = 0
        self._first_failure = ""

    def run(self) -> Result:
        """Drive the writers for the time of the plan."""
        measure_from = time.monotonic() + self._plan.warm_up_s
        ends_at = measure_from + self._plan.seconds
        self._start()
        while (self._out or self._due) and time.monotonic() < ends_at + GIVE_UP_S:
            self._send(self._ready(ends_at))
            if self._out:
                self._hear(measure_from, ends_at)
        if self._out:
            self._failures += len(self._out)
            self._first_failure = self._first_failure or f"{len(self._out)} intents without an outcome"
        return Result(
            seconds=self._plan.seconds, committed=self._committed, latencies_ms=self._latencies,
            failures=self._failures, all_committed=self._all_committed, first_failure=self._first_failure,
        )  # fmt: skip

    def _start(self) -> None:
        """All at once, or spread over the time that each waits between its intents."""
        now, step = time.monotonic(), self._plan.every_s / len(self._templates)
        self._due = [(now + number * step, writer) for number, writer in enumerate(self._templates)]

    def _ready(self, ends_at: float) -> list[bytes]:
        """The writers whose turn has come; after the end none has one."""
        now = time.monotonic()
        if now >= ends_at:
            self._due = []
            return []
        if not self._out and self._due:
            time.sleep(max(0.0, min(self._due[0][0], ends_at) - now))
            now = time.monotonic()
        ready: list[bytes] = []
        while self._due and self._due[0][0] <= now:
            ready.append(heapq.heappop(self._due)[1])
        return ready

    def _send(self, writers: list[bytes]) -> None:
        """Add the writers' intents, over as many connections as it takes; then make those that they send next."""
        made = [self._made.pop(writer) if writer in self._made else self._make(writer) for writer in writers]
        used = list(zip(self._adding, range(0, len(made), SHARING), strict=False))
        now = time.monotonic()
        self._out.update((intent_id, now) for intent_id, _ in made)
        for connection, first in used:
            connection.send_packed_command([command for _, command in made[first : first + SHARING]])
        for connection, first in used:
            for _ in made[first : first + SHARING]:
                connection.read_response()
        if not self._plan.every_s:  # else the ids of intents would be older than a writer's are
            self._made.update((writer, self._make(writer)) for writer in writers)

    def _make(self, writer: bytes) -> tuple[str, bytes]:
        intent_id, payload = self._templates[writer].next()
        return intent_id, _packed("XADD", self._streams[writer], "*", INTENT_FIELD, payload)

    def _hear(self, measure_from: float, ends_at: float) -> None:
        """Take outcomes in; the writers that had one are due again.

        A read that waits is answered with the first outcome alone. The one behind it has all that were told together,
        as writers hear of them who have connections of their own.
        """
        wait_s = self._due[0][0] - time.monotonic() if self._due else 1.0
        streams = ("STREAMS", *self._cursors, *self._cursors.values())
        first = _packed("XREAD", "COUNT", 1, "BLOCK", max(1, min(1000, int(wait_s * 1000))), *streams)
        self._hearing.send_packed_command([first, _packed("XREAD", *streams)])
        self._hearing.read_response()
        found: Any = self._hearing.read_response() or ()
        now = time.monotonic()
        for stream, entries in found:
            self._cursors[stream] = entries[-1][0]
            for _, fields in entries:
                told = fields[fields.index(OUTCOME_FIELD.encode()) + 1]
                outcome = self._decoder.decode(told)
                sent_at = self._out.pop(outcome.intent_id, None)
                if sent_at is None:
                    continue  # told twice
                heapq.heappush(self._due, (sent_at + self._plan.every_s, stream))
                if outcome.status != "committed":
                    self._failures += 1
                    self._first_failure = self._first_failure or told.decode()
                    continue
                self._all_committed += 1
                if measure_from <= now < ends_at:
                    self._committed += 1
                    self._latencies.append((now - sent_at) * 1000)


def _packed(*command: Any) -> bytes:
    packed: bytes = hiredis.pack_command(command)
    return packed


def main() -> None:
    """Run the plan and print the result."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(_Writers(plan).run()))


if __name__ == "__main__":
    main()
