"""Pointers rebuilt from table storage: what was committed is there, what was not is not, and every answer survives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.coordinator.daemon import wall_clock_ms
from firn.coordinator.fsck.run import check_table
from firn.coordinator.recovery.heads import Witness
from firn.coordinator.recovery.run import Found, Storage, restore, survey
from firn.model.intent import Intent
from firn.model.journal import Retried, Segment
from firn.model.operations.tables import DropTable, RenameTable
from firn.model.operations.upkeep import SetLocation, UpdateProperties
from firn.storage.files import FileStore
from firn.storage.journal import JournalFiles, pack_segment
from firn.storage.memory_coordination import MemoryZooKeeper
from firn.storage.memory_streams import MemoryRedis
from firn.storage.pauses import Pauses
from firn.storage.pointers import Pointer, Pointers
from tests.unit.coordinator.transactions.ledger import A, B, transaction, with_tables
from tests.unit.coordinator.view_intents import new_view
from tests.unit.coordinator.workbench import (
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    decision,
    delete,
    new_id,
)

NEW = "db.renamed"


def blind(_link: object) -> None:
    """Redis has nothing to say."""


def find(bench: Workbench, *, witness: Witness = blind, existing: frozenset[str] = frozenset()) -> dict[str, Found]:
    storage = Storage(bench.files, limits=bench.limits)
    found = survey(storage, storage.journals([bench.warehouse]), existing=existing, witness=witness)
    return {one.table: one for one in found.tables}


async def pointers(bench: Workbench) -> dict[str, Pointer]:
    reading = Pointers(bench.zookeeper.connect())
    return {name: (await reading.read(name)).pointer for name in await reading.list()}


def lose_servers(bench: Workbench, *, redis: bool = True) -> None:
    """Redis and ZooKeeper begin anew, with nothing in them."""
    bench.zookeeper = MemoryZooKeeper(now_ms=wall_clock_ms)
    if redis:
        bench.redis = MemoryRedis()
        bench.streams = bench.redis.connect(names=bench.names)


async def recover(bench: Workbench) -> None:
    session = bench.zookeeper.connect()
    making, pauses = Pointers(session), Pauses(session)
    for one in find(bench).values():
        if one.finding == "restore":
            assert one.pointer is not None
            await restore(making, pauses, one.pointer)


@pytest.mark.parametrize("purge", [True, False])
async def test_a_dropped_table_is_known_to_be_dropped_since_when_and_whether_it_is_to_be_purged(*, purge: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE, purge=purge))
        await bench.refuse(append("late"))
    before = (await pointers(bench))[TABLE]
    lose_servers(bench)
    await recover(bench)
    after = (await pointers(bench))[TABLE]
    assert before.dropped_ms is not None
    assert (after.dropped, after.dropped_ms, after.purge) == (True, before.dropped_ms, purge)


async def heads_journal(bench: Workbench, table: str = TABLE) -> Segment:
    return (await bench.journal(table))[-1]


def without_streams(pointer: Pointer) -> Pointer:
    """The pointer without what is of no consequence: watermarks, and of what is gone the digest of a file."""
    kept = msgspec.structs.replace(pointer, watermarks={})
    return msgspec.structs.replace(kept, metadata_digest=None) if kept.dropped else kept


def written(bench: Workbench, segment: Segment, *, name: str, **batch: Any) -> Segment:
    """Put a segment beside another one, as a swap would that never came off."""
    location = f"{segment.location.rpartition('/')[0]}/{name}.jsonl.gz"
    changed = msgspec.structs.replace(segment.batch, **batch)
    made = msgspec.structs.replace(segment, location=location, batch=changed)
    bench.files.create(location, pack_segment(made))
    return made


async def test_every_kind_of_pointer_comes_back_as_it_was() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B, "db.gone", "db.old")
        await bench.commit(create("db.files", catalog="file-system"))
        await bench.commit(append("f", table="db.files"))
        await bench.commit(append("a", table=A))
        await bench.refuse(delete("none", table=A))
        await bench.commit(transaction(append("t", table=A), append("t", table=B)))
        await bench.commit(SetLocation(intent_id=new_id(), table=B, location=f"{WAREHOUSE}/elsewhere"))
        beside = {"write.data.path": f"{WAREHOUSE}/beside"}
        await bench.commit(UpdateProperties(intent_id=new_id(), table=B, updates=beside))
        await bench.commit(append("o", table="db.old"))
        await bench.commit(RenameTable(intent_id=new_id(), table="db.old", new_name=NEW))
        await bench.refuse(append("late", table="db.old"))
        await bench.commit(DropTable(intent_id=new_id(), table="db.gone"))
        await bench.refuse(append("late", table="db.gone"))
        await bench.commit(new_view())
    before = await pointers(bench)
    found = find(bench)
    assert {name: one.finding for name, one in found.items()} == dict.fromkeys(before, "restore")
    for name, pointer in before.items():
        restored = found[name].pointer
        assert restored is not None
        assert without_streams(restored) == without_streams(pointer), name
    assert before["db.old"].renamed_to == NEW
    assert before[B].also_at != ()


async def test_after_the_loss_of_all_servers_everything_is_answered_and_goes_on() -> None:
    bench = Workbench()
    old: list[tuple[Intent, Any]] = []

    async def sent(intent: Intent) -> None:
        (outcome,) = await bench.settle(intent)
        old.append((intent, outcome))

    async with bench.daemon():
        await sent(create())
        for name in ("a", "b"):
            await sent(append(name))
        await sent(append("a"))  # refused: it is there
        await sent(append("c", writer="stream", writer_sequence=7))
    before = await bench.live()
    lose_servers(bench)
    await recover(bench)
    async with bench.daemon("b"):
        for intent, outcome in old:
            (again,) = await bench.settle(intent)
            assert decision(again) == decision(outcome)
        await bench.commit(append("d"))
        assert await bench.live() == sorted([*before, "d"])
        again = await bench.commit(append("e", writer="stream", writer_sequence=7))
        assert again.snapshot_id == old[-1][1].snapshot_id, "the epoch was taken before the loss"
        assert await bench.live() == sorted([*before, "d"])
    pointer = (await pointers(bench))[TABLE]
    verdict = check_table(pointer, files=bench.files, limits=bench.limits)
    assert [f for f in verdict.findings if f.message != "the data file is gone"] == []


async def test_a_segment_whose_files_are_not_all_there_was_never_swapped_in() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    torn = written(
        bench, head, name=f"{head.batch.sequence + 1:010d}-torn", sequence=head.batch.sequence + 1,
        previous_segment=head.location, base_metadata=head.batch.new_metadata,
        new_metadata=f"{WAREHOUSE}/db/events/metadata/00009-lost.metadata.json",
    )  # fmt: skip
    one = find(bench)[TABLE]
    assert one.pointer is not None
    assert (one.pointer.journal_head, one.certainty) == (head.location, "proven")
    assert one.passed_over == (torn.location,)


async def test_a_segment_that_is_cut_is_no_segment() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    head = await heads_journal(bench)
    data = bench.files.read(head.location, bytes_max=1 << 20)
    bench.files.create(head.location.replace("0000000001-", "0000000002-cut-"), data[: len(data) // 2])
    storage = Storage(bench.files, limits=bench.limits)
    found = survey(storage, storage.journals([WAREHOUSE]), existing=(), witness=blind)
    assert len(found.torn) == 1
    assert found.tables[0].journal_number == 1


async def test_beside_a_proven_head_a_cut_segment_of_its_number_means_nothing() -> None:
    """Only one of a number was swapped in; where nothing proves which, the cut one is named."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    head = await heads_journal(bench)
    cut = head.location.replace("0000000001-", "0000000001-cut-")
    bench.files.create(cut, b"")
    assert cut in " ".join(find(bench)[TABLE].evidence)
    one = find(bench, witness=lambda _: "told")[TABLE]
    assert (one.certainty, cut in " ".join(one.evidence)) == ("proven", False)


async def test_a_newer_segment_that_cannot_be_read_casts_doubt_on_the_head_and_is_named() -> None:
    """Half written when all was lost, or committed and damaged since: nobody can tell, so somebody has to look."""
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(transaction(append("t", table=A), append("t", table=B)))
        await bench.commit(append("u", table=B))
        await bench.commit(append("u", table=A))
    damaged = await heads_journal(bench, A)
    assert find(bench)[A].journal_number == 3
    bench.files.replace(damaged.location, b"damaged")
    found = find(bench)
    assert (found[A].journal_number, found[A].certainty) == (2, "taken")
    assert damaged.location in " ".join(found[A].evidence)
    assert damaged.location not in " ".join(found[B].evidence)


async def test_of_two_of_one_number_the_later_lock_decides() -> None:
    """Who took the lock later has read the pointer, and would have built on the other's segment had it been swapped."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    early = written(bench, head, name="0000000002-zombie", lock_token=head.batch.lock_token - 1)
    one = find(bench)[TABLE]
    assert one.pointer is not None
    assert (one.pointer.journal_head, one.certainty) == (head.location, "taken")
    assert one.passed_over == (early.location,)
    assert "later lock" in " ".join(one.evidence)


async def test_tokens_of_a_zookeeper_that_was_lost_before_outvote_nobody() -> None:
    """After an earlier recovery tokens began anew: an old leftover has a greater one, and an older time."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    written(
        bench, head, name="0000000002-leftover", lock_token=head.batch.lock_token + 1_000, timestamp_ms=1,
        new_metadata=f"{WAREHOUSE}/db/events/metadata/00009-lost.metadata.json",
    )  # fmt: skip
    one = find(bench)[TABLE]
    assert one.pointer is not None
    assert one.pointer.journal_head == head.location


async def test_an_attempt_that_the_next_one_calls_lost_is_not_taken() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    retried = msgspec.structs.replace(head, retried=(Retried(attempt=0, reason="lost"),))
    gone = {"new_metadata": f"{WAREHOUSE}/db/events/metadata/00009-lost.metadata.json"}
    written(bench, retried, name="0000000002-second", **gone)
    one = find(bench)[TABLE]
    assert one.pointer is not None
    assert one.journal_number == 1
    assert head.location in one.passed_over


async def test_a_transaction_is_taken_whole_or_not_at_all() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(transaction(append("t", table=A), append("t", table=B)))
    part = await heads_journal(bench, B)
    assert {name: one.journal_number for name, one in find(bench).items()} == {A: 2, B: 2}
    bench.files.delete(part.location)
    found = find(bench)
    assert {name: one.journal_number for name, one in found.items()} == {A: 1, B: 1}
    assert "its part in db.b is missing" in " ".join(found[A].evidence)


async def test_a_transaction_whose_other_table_went_on_is_proven() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
        await bench.commit(transaction(append("t", table=A), append("t", table=B)))
        await bench.commit(append("u", table=B))
    found = find(bench)
    assert (found[A].journal_number, found[A].certainty) == (2, "proven")
    assert found[B].journal_number == 3


async def test_what_redis_still_knows_decides() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    written(bench, head, name="0000000002-rival", lock_token=head.batch.lock_token + 1)
    by_lock = find(bench)[TABLE]
    assert by_lock.pointer is not None
    assert by_lock.pointer.journal_head != head.location
    by_event = find(bench, witness=lambda link: "told" if link.location == head.location else None)[TABLE]
    assert by_event.pointer is not None
    assert (by_event.pointer.journal_head, by_event.certainty) == (head.location, "proven")


async def test_a_file_system_table_is_its_newest_version_whoever_made_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog="file-system"))
        await bench.commit(append("a"))
    head = await heads_journal(bench)
    written(
        bench, head, name="0000000003-unput", sequence=3, previous_segment=head.location,
        base_metadata=head.batch.new_metadata, new_metadata=f"{WAREHOUSE}/db/events/metadata/v3.metadata.json",
    )  # fmt: skip
    one = find(bench)[TABLE]
    assert one.pointer is not None
    assert (one.pointer.catalog, one.pointer.journal_head) == ("file-system", head.location)
    newest = bench.files.read(one.pointer.metadata_location, bytes_max=1 << 20)
    foreign = one.pointer.metadata_location.replace("/v2.", "/v3.")
    bench.files.create(foreign, newest)
    again = find(bench)[TABLE]
    assert again.pointer is not None
    assert (again.pointer.metadata_location, again.pointer.journal_head) == (foreign, head.location)


async def test_a_backup_beside_the_table_is_left_out() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
    before = (await pointers(bench))[TABLE]
    copy(bench.files, f"{WAREHOUSE}/db/events", f"{WAREHOUSE}/backup/events")
    storage = Storage(bench.files, limits=bench.limits)
    found = survey(storage, storage.journals([WAREHOUSE]), existing=(), witness=blind)
    assert len(found.copies) == 2
    assert found.tables[0].pointer is not None
    assert found.tables[0].pointer.metadata_location == before.metadata_location


def copy(files: FileStore, source: str, target: str) -> None:
    for info in list(files.list(source)):
        files.create(target + info.location[len(source) :], files.read(info.location, bytes_max=1 << 24))


@pytest.mark.parametrize("missing", ["segment", "metadata", "manifest-list"])
async def test_a_table_that_is_not_whole_is_not_restored_and_says_what_is_missing(missing: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(append("a"))
        await bench.commit(append("b"))
    journal = await bench.journal()
    if missing == "segment":
        gone = journal[0].location
    elif missing == "metadata":
        gone = journal[-1].batch.new_metadata or ""
    else:
        snapshot = (await bench.metadata()).current_snapshot
        assert snapshot is not None
        gone = snapshot.manifest_list or ""
    bench.files.delete(gone)
    one = find(bench, witness=lambda link: "told" if link.location == journal[-1].location else None)[TABLE]
    assert (one.finding, one.pointer) == ("damaged", None)
    assert gone in (one.trouble or "")
    assert first.snapshot_id is not None


async def test_pointers_that_are_there_are_left_alone() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A, B)
    found = find(bench, existing=frozenset({A}))
    assert {name: one.finding for name, one in found.items()} == {A: "exists", B: "restore"}


async def test_a_table_that_was_never_made_stays_unmade() -> None:
    """Its first swap was written and could not be: no file of its metadata is there."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    bench.files.delete((await pointers(bench))[TABLE].metadata_location)
    one = find(bench)[TABLE]
    assert (one.finding, one.pointer) == ("nothing", None)


def test_a_place_without_journals_has_no_tables() -> None:
    assert find(Workbench()) == {}


async def test_journals_are_read_by_name_not_by_folder() -> None:
    """Two journals in one folder, as a rename leaves them, and a new table under the old name beside it."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        await bench.commit(RenameTable(intent_id=new_id(), table=TABLE, new_name=NEW))
        await bench.commit(create())
        await bench.commit(RenameTable(intent_id=new_id(), table=NEW, new_name="db.third"))
        await bench.commit(append(table="db.third", data_files=(content_file("b"),)))
    before = {name: without_streams(pointer) for name, pointer in (await pointers(bench)).items()}
    after = {name: one.pointer for name, one in find(bench).items()}
    assert set(after) == set(before)
    for name, pointer in after.items():
        assert pointer is not None
        assert without_streams(pointer) == before[name]
    lose_servers(bench)
    await recover(bench)
    journal = JournalFiles(bench.files, bytes_max=bench.limits.journal_bytes_max)
    for pointer in (await pointers(bench)).values():
        assert [s.batch.table for s in journal.walk(pointer.journal_head)][-1] == pointer.table
    async with bench.daemon("b"):
        await bench.commit(append(table="db.third", data_files=(content_file("c"),)))
