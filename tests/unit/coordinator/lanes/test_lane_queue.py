"""Which intents of a table go into the next batch: fair in order, whatever their priority, deadline or writer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from firn.coordinator.lanes.lane_queue import MAINTENANCE_SHARE, LaneQueue
from firn.coordinator.metrics import Metrics
from firn.coordinator.pending import Pending
from firn.model.intent import DropTable, Intent
from firn.model.intent_codec import DecodedIntent
from firn.model.limits import Limits
from firn.storage.intent_streams import Entry
from tests.unit.coordinator.workbench import TABLE, append, create, new_id

NOW_MS = 1_000_000


def pending(intent: Intent, *, size: int = 100, waited_s: float = 0.0) -> Pending:
    entry = Entry(shard=0, entry_id="1-1", payload=b"", deliveries=1)
    return Pending(
        decoded=DecodedIntent(intent, "digest", size), entry=entry, epoch="e", entry_ms=0,
        taken_at=time.monotonic() - waited_s,
    )  # fmt: skip


def ingest(name: str, *, waited_s: float = 0.0, size: int = 100, **members: Any) -> Pending:
    return pending(append(name, summary={"name": name}, **members), waited_s=waited_s, size=size)


def maintenance(name: str, *, waited_s: float = 0.0, size: int = 100, **members: Any) -> Pending:
    return ingest(name, waited_s=waited_s, size=size, priority="maintenance", **members)


def queue_of(*pendings: Pending, **limits: int) -> LaneQueue:
    queue = LaneQueue(limits=Limits(**limits), metrics=Metrics(version="0", daemon="a"))
    for one in pendings:
        queue.put(one)
    return queue


def names(batch: list[Pending]) -> list[str]:
    """What a batch holds; refused ones in brackets."""
    found = [p.decoded.intent.summary.get("name", type(p.decoded.intent).__name__) for p in batch]
    return [name if p.verdict is None else f"({p.verdict.rule} {name})" for name, p in zip(found, batch, strict=True)]


def batches(queue: LaneQueue, *, now_ms: int = NOW_MS) -> list[list[str]]:
    found = []
    while len(queue):
        found.append(names(queue.next_batch(now_ms=now_ms)))
    assert queue.bytes == 0
    assert queue.next_batch(now_ms=now_ms) == []
    return found


def test_ingest_goes_first_and_each_priority_in_order() -> None:
    queue = queue_of(maintenance("m1"), ingest("i1"), maintenance("m2"), ingest("i2"))
    assert (len(queue), queue.bytes) == (4, 400)
    assert batches(queue) == [["i1", "i2", "m1", "m2"]]


def test_maintenance_takes_what_room_ingest_leaves() -> None:
    queue = queue_of(maintenance("m1"), maintenance("m2"), *(ingest(f"i{n}") for n in range(5)), batch_intents_max=4)
    assert batches(queue) == [["i0", "i1", "i2", "i3"], ["i4", "m1", "m2"]]


def test_maintenance_that_has_waited_is_guaranteed_its_share_of_every_batch() -> None:
    flood = [ingest(f"i{n}") for n in range(12)]
    waits = [maintenance(f"m{n}", waited_s=6) for n in range(3)]
    queue = queue_of(*flood, *waits, maintenance("young"), batch_intents_max=8)
    assert 8 // MAINTENANCE_SHARE == 2
    assert batches(queue) == [
        ["i0", "i1", "i2", "i3", "i4", "i5", "m0", "m1"],
        ["i6", "i7", "i8", "i9", "i10", "i11", "m2", "young"],
    ]


def test_the_wait_is_the_one_that_is_set() -> None:
    short = queue_of(*(ingest(f"i{n}") for n in range(9)), maintenance("m", waited_s=0.2),
                     batch_intents_max=4, maintenance_wait_ms_max=100)  # fmt: skip
    assert "m" in names(short.next_batch(now_ms=NOW_MS))
    long = queue_of(*(ingest(f"i{n}") for n in range(9)), maintenance("m", waited_s=0.2), batch_intents_max=4)
    assert "m" not in names(long.next_batch(now_ms=NOW_MS))


def test_large_maintenance_does_not_take_the_room_of_ingest() -> None:
    old = [maintenance(f"m{n}", waited_s=60, size=400) for n in range(5)]
    queue = queue_of(*old, *(ingest(f"i{n}") for n in range(20)), batch_bytes_max=1000)
    assert names(queue.next_batch(now_ms=NOW_MS)) == ["i0", "i1", "i2", "i3", "i4", "i5", "m0"]


def test_epochs_of_a_streaming_writer_stay_in_order_whatever_their_priority() -> None:
    queue = queue_of(
        maintenance("w1", writer="w", writer_sequence=1), ingest("i1"), ingest("w2", writer="w", writer_sequence=2),
        ingest("v1", writer="v", writer_sequence=1), maintenance("v2", waited_s=60, writer="v", writer_sequence=2),
        maintenance("w3", writer="w", writer_sequence=3), ingest("v3", writer="v", writer_sequence=3),
    )  # fmt: skip
    assert batches(queue) == [["i1", "v1", "v2", "v3", "w1", "w2", "w3"]]


def test_a_batch_ends_at_its_limits_and_its_first_intent_always_fits() -> None:
    queue = queue_of(ingest("a", size=600), ingest("b", size=600), ingest("huge", size=5000), batch_bytes_max=1000)
    assert batches(queue) == [["a"], ["b"], ["huge"]]
    queue = queue_of(*(ingest(str(n)) for n in range(5)), batch_intents_max=2)
    assert batches(queue) == [["0", "1"], ["2", "3"], ["4"]]


@pytest.mark.parametrize("priority", ["ingest", "maintenance"])
def test_making_and_dropping_a_table_is_a_batch_of_its_own_that_nothing_overtakes(priority: str) -> None:
    drop = DropTable(intent_id=new_id(), table=TABLE, priority=priority)  # type: ignore[arg-type]
    queue = queue_of(maintenance("m"), ingest("a"), pending(drop), pending(create()), maintenance("n"), ingest("b"))
    assert batches(queue) == [["a", "m"], ["DropTable"], ["CreateTable"], ["b", "n"]]


def test_an_intent_whose_deadline_passes_is_refused_in_the_next_batch_wherever_it_stands() -> None:
    late = ingest("late", deadline_ms=NOW_MS - 1)
    behind = maintenance("behind", deadline_ms=NOW_MS - 7)
    drop = pending(DropTable(intent_id=new_id(), table=TABLE))
    queue = queue_of(*(ingest(f"i{n}") for n in range(4)), late, drop, behind, ingest("in time", deadline_ms=NOW_MS),
                     batch_intents_max=4)  # fmt: skip
    assert batches(queue) == [
        ["(deadline-passed behind)", "(deadline-passed late)", "i0", "i1"],
        ["i2", "i3"],
        ["DropTable"],
        ["in time"],
    ]


def test_a_late_intent_that_is_a_batch_of_its_own_stays_one() -> None:
    drop = pending(DropTable(intent_id=new_id(), table=TABLE, deadline_ms=NOW_MS - 5))
    late = (ingest("late", deadline_ms=NOW_MS - 9), ingest("later", deadline_ms=NOW_MS - 1))
    queue = queue_of(ingest("a"), drop, *late)
    assert batches(queue) == [
        ["(deadline-passed late)", "a"],
        ["(deadline-passed DropTable)"],
        ["(deadline-passed later)"],
    ]


def test_what_is_put_back_comes_before_the_others_in_its_order() -> None:
    queue = queue_of(ingest("c"), maintenance("z"))
    queue.put_back([ingest("a"), maintenance("y"), ingest("b")])
    assert names([*queue]) == ["a", "b", "c", "y", "z"]
    drop = pending(DropTable(intent_id=new_id(), table=TABLE))
    queue.put_back([ingest("first"), drop])
    assert batches(queue) == [["first"], ["DropTable"], ["a", "b", "c", "y", "z"]]


def test_what_is_cleared_is_gone() -> None:
    queue = queue_of(ingest("a", deadline_ms=1), maintenance("b"), pending(create()))
    assert len(queue.clear()) == 3
    assert (len(queue), queue.bytes, queue.intents, queue.next_batch(now_ms=NOW_MS)) == (0, 0, (), [])
