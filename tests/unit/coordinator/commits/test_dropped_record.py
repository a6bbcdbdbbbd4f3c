"""What swaps drop goes on record, all of it and once, in few files; and a commit never fails for a record."""

from __future__ import annotations

import pytest

from firn.coordinator.commits.dropped_record import MERGED_SNAPSHOTS_MAX, MERGED_SPAN_MS, _Draft
from firn.model.dropped_snapshots import Header, Record, RecordRef
from firn.model.errors import NotFound
from firn.model.metadata import TableMetadata
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties
from firn.model.outcome import Committed
from firn.model.table_properties import DROPPED_SNAPSHOTS
from firn.storage.dropped_snapshots import RecordFiles, is_record
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id, replace

HOUR_MS = 3_600_000


def records_of(bench: Workbench, metadata: TableMetadata) -> list[Record]:
    """The records that a table names, newest first."""
    reader = RecordFiles(bench.files, bytes_max=bench.limits.journal_bytes_max)
    newest = reader.read(metadata.properties[DROPPED_SNAPSHOTS], table_uuid=metadata.table_uuid)
    earlier = [reader.read(one.location, table_uuid=metadata.table_uuid) for one in newest.header.earlier]
    assert [one.ref for one in earlier] == list(newest.header.earlier)
    return [newest, *earlier]


def record_files(bench: Workbench) -> set[str]:
    return {info.location for info in bench.files.list(bench.warehouse) if is_record(info.location)}


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_what_commits_drop_is_on_record_once_and_commits_that_drop_nothing_write_no_record(catalog: str) -> None:
    bench = Workbench()
    made: list[int] = []
    async with bench.daemon():
        await bench.commit(create(properties={"firn.snapshots-max": "4"}, catalog=catalog))
        written = []
        for number in range(60):
            outcome = await bench.commit(append(f"f{number}"))
            assert outcome.snapshot_id is not None
            made.append(outcome.snapshot_id)
            written.append(len(record_files(bench)))
        metadata = await bench.metadata()
    records = records_of(bench, metadata)
    kept = [snapshot.snapshot_id for snapshot in metadata.snapshots]
    listed = [one.snapshot_id for record in records[::-1] for one in record.snapshots()]
    assert listed == made[: len(made) - len(kept)]
    assert 1 < written[-1] < 12, "one for each cut, not for each commit"
    assert len(records) <= 4
    assert {place for record in records for place in (record.location, *record.header.merged)} == record_files(bench)


async def test_snapshots_from_the_middle_are_on_record_in_the_order_in_which_they_went() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        ids = [(await bench.commit(append(f"f{number}"))).snapshot_id for number in range(7)]
        for picked in ([ids[3], ids[1]], [ids[4]], [ids[0], ids[2]]):
            numbers = tuple(number for number in picked if number is not None)
            await bench.commit(
                ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=numbers, older_than_ms=0, retain_last=100)
            )
        metadata = await bench.metadata()
    listed = [one for record in records_of(bench, metadata)[::-1] for one in record.snapshot_ids]
    assert listed == [ids[1], ids[3], ids[4], ids[0], ids[2]]


@pytest.mark.parametrize("broken", ["gone", "garbage"])
async def test_a_commit_goes_on_without_the_records_before_and_the_next_refusal_says_why(broken: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"firn.snapshots-max": "2"}))
        first = (await bench.commit(append("base"))).snapshot_id
        assert first is not None
        for number in range(16):
            await bench.commit(append(f"f{number}"))
        for place in record_files(bench):
            bench.files.delete(place)
            if broken == "garbage":
                bench.files.create(place, b"garbage")
    async with bench.daemon("b"):
        for number in range(16, 32):
            await bench.commit(append(f"f{number}"))
        refused = await bench.refuse(replace(["base"], ["b2"], base=first))
        assert isinstance((await bench.settle(append("more")))[0], Committed)
        header = records_of(bench, await bench.metadata())[0].header
    assert refused.rule == "unknown-base"
    assert "not all that the table has dropped is known" in refused.message
    assert header.lost is not None
    assert header.lost in refused.message


async def test_nobody_sets_or_removes_the_property_and_less_than_a_day_is_no_setting() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        tries = [
            {"updates": {DROPPED_SNAPSHOTS: "memory://wh/db/events/metadata/_journal/dropped/x.jsonl.gz"}},
            {"removals": (DROPPED_SNAPSHOTS,)},
            {"updates": {"firn.base-hours": "23"}},
            {"updates": {"firn.base-hours": "745"}},
        ]
        rules = [
            (await bench.refuse(UpdateProperties(intent_id=new_id(), table=TABLE, **members))).rule  # type: ignore[arg-type]
            for members in tries
        ]
    assert rules == ["reserved-property", "reserved-property", "invalid-property", "invalid-property"]


class Shelf:
    """Records in memory, in place of a reader."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.reads = 0

    def dropped_snapshots(self, location: str, *, table_uuid: str) -> Record:
        self.reads += 1
        if location not in self.records:
            raise NotFound(location)
        return self.records[location]

    def write(self, number: int, count: int, *, at_ms: int, hours: int = 24) -> Record:
        ids = list(range(number * 10_000, number * 10_000 + count))
        header = Header(table_uuid="u", since_ms=at_ms, until_ms=at_ms)
        draft = _Draft(self, header, ids, [b"{}"] * count)  # type: ignore[arg-type]
        newest = max(self.records, default=None, key=lambda one: self.records[one].header.until_ms)
        draft.follow(newest, needed_from_ms=at_ms - hours * HOUR_MS)
        name = f"{number:05}"
        record = Record(location=name, header=draft.header, snapshot_ids=tuple(draft.snapshot_ids), lines=draft.lines)
        self.records[name] = record
        return record


@pytest.mark.parametrize("count", [1, 16, 250, 5_000])
def test_a_busy_day_makes_few_records_and_writes_each_snapshot_few_times(count: int) -> None:
    shelf = Shelf()
    cuts = 2_000 if count < 100 else 400
    every_ms = 24 * HOUR_MS // cuts
    written = 0
    for number in range(cuts):
        written += len(shelf.write(number, count, at_ms=number * every_ms).snapshot_ids)
    newest = max(shelf.records.values(), key=lambda one: one.header.until_ms)
    refs: list[RecordRef] = [newest.ref, *newest.header.earlier]
    assert sum(ref.count for ref in refs) == cuts * count
    assert len(refs) <= max(cuts * count // (MERGED_SNAPSHOTS_MAX // 4), 24 * 8)
    assert written <= 14 * cuts * count
    assert shelf.reads <= 3 * cuts
    assert max(ref.until_ms - ref.since_ms for ref in refs) <= MERGED_SPAN_MS


def test_records_that_no_base_needs_are_led_to_and_not_named_one_by_one() -> None:
    shelf = Shelf()
    for number in range(10):
        shelf.write(number, 3, at_ms=number * 10 * HOUR_MS)
    newest = shelf.records["00009"]
    assert [one.location for one in newest.header.earlier] == ["00008", "00007"]
    assert newest.header.beyond == "00006"
    assert shelf.records["00006"].header.beyond == "00003"
