"""Histories that have lost or doubled rows in other systems; each is a promise here."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from firn.coordinator.commits.commit import Plan, Prepared, prepare
from firn.coordinator.pending import Pending
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.identifiers import uuid7
from firn.model.intent import Intent, digest_of
from firn.model.intent_codec import DecodedIntent
from firn.model.manifest import Status
from firn.model.operations.refs import CreateBranch
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.outcome import Committed, Rejected
from firn.storage.intent_streams import Entry
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Pointers
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows, field_is, ref
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, content_file, new_id

TESTS = Path(__file__).parents[3]
TEN = tuple((id, "eu") for id in range(10))


@pytest.mark.parametrize("how", ["overwrite", "replace"])
async def test_case_1_the_base_is_what_was_planned_on_not_the_head(how: str) -> None:
    """Elsewhere the base was taken when committing: both statements succeeded, and deleted rows came back."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        planned = await table.commit(table.append(file))
        won = await table.commit(table.delta(planned, table.vector(file, 3)))
        rewritten = table.data(*TEN)
        late = (
            table.overwrite(planned, [rewritten], [file], isolation="snapshot")
            if how == "overwrite"
            else table.replace(planned, [file], [rewritten])
        )
        lost = await table.refused(late)
    assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", won)
    assert 3 not in await table.ids()


async def test_case_2_there_are_never_two_vectors_on_a_data_file() -> None:
    """Elsewhere the check looked at the query's filter only; readers refuse such a table."""
    bench = Gathering()
    blocker = content_file("blocker")
    bench.files.create(blocker.file_path, bytes(blocker.file_size_in_bytes))
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        filters = [field_is("id", 4), field_is("id", 5), False]
        deltas = [
            table.delta(base, table.vector(file, position), conflict_filter=filter)
            for position, filter in zip((4, 5, 6), filters, strict=True)
        ]
        outcomes = await bench.gathered(daemon, *deltas)
        assert [getattr(outcome, "rule", None) for outcome in outcomes] == ["new-data", "new-data", None]
        await table.commit(table.delta(base, table.vector(file, 7), conflict_filter=False))
        await table.commit(table.delete(content_file("blocker")))
        vectors = await table.delete_files()
        assert await table.unsound() == ()
    assert len(vectors) == 1
    assert await table.ids() == [0, 1, 2, 3, 4, 5, 8, 9]


async def test_case_3_a_rewrite_that_has_applied_deletes_does_not_undo_a_newer_one() -> None:
    """Elsewhere only "the files exist" was checked, which a deletion vector does not change."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        await table.commit(table.append(file))
        old = table.vector(file, 0)
        planned = await table.commit(table.delta((await table.snapshot()).snapshot_id, old))  # type: ignore[union-attr]
        await table.commit(table.delta(planned, table.vector(file, 0, 5), removed_delete_files=(ref(old),)))
        lost = await table.refused(table.replace(planned, [file], [table.data(*TEN[1:])]))
        assert lost.rule == "new-deletes"
        assert await table.ids() == [1, 2, 3, 4, 6, 7, 8, 9]


async def test_case_3_a_vector_that_a_rewrite_has_added_counts_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        await table.commit(table.append(file))
        old = table.vector(file, 0)
        planned = await table.commit(table.delta((await table.snapshot()).snapshot_id, old))  # type: ignore[union-attr]
        moved: dict[str, Any] = {"removed_delete_files": (ref(old),), "delete_files": (table.vector(file, 0, 1),)}
        await table.commit(table.replace(planned, [], **moved))
        lost = await table.refused(table.replace(planned, [file], [table.data(*TEN[1:])]))
    assert lost.rule == "new-deletes"


@pytest.mark.parametrize("keeps_age", [True, False])
async def test_case_4_a_rewrite_with_equality_deletes_meanwhile_keeps_its_age_or_is_refused(keeps_age: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*TEN)
        planned = await table.committed(table.append(file))
        base = planned.snapshot_id or 0
        await table.commit(table.delta(base, table.equality(3)))
        number = planned.sequence_number if keeps_age else None
        rewrite = table.replace(base, [file], [table.data(*TEN)], data_sequence_number=number)
        (outcome,) = await bench.settle(rewrite)
    assert isinstance(outcome, Committed) is keeps_age
    assert 3 not in await table.ids()


async def test_case_5_two_checkpoints_with_equality_deletes_are_two_snapshots() -> None:
    """Elsewhere they were squashed into one: rows of the first were not deleted by the second."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "old"))))
        checkpoints = [
            table.delta(None, table.equality(1), added=[table.data((1, version))]) for version in ("first", "second")
        ]
        outcomes = await bench.gathered(daemon, *checkpoints)
        numbers = [outcome.sequence_number for outcome in outcomes if isinstance(outcome, Committed)]
        assert len(set(numbers)) == 2
        live = [(e.data_file.content, e.sequence_number) for e in await table.entries()]
        # The second checkpoint's delete is younger than the row of the first.
        assert ("equality-deletes", numbers[1]) in live
        assert ("data", numbers[0]) in live
        await table.commit(table.delete(content_file("blocker")))
    assert await table.rows() == [(1, "second")]


async def test_case_6_deletes_are_compared_with_the_base_not_with_the_head() -> None:
    """A delete of sequence number 2, the head at 3, the base at 1: compared with 3 it would pass."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.committed(table.append(file))
        planned = base.snapshot_id or 0
        deleted = await table.committed(table.delta(planned, table.vector(file, 3)))
        head = await table.committed(table.append(table.data((50, "us"))))
        assert (base.sequence_number, deleted.sequence_number, head.sequence_number) == (1, 2, 3)
        overwrites = table.overwrite(planned, [table.data(*TEN)], [file], isolation="snapshot")
        rewrites = table.replace(planned, [file], [table.data(*TEN)])
        for late in (overwrites, rewrites):
            lost = await table.refused(late)
            assert (lost.rule, lost.conflicting_snapshot_id) == ("new-deletes", deleted.snapshot_id)


async def test_case_7_what_holds_on_one_branch_does_not_stand_for_another() -> None:
    """Elsewhere requirements were kept one of a kind: the second branch was never looked at, and lost an update."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        file = table.data(*TEN)
        base = await table.commit(table.append(file))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="dev", snapshot_id=base))
        won = await table.commit(table.delta(base, table.vector(file, 3), branch="dev"))
        both = [
            table.overwrite(base, [table.data(*TEN)], [file], isolation="snapshot", branch=branch)
            for branch in ("main", "dev")
        ]
        on_main, on_dev = await bench.gathered(daemon, *both, blocker="elsewhere")
    assert isinstance(on_main, Committed)
    assert isinstance(on_dev, Rejected)
    assert (on_dev.rule, on_dev.conflicting_snapshot_id) == ("new-deletes", won)


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_case_8_nothing_is_deleted_after_a_swap_without_an_answer(lost: Literal["before", "after"]) -> None:
    """Elsewhere the retry cleaned up after the attempt that had come off: the table had no manifest list any more."""
    bench = Workbench()
    gone: list[str] = []

    def delete(location: str) -> None:
        gone.append(location)

    bench.files.delete = delete  # type: ignore[method-assign]
    async with bench.daemon("a") as daemon:
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*TEN)))
        bench.sessions["a"].drop_next_write(lost)
        await table.commit(table.append(table.data((50, "us"))))
        await table.commit(table.append(table.data((51, "us"))))
        assert daemon.metrics.unknown_swaps._value.get() == 1
        assert await table.unsound() == ()
    assert gone == []
    assert await table.ids() == [*range(10), 50, 51]


async def test_case_9_a_lost_answer_and_the_same_intent_again_bring_its_files_once() -> None:
    """Elsewhere the second request was a second append. Here the answer is lost with Redis, and the daemon with it."""
    bench = Workbench()
    async with bench.daemon("a"):
        table = await RealRows.create(bench)
        intent = table.append(table.data(*TEN))
        bench.sessions["a"].drop_next_write("after")
        told = await table.committed(intent)
    bench.redis.flush_all()
    async with bench.daemon("b"):
        assert await table.committed(intent) == told
        assert await table.unsound() == ()
    assert await table.ids() == list(range(10))


async def test_case_11_an_epoch_is_known_after_its_snapshot_was_expired() -> None:
    """Elsewhere watermarks are in snapshot summaries only: an old epoch that is planned anew is written again."""
    bench = Workbench()
    async with bench.daemon("a"):
        table = await RealRows.create(bench)
        epoch = await table.commit(table.append(table.data(*TEN), writer="etl", writer_sequence=7))
        await table.commit(table.append(table.data((50, "us"))))
        await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, snapshot_ids=(epoch,)))
        assert (await table.metadata()).snapshot_by_id(epoch) is None
    bench.redis.flush_all()
    async with bench.daemon("b"):
        again, older = (table.append(table.data(*TEN), writer="etl", writer_sequence=n) for n in (7, 6))
        assert await table.commit(again) == epoch
        assert (await table.refused(older)).rule == "writer-sequence-passed"
    assert await table.ids() == [*range(10), 50]


async def test_case_13_rows_keep_their_ids_through_merges_removals_and_rewritten_manifests() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, properties={"commit.manifest.min-count-to-merge": "3"})
        files = []
        for start in range(0, 70, 10):
            file = table.data(*((id, "eu") for id in range(start, start + 10)))
            files.append(file)
            await table.commit(table.append(file))
            await bench.merged()
        before = await table.row_ids()
        assert len(set(before.values())) == 70
        base = (await table.snapshot()).snapshot_id  # type: ignore[union-attr]
        await table.commit(table.delete(files[2]))
        await table.commit(table.delta(base, table.vector(files[3], 0), isolation="snapshot"))
        await table.commit(table.overwrite(base, [table.data((500, "eu"))], [files[4]], isolation="snapshot"))
        after = await table.row_ids()
        merged = [e for e in await table.entries() if e.status is Status.EXISTING]
        assert await table.unsound() == ()
    assert merged
    assert after.pop(500) not in before.values()
    assert after == {id: before[id] for id in after}


async def test_case_13_the_first_row_id_is_assigned_anew_when_an_intent_is_replayed() -> None:
    """The manifest of an attempt that lost is kept, the row ids are not: another commit has taken them."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data((1, "eu"), (2, "eu"))))
        delta = table.delta(None, table.equality(77), added=[table.data((3, "eu"))])
        plan = _plan(bench, delta)
        lost = await _attempt(bench, plan, 0)
        await table.commit(table.append(table.data((4, "eu"), (5, "eu"))))
        won = await _attempt(bench, plan, 1)
        first, second = (attempt.parts[0].working.snapshots[-1].snapshot for attempt in (lost, won))
    assert (first.snapshot_id, first.first_row_id, first.sequence_number) == (second.snapshot_id, 2, 2)
    assert (second.first_row_id, second.sequence_number) == (4, 3)
    data = [manifest for manifest in won.parts[0].working.snapshots[-1].manifests if manifest.content == "data"]
    written = {path for path, _ in won.files if path.endswith(".avro")}
    assert len(data) == 3
    kept = plan.written.values()
    assert {manifest.manifest_path for manifest in kept} & {path for path, _ in lost.files}
    assert not {manifest.manifest_path for manifest in kept} & written


def _plan(bench: Workbench, intent: Intent) -> Plan:
    decoded = DecodedIntent(intent, digest_of(intent), 0)
    entry = Entry(shard=0, entry_id="1-0", payload=b"", deliveries=1)
    pending = Pending(decoded=decoded, entry=entry, epoch="e", entry_ms=0, taken_at=time.monotonic())
    return Plan(
        daemon="d", batch=new_id(), pendings=(pending,), limits=bench.limits, written={},
        placement=Placement(warehouse=WAREHOUSE, allowed=(WAREHOUSE,)),
    )  # fmt: skip


async def _attempt(bench: Workbench, plan: Plan, number: int) -> Prepared:
    """One attempt on what the table is now, up to the swap."""
    reader = TableReader(bench.files, limits=bench.limits)
    journal = JournalFiles(bench.files, bytes_max=bench.limits.journal_bytes_max)
    state = TableState(TABLE, reader=reader, journal=journal, limits=bench.limits)
    state.load(await Pointers(bench.zookeeper.connect()).read(TABLE))
    token = uuid7(now_ms=number, entropy=bytes([number]) * 10)
    attempt = Attempt(batch=plan.batch, token=token, number=number, now_ms=1_700_000_000_000)
    return prepare(plan, state, reader=reader, attempt=attempt, retried=(), lock_token=1, clock=time.monotonic)


async def test_case_14_groups_of_one_compaction_do_not_conflict_with_each_other() -> None:
    """All groups were planned on one snapshot; each finds the others' commits in its window."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        files = [table.data((2 * n, "eu")) for n in range(8)]
        base = await table.commit(table.append(*files))
        groups = [
            table.replace(base, [one, two], [table.data(*((id, "eu") for id in (4 * n, 4 * n + 2)))])
            for n, (one, two) in enumerate(list(pairwise(files))[::2])
        ]
        outcomes = await bench.gathered(daemon, *groups[:3])
        assert all(isinstance(outcome, Committed) for outcome in outcomes)
        await table.commit(groups[3])
        live = [e.data_file for e in await table.entries() if not e.data_file.file_path.endswith("blocker.parquet")]
    assert [file.record_count for file in live] == [2, 2, 2, 2]


def test_each_of_the_fifteen_cases_has_a_test_of_its_name() -> None:
    """Those that are about the parts around replay are where these are tested."""
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    named = {int(number) for text in texts for number in re.findall(r"def test_case_(\d+)_", text)}
    assert named == set(range(1, 16))
