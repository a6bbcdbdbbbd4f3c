"""Commits with nothing between their requests: what this machine's disk and servers allow a program of Python.

As a program: ``-m tests.bench.bare_commits '<Plan as JSON>'``. Each lane does, one thing after the other, what no
commit of firn's can do without: an intent is added to a stream and taken from it, as many files of the same sizes are
made and synced as firn syncs them, ZooKeeper checks one node and sets another, the outcome is added to another
stream while the entry is acknowledged, and read there. Nothing is decided, encoded or remembered.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import redis
from kazoo.client import KazooClient

from firn.storage.whole_sync import WholeSyncs
from firn.storage.write_back import begin_writing_back
from tests.bench.measurement import median

INTENT_BYTES = 2_000
OUTCOME_BYTES = 300
POINTER_BYTES = 500
GROUP = "bare"
WARM_UP_S = 1.0
STAGES = ("take", "write", "swap", "tell")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do; the first second is not measured. `sizes` are those of the files of one commit."""

    name: str
    redis_url: str
    hosts: str
    folder: str
    lanes: int
    seconds: float
    sizes: tuple[int, ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How long each commit took, and how long each of its stages did at the median."""

    latencies_ms: list[float]
    stages_ms: dict[str, float]


def measure(plan: Plan) -> Result:
    """Commit in all lanes for the time of the plan."""
    client = KazooClient(plan.hosts)
    client.start()
    ends_at = time.monotonic() + WARM_UP_S + plan.seconds
    syncs = WholeSyncs()
    with ThreadPoolExecutor(plan.lanes) as threads:
        lanes = [_Lane(plan, f"{plan.name}-{number}", client, syncs) for number in range(plan.lanes)]
        taken = list(threads.map(lambda lane: lane.run(ends_at - plan.seconds, ends_at), lanes))
    client.stop()
    commits = [commit for of_lane in taken for commit in of_lane]
    return Result(
        latencies_ms=list(map(sum, commits)),
        stages_ms={stage: median(times) for stage, times in zip(STAGES, zip(*commits, strict=True), strict=True)},
    )


class BareSwap:
    """Files of these sizes, written and synced with their folder, and the swap of a pointer behind a check."""

    def __init__(self, sizes: Sequence[int], folder: Path, zookeeper: KazooClient, syncs: WholeSyncs) -> None:
        self._syncs = syncs
        self._zookeeper = zookeeper
        self._contents = [bytes(size) for size in sizes]
        self._folder = folder
        self._folder.mkdir(parents=True)
        self._lock, self._pointer = f"/bare/lock-{folder.name}", f"/bare/pointer-{folder.name}"
        zookeeper.create(self._lock, b"", makepath=True)
        zookeeper.create(self._pointer, bytes(POINTER_BYTES))
        self._version = 0

    def write(self) -> None:
        """Make the next files."""
        descriptors = []
        for number, content in enumerate(self._contents):
            path = self._folder / f"{self._version:08d}-{number}"
            descriptors.append(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            os.write(descriptors[-1], content)
            begin_writing_back(descriptors[-1])
        whole = self._syncs.of(descriptors, folder=str(self._folder), own_bytes=sum(map(len, self._contents)))
        if whole is None or not whole.sync():
            for descriptor in descriptors:
                os.fsync(descriptor)
        descriptors.append(os.open(self._folder, os.O_RDONLY))
        os.fsync(descriptors[-1])
        for descriptor in descriptors:
            os.close(descriptor)

    def swap(self) -> None:
        """Move the pointer."""
        multi = self._zookeeper.transaction()
        multi.check(self._lock, 0)
        multi.set_data(self._pointer, bytes(POINTER_BYTES), self._version)
        found = multi.commit()
        assert not any(isinstance(one, Exception) for one in found), found
        self._version += 1


class _Lane:
    def __init__(self, plan: Plan, name: str, zookeeper: KazooClient, syncs: WholeSyncs) -> None:
        self._redis = redis.Redis.from_url(plan.redis_url, socket_timeout=30)
        self._commit = BareSwap(plan.sizes, Path(plan.folder) / name, zookeeper, syncs)
        self._intents, self._replies = f"bare:intents:{name}", f"bare:replies:{name}"
        self._heard = "0-0"
        self._redis.xgroup_create(self._intents, GROUP, id="0", mkstream=True)

    def run(self, measure_from: float, ends_at: float) -> list[tuple[float, ...]]:
        """Milliseconds of each stage of each commit that began in that time."""
        taken = []
        while (began := time.monotonic()) < ends_at:
            entry = self._take()
            delivered = time.monotonic()
            self._commit.write()
            written = time.monotonic()
            self._commit.swap()
            swapped = time.monotonic()
            self._tell(entry)
            if began >= measure_from:
                times = (began, delivered, written, swapped, time.monotonic())
                taken.append(tuple((after - before) * 1000 for before, after in pairwise(times)))
        return taken

    def _take(self) -> Any:
        self._redis.xadd(self._intents, {"intent": bytes(INTENT_BYTES)})
        taken: Any = self._redis.xreadgroup(GROUP, "bare", {self._intents: ">"}, block=1000)
        ((_, ((entry, _),)),) = taken
        return entry

    def _tell(self, entry: Any) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xadd(self._replies, {"outcome": bytes(OUTCOME_BYTES)}, maxlen=10, approximate=False)
        pipeline.xack(self._intents, GROUP, entry)
        pipeline.execute()
        told: Any = self._redis.xread({self._replies: self._heard}, block=1000)
        ((_, ((self._heard, _),)),) = told


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(msgspec.json.decode(sys.argv[1], type=Plan))))
