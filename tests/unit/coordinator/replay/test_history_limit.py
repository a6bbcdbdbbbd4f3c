"""Snapshots that expire with commits, and those that do not."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from firn.coordinator.daemon import Daemon, wall_clock_ms
from firn.coordinator.fsck.run import check_table
from firn.model.errors import Unavailable
from firn.model.intent import DropTable, RegisterTable
from firn.model.metadata_check import check_metadata
from firn.model.operations.refs import CreateTag, Rollback
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties
from firn.model.outcome import Committed
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointers
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, new_id

COUNT = 70
YEAR_2100_MS = 4_102_444_800_000


async def table_after(properties: dict[str, str], *, tag: bool = False, stage: bool = False) -> Any:
    """A table's metadata after many commits."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties=properties))
        first = await bench.commit(append("first"))
        if tag:
            assert first.snapshot_id is not None
            intent = CreateTag(intent_id=new_id(), table=TABLE, ref_name="keep", snapshot_id=first.snapshot_id)
            await bench.commit(intent)
        if stage:
            await bench.commit(append("staged", stage=True, wap_id="w"))
        for number in range(COUNT):
            await bench.commit(append(f"f{number:02d}"))
        metadata = await bench.metadata()
        assert await bench.live() == sorted(["first", *(f"f{number:02d}" for number in range(COUNT))])
        await bench.commit(delete("first"))
    return metadata


async def test_a_history_is_cut_back_to_what_the_table_may_keep() -> None:
    metadata = await table_after({"firn.snapshots-max": "10"})
    assert 10 <= len(metadata.snapshots) <= 10 + 2 + 9
    assert len(metadata.snapshot_log) <= len(metadata.snapshots)


@pytest.mark.parametrize(
    "properties",
    [
        {"firn.snapshots-max": "0"},
        {"firn.snapshots-max": "10", "firn.expire-on-commit": "false"},
        {"firn.snapshots-max": "10", "gc.enabled": "false"},
        {"firn.snapshots-max": "10", "history.expire.min-snapshots-to-keep": "100"},
        {"history.expire.max-snapshot-age-ms": "3600000"},
        {},
    ],
)
async def test_a_history_that_the_table_wants_to_keep_stays(properties: dict[str, str]) -> None:
    assert len((await table_after(properties)).snapshots) == COUNT + 1


async def test_what_is_older_than_the_table_says_goes() -> None:
    metadata = await table_after({"history.expire.max-snapshot-age-ms": "1"})
    assert len(metadata.snapshots) < COUNT + 1


TOGETHER = 63
"""Snapshots of a swap: with the one before it so many that no swap ends where anybody looks what is to expire."""


@pytest.mark.parametrize("properties", [{"firn.snapshots-max": "10"}, {"history.expire.max-snapshot-age-ms": "1"}])
async def test_a_history_that_grows_by_many_a_swap_is_cut_back_all_the_same(properties: dict[str, str]) -> None:
    bench = Gathering()
    lengths = []
    async with bench.daemon() as daemon:
        await bench.commit(create(properties={"firn.append-mode": "per-intent", **properties}))
        await bench.commit(append("first"))
        for swap in range(4):
            appends = [append(f"{swap}-{number}") for number in range(TOGETHER)]
            outcomes = await bench.gathered(daemon, *appends, blocker=f"before-{swap}")
            assert all(isinstance(outcome, Committed) for outcome in outcomes)
            metadata = await bench.metadata()
            assert metadata.last_sequence_number == 1 + (swap + 1) * (1 + TOGETHER)
            lengths.append(len(metadata.snapshots))
            await asyncio.sleep(0.1)  # whatever this swap has made is older than a millisecond, then
    assert lengths[0] == 2 + TOGETHER
    assert max(lengths[1:]) <= 10 + TOGETHER


async def test_a_clock_that_was_ahead_does_not_keep_a_history_from_being_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in metadata never fall: all that is committed after the clock is right again is of the future, too."""
    bench = Workbench()
    monkeypatch.setattr("tests.unit.coordinator.workbench.Daemon", partial(Daemon, wall_ms=lambda: YEAR_2100_MS))
    async with bench.daemon():
        await bench.commit(create(properties={"firn.snapshots-max": "10"}))
        await bench.commit(append("first"))
    monkeypatch.undo()
    async with bench.daemon():
        for number in range(COUNT):
            await bench.commit(append(f"f{number:02d}"))
        metadata = await bench.metadata()
    assert all(snapshot.timestamp_ms >= YEAR_2100_MS for snapshot in metadata.snapshots)
    assert 10 <= len(metadata.snapshots) <= 10 + 2 + 9


@pytest.mark.parametrize(
    "wish", [{"gc.enabled": "false"}, {"firn.expire-on-commit": "false"}, {"firn.snapshots-max": "0"}]
)
async def test_a_batch_that_turns_the_limit_off_cuts_nothing_any_more(wish: dict[str, str]) -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        for number in range(15):
            await bench.commit(append(f"f{number:02d}"))
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates={"firn.snapshots-max": "2"}))
        turned_off = UpdateProperties(intent_id=new_id(), table=TABLE, updates=wish)
        outcomes = await bench.gathered(daemon, turned_off, append("last"))
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        assert len((await bench.metadata()).snapshots) == 17


async def test_tagged_and_staged_snapshots_stay() -> None:
    metadata = await table_after({"firn.snapshots-max": "10"}, tag=True, stage=True)
    assert metadata.refs["keep"].snapshot_id in {snapshot.snapshot_id for snapshot in metadata.snapshots}
    assert any((snapshot.summary or {}).get("wap.id") == "w" for snapshot in metadata.snapshots)
    assert len(metadata.snapshots) < COUNT


@pytest.mark.parametrize(("properties", "stay"), [({}, True), ({"firn.snapshots-max": "1"}, False)])
async def test_what_other_writers_made_stays_unless_the_table_asks(properties: dict[str, str], *, stay: bool) -> None:
    """Whoever registers a table keeps its past: no limit of firn's that nobody asked for takes it away."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"history.expire.max-snapshot-age-ms": "1", **properties}))
        for number in range(5):
            await bench.commit(append(f"f{number}"))
        metadata = await bench.metadata()
        others = tuple(msgspec.structs.replace(s, summary={"operation": "append"}) for s in metadata.snapshots)
        location = f"{metadata.location}/metadata/of-others.metadata.json"
        bench.files.create(location, encode_metadata(msgspec.structs.replace(metadata, snapshots=others)))
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        await bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=location))
        for number in range(COUNT):
            await bench.commit(append(f"g{number}"))
        left = {snapshot.snapshot_id for snapshot in (await bench.metadata()).snapshots}
    assert len(left) < COUNT + 5, "those of firn's own are cut back in any case"
    assert ({snapshot.snapshot_id for snapshot in others} <= left) is stay


DAYS = 6
HOUR_MS = 3_600_000


class SlowClock:
    """A wall clock that stands still between `pass_by`s, and is days behind the queue's."""

    def __init__(self) -> None:
        self.now_ms = wall_clock_ms() - (DAYS + 1) * 24 * HOUR_MS

    def __call__(self) -> int:
        return self.now_ms

    def pass_by(self, *, hours: int) -> None:
        self.now_ms += hours * HOUR_MS


async def test_a_history_thins_out_with_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, bench, snapshot_of = SlowClock(), Workbench(), dict[int, int | None]()
    monkeypatch.setattr("tests.unit.coordinator.workbench.Daemon", partial(Daemon, wall_ms=clock))
    async with bench.daemon():
        await bench.commit(create(properties={"firn.snapshots-max": "24"}))
        for hour in range(DAYS * 24):
            clock.pass_by(hours=1)
            outcome = await bench.commit(append(f"f{hour:03d}"))
            snapshot_of[hour] = outcome.snapshot_id
        metadata, live = await bench.metadata(), await bench.live()
        pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    assert live == [f"f{hour:03d}" for hour in range(DAYS * 24)]
    hours = [hour for hour, snapshot_id in snapshot_of.items() if metadata.snapshot_by_id(snapshot_id or 0) is not None]
    assert 24 <= len(hours) == len(metadata.snapshots) <= 24 + 24 // 4 + 8
    assert hours[-12:] == list(range(DAYS * 24 - 12, DAYS * 24)), "the newest are all there"
    now_ms = metadata.last_updated_ms
    days = {one.timestamp_ms // (24 * HOUR_MS) for one in metadata.snapshots}
    assert days == set(range(now_ms // (24 * HOUR_MS) - len(days) + 1, now_ms // (24 * HOUR_MS) + 1))
    assert len(days) >= DAYS - 1, "a snapshot of each day"

    made = [snapshot_of[hour] for hour in range(DAYS * 24)]
    for one in metadata.snapshots[1:]:
        assert one.parent_snapshot_id == made[made.index(one.snapshot_id) - 1], "parents stay what they are"
    newest_gap = max(set(range(DAYS * 24)) - set(hours))
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == made[newest_gap + 1 :]
    check_metadata(metadata)
    verdict = check_table(pointer, files=bench.files, limits=bench.limits)
    assert {finding.invariant for finding in verdict.findings} == {"nothing-missing"}, "the data files of this bench"


@pytest.mark.parametrize(
    "properties",
    [
        {"history.expire.max-snapshot-age-ms": str(30 * HOUR_MS)},
        {"history.expire.min-snapshots-to-keep": "30"},
    ],
)
async def test_what_icebergs_retention_keeps_is_not_thinned_out(
    monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    clock, bench, made = SlowClock(), Workbench(), list[int | None]()
    monkeypatch.setattr("tests.unit.coordinator.workbench.Daemon", partial(Daemon, wall_ms=clock))
    async with bench.daemon():
        limit = {"firn.snapshots-max": "4", **properties}
        await bench.commit(create(properties=limit))
        for hour in range(60):
            clock.pass_by(hours=1)
            made.append((await bench.commit(append(f"f{hour:03d}"))).snapshot_id)
        metadata = await bench.metadata()
    assert [one.snapshot_id for one in metadata.snapshots][-30:] == made[-30:]
    assert len(metadata.snapshots) < 60


async def test_what_was_rolled_back_from_or_staged_stays_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, bench, rolled_back = SlowClock(), Workbench(), list[int | None]()
    monkeypatch.setattr("tests.unit.coordinator.workbench.Daemon", partial(Daemon, wall_ms=clock))
    async with bench.daemon():
        await bench.commit(create(properties={"firn.snapshots-max": "4"}))
        base = await bench.commit(append("base"))
        for number in range(5):
            rolled_back.append((await bench.commit(append(f"wrong{number}"))).snapshot_id)
        await bench.commit(Rollback(intent_id=new_id(), table=TABLE, snapshot_id=base.snapshot_id))
        staged = await bench.commit(append("staged", stage=True))
        for hour in range(40):
            clock.pass_by(hours=1)
            await bench.commit(append(f"f{hour:03d}"))
        before = {one.snapshot_id for one in (await bench.metadata()).snapshots}
        for hour in range(100):
            clock.pass_by(hours=1)
            await bench.commit(append(f"g{hour:03d}"))
        after = await bench.metadata()
    beside = {*rolled_back, staged.snapshot_id}
    assert beside <= before
    assert not beside & {one.snapshot_id for one in after.snapshots}, "they are older than five days"
    assert len(after.snapshots) <= 4 + 1 + 8


# ---------------------------------------------------------------------------------------------------------------------
# The streams, which tell what waits, cannot be read


class Blind:
    """The streams of a daemon while they give no answer about what waits; `asked` counts the questions."""

    def __init__(self, daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
        self.asked = 0
        patch.setattr(daemon._waiting, "holds", self.holds)

    async def holds(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        raise Unavailable("Redis does not answer")


@pytest.mark.parametrize("together", [False, True])
async def test_a_commit_does_not_wait_for_an_expiry_that_cannot_be_planned(
    monkeypatch: pytest.MonkeyPatch, *, together: bool
) -> None:
    bench = Workbench()
    other = "db.other"
    async with bench.daemon() as daemon:
        for table in (TABLE, other):
            await bench.commit(create(table, properties={"firn.snapshots-max": "10"}))
        with monkeypatch.context() as patch:
            blind = Blind(daemon, patch)
            for number in range(COUNT // 2):
                appends = [append(f"f{number}", table=table) for table in (TABLE, other)]
                for intent in [transaction(*appends)] if together else appends:
                    await bench.commit(intent)
            assert blind.asked > 0
            for table in (TABLE, other):
                assert len((await bench.metadata(table)).snapshots) == COUNT // 2
        for number in range(20):
            await bench.commit(append(f"g{number}"))
        assert len((await bench.metadata()).snapshots) <= 10 + 2 + 9


async def test_an_expiry_that_is_asked_for_waits_until_it_is_known_what_others_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Workbench()
    asked = ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=2**62)
    async with bench.daemon() as daemon:
        await bench.commit(create())
        for number in range(3):
            await bench.commit(append(f"f{number}"))
        with monkeypatch.context() as patch:
            blind = Blind(daemon, patch)
            await bench.send(asked)
            async with asyncio.timeout(10):
                while not blind.asked:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.005)
            assert await bench.streams.outcome(asked.intent_id) is None
        outcome = await bench.outcome(asked, timeout_s=30)
    assert isinstance(outcome, Committed)
    assert outcome.details["removed-count"] == 2
