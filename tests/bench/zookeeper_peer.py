"""ZooKeeper's check-and-set rate: the swap of a pointer and nothing else, as many at once as there are writers.

As a program: ``-m tests.bench.zookeeper_peer '<Plan as JSON>'``. Each swap is what firn's is: one multi that checks one
node and sets another at its version.
"""

from __future__ import annotations

import queue
import sys
import time
from typing import Any

import msgspec
from kazoo.client import KazooClient

POINTER_BYTES = 500


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do; the first second is not measured."""

    hosts: str
    writers: int
    seconds: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Swaps a second."""

    rate: float


def measure(plan: Plan) -> Result:
    """Swap for the time of the plan, each node again as soon as its last swap is answered."""
    client = KazooClient(plan.hosts)
    client.start()
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    versions = [0] * plan.writers
    for number in range(plan.writers):
        client.create(f"/bench/lock-{number}", b"", makepath=True)
        client.create(f"/bench/pointer-{number}", bytes(POINTER_BYTES))

    def swap(number: int) -> None:
        multi = client.transaction()
        multi.check(f"/bench/lock-{number}", 0)
        multi.set_data(f"/bench/pointer-{number}", bytes(POINTER_BYTES), versions[number])
        versions[number] += 1
        multi.commit_async().rawlink(lambda result: done.put((number, result)))

    for number in range(plan.writers):
        swap(number)
    measure_from = time.monotonic() + 1.0
    ends_at, swaps = measure_from + plan.seconds, 0
    while (now := time.monotonic()) < ends_at:
        number, result = done.get(timeout=30)
        assert not any(isinstance(one, Exception) for one in result.get()), result.get()
        swaps += now >= measure_from
        swap(number)
    client.stop()
    return Result(rate=swaps / plan.seconds)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(msgspec.json.decode(sys.argv[1], type=Plan))))
