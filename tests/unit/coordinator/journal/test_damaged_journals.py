"""An old part of the journal that is damaged or gone costs nobody but those who may have been decided there.

They are neither committed nor refused on a guess: they wait, and get their outcome when the file can be read again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest

from firn.coordinator.daemon import wall_clock_ms
from firn.coordinator.journal import decisions
from firn.coordinator.journal.old_segments import OldSegments
from firn.coordinator.lanes import held_intents
from firn.model.errors import CorruptFile, NotFound, Unavailable
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.storage.journal import JournalFiles
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.journal.journals import Journal, id_at
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, decision, new_id

OLD = 30
"""Commits of which memory knows the last few."""


class Damaged(MemoryFiles):
    """A store that counts what is read of it, one of whose files may be damaged, gone or not given for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.refuses: str | None = None

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self.reads.append(location)
        if location == self.refuses:
            raise Unavailable(f"{location}: Input/output error")
        return super().read(location, bytes_max=bytes_max)

    @contextmanager
    def without(self, location: str, damage: str) -> Iterator[None]:
        """The file is not what it was meanwhile."""
        whole = super().read(location, bytes_max=10**7)
        match damage:
            case "cut":
                self.replace(location, whole[: len(whole) // 2])
            case "flipped":
                self.replace(location, whole[:-30] + bytes([whole[-30] ^ 1]) + whole[-29:])
            case "gone":
                self.delete(location)
            case _:
                self.refuses = location
        yield
        self.refuses = None
        self.replace(location, whole)


DAMAGES = ["cut", "flipped", "gone", "input/output error"]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 4)
    monkeypatch.setattr(held_intents, "LOOK_AGAIN_S", (0.05, 0.1))


class Past:
    """A table with a past, in a store of which parts can be damaged."""

    def __init__(self, **limits: int) -> None:
        self.files = Damaged()
        self.bench = Workbench(files=self.files, limits=Limits(dedupe_intents_max=8, **limits))
        self.began_ms = wall_clock_ms() - 3_600_000
        self.intents: list[Intent] = []
        self.outcomes: list[Committed] = []

    async def make(self) -> Past:
        """A table with one commit for each minute of an hour ago."""
        await self.bench.commit(create(intent_id=self.id_of(-1)))
        await self.fill()
        return self

    async def fill(self) -> None:
        """The commits."""
        for number in range(OLD):
            self.intents.append(append(f"old{number}", intent_id=self.id_of(number)))
            self.outcomes.append(await self.bench.commit(self.intents[-1]))

    def id_of(self, minute: int) -> str:
        """An id of that minute, which nobody else has."""
        return new_id(self.began_ms + minute * 60_000)

    async def place_of(self, number: int, *, checkpoint: bool) -> str:
        """Where an intent's decision stands, or the checkpoint that lists it."""
        intent_id = self.intents[number].intent_id
        for segment in await self.bench.journal():
            if not checkpoint and any(one.intent_id == intent_id for one in segment.decided):
                return segment.location
            if segment.checkpoint is not None and any(one == intent_id for one, _, _ in segment.checkpoint.intents):
                return segment.location
        raise AssertionError(number)

    def forget_told(self) -> None:
        """Redis was emptied of what has been told."""
        for intent in self.intents:
            self.bench.redis.keys.pop(self.bench.names.outcome(intent.intent_id), None)

    @property
    def names(self) -> list[str]:
        """Their files."""
        return [f"old{number}" for number in range(OLD)]

    async def are_committed(self, *intents: Intent) -> bool:
        """Whether all of these are, before long."""
        return all([isinstance(await self.bench.outcome(intent), Committed) for intent in intents])

    async def is_open(self, *intents: Intent) -> bool:
        """Whether nobody was told what became of these."""
        return not any([await self.bench.streams.outcome(intent.intent_id) for intent in intents])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("damage", "which", "reopened"),
    [
        *((damage, "checkpoint", False) for damage in DAMAGES),
        *((damage, "segment", False) for damage in DAMAGES),
        ("cut", "checkpoint", True),
        ("gone", "segment", True),
    ],
)
async def test_only_who_needs_it_waits_and_is_told_its_first_outcome_when_it_can_be_read(
    damage: str, which: str, reopened: bool
) -> None:
    past = Past()
    bench, files = past.bench, past.files
    async with AsyncExitStack() as running:
        daemon = await running.enter_async_context(bench.daemon("a"))
        await past.make()
        location = await past.place_of(5, checkpoint=which == "checkpoint")
        late = past.intents[5]
        past.forget_told()
        if reopened:
            await running.aclose()
            daemon = await running.enter_async_context(bench.daemon("b"))
        with files.without(location, damage):
            x, y = append("x"), append("y")
            await bench.send(x, late, y)
            assert await past.are_committed(x, y)
            await until(lambda: TABLE in daemon.lanes.stalled)
            assert location in daemon.lanes.stalled[TABLE]
            # A daemon that begins reads entries again that stand in the stream without an outcome.
            counted = r"decided on \d+ intents? before" if reopened else "decided on 1 intent before"
            assert re.search(counted, daemon.lanes.stalled[TABLE])
            files.reads.clear()
            await bench.send(late)  # its writer has waited long enough
            await bench.commit(append("z"))
            await asyncio.sleep(0.3)
            assert 1 <= files.reads.count(location) <= 6  # it is looked at now and then
            assert await past.is_open(late)
        assert decision(await bench.outcome(late)) == decision(past.outcomes[5])
        await until(lambda: not daemon.lanes.stalled and not daemon.lanes.all_under_way())
    assert await bench.live() == sorted([*past.names, "x", "y", "z"])
    assert all(one.intent_id != late.intent_id for segment in (await bench.journal())[-3:] for one in segment.decided)


async def test_one_that_is_late_and_new_is_committed_when_its_past_can_be_read() -> None:
    past = Past()
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await past.make()
        late = [append(f"late{number}", intent_id=past.id_of(5)) for number in range(5)]
        location = await past.place_of(9, checkpoint=True)  # between the newest and theirs
        with files.without(location, "gone"):
            await bench.send(*late)
            await bench.commit(append("x"))
            await until(lambda: "5 intents" in daemon.lanes.stalled.get(TABLE, ""))
            files.reads.clear()
            await asyncio.sleep(0.3)
            assert files.reads.count(location) <= 6  # not once for each of them
            assert await past.is_open(*late)
        assert await past.are_committed(*late)
        await until(lambda: not daemon.lanes.stalled)
    assert await bench.live() == sorted([*past.names, "x", *(f"late{number}" for number in range(5))])


async def test_what_is_wrong_with_one_that_waits_is_not_said_before_its_past_can_be_read() -> None:
    """A day too old, or too late for its deadline: it may have been committed all the same, and be told so."""
    past = Past()
    past.began_ms -= 30 * 3_600_000
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await bench.commit(create(intent_id=new_id(wall_clock_ms() - 60_000)))
        for number in range(OLD):
            made_ms = wall_clock_ms() - 1_000 * (OLD - number)
            past.intents.append(append(f"old{number}", intent_id=new_id(made_ms)))
            past.outcomes.append(await bench.commit(past.intents[-1]))
        too_old = append("too old", intent_id=past.id_of(0))
        too_late = append("too late", intent_id=new_id(wall_clock_ms() - 60_000), deadline_ms=wall_clock_ms() - 1)
        with files.without(await past.place_of(9, checkpoint=True), "cut"):
            await bench.send(too_old, too_late)
            await until(lambda: "2 intents" in daemon.lanes.stalled.get(TABLE, ""))
            await asyncio.sleep(0.2)
            assert await past.is_open(too_old, too_late)
        told = [await bench.outcome(one) for one in (too_old, too_late)]
        assert [one.rule for one in told if isinstance(one, Rejected)] == ["intent-too-old", "deadline-passed"]


async def test_later_epochs_of_a_streaming_writer_wait_for_the_one_whose_past_cannot_be_read() -> None:
    past = Past()
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await past.make()
        held = append("e1", intent_id=past.id_of(5), writer="w", writer_sequence=1)
        behind = [append(f"e{number}", writer="w", writer_sequence=number) for number in (2, 3)]
        with files.without(await past.place_of(9, checkpoint=True), "flipped"):
            await bench.send(held, behind[0])
            await until(lambda: TABLE in daemon.lanes.stalled)
            await bench.send(behind[1])
            await bench.commit(append("x"))
            await asyncio.sleep(0.2)
            assert await past.is_open(held, *behind)
        assert await past.are_committed(held, *behind)
    assert await bench.live() == sorted([*past.names, "x", "e1", "e2", "e3"])


async def test_the_last_epoch_again_under_another_id_waits_where_its_decision_cannot_be_read() -> None:
    past = Past()
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await bench.commit(create(intent_id=past.id_of(-1)))
        first = append("e1", writer="w", writer_sequence=1)
        outcome = await bench.commit(first)
        location = (await bench.journal())[-1].location
        await past.fill()
        again = append("e1", writer="w", writer_sequence=1)
        with files.without(location, "gone"):
            await bench.send(again)
            await until(lambda: location in daemon.lanes.stalled.get(TABLE, ""))
            await bench.commit(append("x"))
            assert await past.is_open(again)
        told = await bench.outcome(again)
        assert isinstance(told, Committed)
        assert told.snapshot_id == outcome.snapshot_id
    assert await bench.live() == sorted([*past.names, "x", "e1"])


async def test_a_daemon_that_stops_leaves_them_to_the_next() -> None:
    past = Past()
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await past.make()
        location = await past.place_of(5, checkpoint=True)
        past.forget_told()
        late = past.intents[5]
        damaged = files.without(location, "cut")
        damaged.__enter__()
        await bench.send(late)
        await until(lambda: TABLE in daemon.lanes.stalled)
    assert await past.is_open(late)
    async with bench.daemon("b") as daemon:
        await until(lambda: TABLE in daemon.lanes.stalled)
        await bench.commit(append("x"))
        damaged.__exit__(None, None, None)
        assert decision(await bench.outcome(late)) == decision(past.outcomes[5])
    assert await bench.live() == sorted([*past.names, "x"])


@pytest.mark.parametrize("damage", ["cut", "gone"])
async def test_where_the_newest_of_the_journal_is_damaged_only_what_is_new_is_refused(damage: str) -> None:
    """As when the daemon died before it told what it had committed: nobody else knows."""
    past = Past()
    bench, files = past.bench, past.files
    async with bench.daemon("a"):
        await past.make()
        head = (await bench.journal())[-1].location
        past.forget_told()
    last = past.intents[-1]
    with files.without(head, damage):
        async with bench.daemon("b") as daemon:
            await bench.send(last)
            await until(lambda: TABLE in daemon.lanes.unreadable)
            await asyncio.sleep(2.1)  # then nothing can be of the time of the daemon before
            refused = await bench.refuse(append("x"))
            assert refused.rule == "table-unreadable"
            assert head in refused.message
            assert await past.is_open(last)
    async with bench.daemon("c"):
        assert decision(await bench.outcome(last)) == decision(past.outcomes[-1])
        await bench.commit(append("y"))
    assert await bench.live() == sorted([*past.names, "y"])


async def test_where_more_wait_than_a_lane_holds_their_table_waits_and_no_other() -> None:
    past = Past(lane_intents_max=4)
    bench, files = past.bench, past.files
    async with bench.daemon("a") as daemon:
        await past.make()
        await bench.commit(create("db.other"))
        late = [append(f"late{number}", intent_id=past.id_of(5)) for number in range(6)]
        x = append("x")
        with files.without(await past.place_of(9, checkpoint=True), "gone"):
            await bench.send(*late)
            await until(lambda: "4 intents" in daemon.lanes.stalled.get(TABLE, ""))
            await bench.send(x)
            await bench.commit(append("y", table="db.other"))
            await asyncio.sleep(0.2)
            assert await past.is_open(*late, x)
        assert await past.are_committed(*late, x)


def test_a_segment_that_cannot_be_read_is_asked_for_once_until_it_is_looked_at_again() -> None:
    journal = Journal(limits=Limits())
    journal.decide([id_at(1)])
    location = str(journal.folded.head)
    old = OldSegments(JournalFiles(journal.files, bytes_max=2**20))
    whole = journal.files.read(location, bytes_max=2**20)
    journal.files.replace(location, whole[:-1])
    journal.files.seen.clear()
    for _ in range(3):
        with pytest.raises(CorruptFile, match="is cut") as caught:
            old.read(location)
        assert len(caught.traceback) < 5
    assert journal.files.seen == [location]
    with pytest.raises(NotFound, match="no file /elsewhere"):
        old.read("/elsewhere")
    journal.files.replace(location, whole)
    old.look_again()
    assert old.read(location).location == location
    with pytest.raises(CorruptFile, match="holds none"):
        old.checkpoint(location)
