"""Only the intent that takes daemons down becomes poison, however fast it does and whatever is under way beside it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from firn.coordinator.daemon import Daemon
from firn.coordinator.intake import quarantine as quarantine_module
from firn.coordinator.intake.quarantine import ALONE_S, ALONE_S_MIN, GROUPS, QUIET_S, Quarantine
from firn.coordinator.pending import Pending
from firn.model.errors import Unavailable
from firn.model.intent import Intent
from firn.model.intent_codec import DecodedIntent
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.model.sharding import shard_of
from firn.storage.intent_streams import Entry
from tests.unit.coordinator.workbench import SHARDS, Workbench, append, create

DELIVERIES_MAX = 4
WRITE_S = 0.03
"""How long a batch takes at least: an intent that kills at once kills before any batch beside it is through."""


def tables_of(shard: int, count: int) -> list[str]:
    """Names whose intents travel on one shard."""
    names = (f"db.t{n}" for n in itertools.count())
    return list(itertools.islice((name for name in names if shard_of(name, shards=SHARDS) == shard), count))


class Deadly(Workbench):
    """Daemons that die where a fatal intent comes up, and with them whatever they have not swapped in by then."""

    def __init__(self, fatal: Sequence[Intent], *, stage: str) -> None:
        super().__init__(limits=Limits(deliveries_max=DELIVERIES_MAX))
        self._fatal = {intent.intent_id for intent in fatal}
        self._stage = stage
        self._dead = asyncio.Event()
        self._create_all = self.files.create_all
        self.files.create_all = self._write  # type: ignore[method-assign]

    async def live_until(self, done: Callable[[], Any], *, lives_max: int) -> int:
        """One daemon after the other, each as long as it lives; how many died."""
        for deaths in range(lives_max + 1):
            async with self.daemon(f"life-{deaths}", drain_s=0.01) as daemon:
                self._dead.clear()
                self._make_mortal(daemon)
                async with asyncio.timeout(20):
                    while not self._dead.is_set() and not await done():  # noqa: ASYNC110
                        await asyncio.sleep(0.005)
            if not self._dead.is_set():
                return deaths
        raise AssertionError(f"{lives_max} daemons died, and it goes on")

    def _make_mortal(self, daemon: Daemon) -> None:
        put, decode = daemon.lanes.put, daemon.intake._decode

        def dying_put(pending: Pending) -> None:
            if self._stage == "lane" and pending.verdict is None:
                self._die_over(pending.decoded)
            if not self._dead.is_set():
                put(pending)

        def dying_decode(entry: Entry) -> DecodedIntent:
            decoded = decode(entry)
            if self._stage == "decode":
                self._die_over(decoded)
            return decoded

        daemon.lanes.put = dying_put  # type: ignore[method-assign]
        daemon.intake._decode = dying_decode  # type: ignore[method-assign]

    def _die_over(self, decoded: DecodedIntent) -> None:
        if decoded.intent.intent_id in self._fatal:
            self._dead.set()
            raise asyncio.CancelledError  # the intake ends

    def _write(self, files: Any) -> None:
        time.sleep(WRITE_S)
        if self._dead.is_set():
            raise Unavailable("the daemon is dead")
        self._create_all(files)


@pytest.mark.parametrize("stage", ["lane", "decode"])
async def test_what_other_shards_handed_over_in_the_same_moment_does_not_become_poison(stage: str) -> None:
    tables = [name for shard in range(SHARDS) for name in tables_of(shard, 3)]
    killer = append("killer", table=tables[-1])
    bench = Deadly([killer], stage=stage)
    async with bench.daemon():
        await bench.settle(*(create(table) for table in tables))
    others = [append(f"f{n}", table=table) for n in range(2) for table in tables]
    await bench.send(*others, killer)

    async def all_told() -> bool:
        letters = await bench.streams.dead_letters()
        told = [await bench.streams.outcome(one.intent_id) for one in others]
        return len(letters) == 1 and None not in told

    deaths = await bench.live_until(all_told, lives_max=2 * DELIVERIES_MAX + 1)
    assert deaths == (DELIVERIES_MAX if stage == "lane" else 2 * DELIVERIES_MAX)
    outcomes = [await bench.outcome(one) for one in others]
    assert [outcome for outcome in outcomes if not isinstance(outcome, Committed)] == []
    for table in tables:
        assert await bench.live(table) == ["f0", "f1"]
    (letter,) = await bench.streams.dead_letters()
    assert killer.intent_id.encode() in letter.data
    if stage == "lane":
        refused = await bench.outcome(killer)
        assert isinstance(refused, Rejected)
        assert refused.rule == "poison"


async def test_several_of_them_cost_nobody_else_anything() -> None:
    tables = [tables_of(shard, 1)[0] for shard in range(SHARDS)]
    killers = [append(f"killer-{n}", table=tables[n]) for n in range(3)]
    bench = Deadly(killers, stage="lane")
    async with bench.daemon():
        await bench.settle(*(create(table) for table in tables))
    others = [append(f"f{n}", table=table) for n in range(3) for table in tables]
    await bench.send(*others[:6], *killers, *others[6:])

    async def all_told() -> bool:
        return None not in [await bench.streams.outcome(one.intent_id) for one in (*others, *killers)]

    await bench.live_until(all_told, lives_max=3 * DELIVERIES_MAX)
    outcomes = [await bench.outcome(one) for one in others]
    assert [outcome for outcome in outcomes if not isinstance(outcome, Committed)] == []
    refused = [await bench.outcome(one) for one in killers]
    assert [outcome.rule for outcome in refused if isinstance(outcome, Rejected)] == ["poison"] * 3


class Entries:
    """What is under way, in the place of lanes."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.entries: set[tuple[int, str]] = set()

    def under_way(self, shard: int, entry_id: str) -> bool:
        return (shard, entry_id) in self.entries

    def all_under_way(self) -> int:
        return len(self.entries)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Entries:
    """Nothing is under way, and the clock stands still."""
    entries = Entries()
    monkeypatch.setattr(time, "monotonic", lambda: entries.now)
    return entries


def quarantine(entries: Entries, *, deliveries_max: int = 10) -> Quarantine:
    """One by the default limit."""
    lanes: Any = entries
    return Quarantine(lanes, deliveries_max=deliveries_max)


def admit(inside: Quarantine, entries: Entries, name: str, *, deliveries: int, table: str = "db.t") -> None:
    """Hand a suspect over, for which there must be room."""
    assert inside.has_room(deliveries)
    entries.entries.add((0, name))
    inside.admit(0, name, table=table, deliveries=deliveries)


@pytest.mark.parametrize(
    ("deliveries_max", "sizes"),
    [(10, {5: 512, 6: 64, 7: 8, 8: 1, 9: 1, 10: 1, 15: 1}), (6, {3: 8, 4: 1, 5: 1, 6: 1}), (4, {2: 1, 3: 1, 4: 1})],
)
def test_groups_get_smaller_with_each_delivery_and_the_last_ones_are_alone(
    entries: Entries, deliveries_max: int, sizes: dict[int, int]
) -> None:
    inside = quarantine(entries, deliveries_max=deliveries_max)
    assert {deliveries: inside.group_max(deliveries) for deliveries in sizes} == sizes
    first = min(sizes)
    assert inside.is_suspect(first)
    assert not inside.is_suspect(first - 1)
    assert quarantine(entries, deliveries_max=1_000).group_max(500) == max(GROUPS)


def test_a_group_is_as_large_as_the_one_in_it_that_was_delivered_most_often_allows(entries: Entries) -> None:
    inside = quarantine(entries)
    for n in range(8):
        admit(inside, entries, f"{n}", deliveries=7)
    assert not inside.has_room(6)
    assert not inside.has_room(8)
    entries.entries.discard((0, "0"))
    assert inside.has_room(6)
    assert not inside.has_room(8)


def test_a_suspect_waits_until_it_is_quiet_and_nothing_is_handed_over_meanwhile(entries: Entries) -> None:
    inside = quarantine(entries)
    assert not inside.others_wait()
    entries.entries.add((3, "other"))
    inside.others_admitted()
    assert not inside.has_room(8)
    assert inside.others_wait()
    entries.now += QUIET_S / 2
    assert not inside.has_room(8)
    entries.now += QUIET_S  # what is still under way waits for a server
    admit(inside, entries, "suspect", deliveries=8)
    assert inside.others_wait()
    entries.entries.discard((0, "suspect"))
    assert not inside.others_wait()


def test_others_do_not_wait_for_ever_for_a_suspect_that_does_not_come(entries: Entries) -> None:
    inside = quarantine(entries)
    entries.entries.add((3, "other"))
    inside.others_admitted()
    assert not inside.has_room(8)
    entries.now += quarantine_module.WISH_S + 0.1  # its shard was given up
    assert not inside.others_wait()


def test_suspects_whose_store_hangs_hold_the_others_up_for_a_bounded_time_altogether(entries: Entries) -> None:
    inside = quarantine(entries)
    began = entries.now
    for n in range(100):
        table = f"hung.t{n}"
        admit(inside, entries, f"{n}", deliveries=9, table=table)
        while inside.others_wait():
            entries.now += 0.01
        assert inside.keeps(table)  # those behind it would only wait, too
    assert entries.now - began < 2 * ALONE_S + 100 * (ALONE_S_MIN + 0.03)
    entries.entries.clear()
    assert not inside.keeps("hung.t0")
