"""fsck finds each invariant broken on purpose, names it, and finds nothing where nothing is broken."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.coordinator.fsck.contents import Contents
from firn.coordinator.fsck.exactly_once import exactly_once
from firn.coordinator.fsck.finding import INVARIANTS
from firn.coordinator.fsck.no_doubles import no_doubles
from firn.coordinator.fsck.run import Verdict, check_moving_table, check_table
from firn.model.intent import Append, DropTable
from firn.model.operations.refs import CreateBranch, FastForward
from firn.model.outcome import Committed
from firn.model.view import ViewMetadata
from firn.storage.content_digests import digest_of_bytes
from firn.storage.pointers import Pointer, Pointers
from firn.storage.view_files import encode_view
from tests.unit.coordinator.fsck.broken_tables import (
    Broken,
    a_manifest,
    a_segment,
    beginning_of_the_journal_cut_off,
    bit,
    breaches,
    change,
    changed_snapshot,
    committed_nothing,
    cut,
    data_file,
    decided_twice,
    earlier,
    flipped,
    forgetful_checkpoint,
    gap_in_the_journal,
    gone,
    healthy,
    journal_in_a_circle,
    longer_data_file,
    lost_commit,
    make,
    manifest_listed_twice,
    metadata,
    metadata_in_the_log,
    newest,
    one_intent_more,
    other_predecessor,
    pointer_behind,
    pointer_of_another_table,
    skipped_sequence_number,
    statistics_gone,
    told_of_another_snapshot,
    unknown_batch,
    wrong_change,
    wrong_outcome,
    wrong_totals,
)
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.view_intents import VIEW, new_view, replaced
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, delete, new_id


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_a_table_that_firn_made_holds_every_invariant(format_version):
    table = await healthy(format_version=format_version)
    verdict = table.check()
    assert breaches(verdict) == {}
    assert verdict.ok
    assert (verdict.checked.versions, verdict.checked.snapshots, verdict.checked.files) == (5, 4, 4)
    assert (verdict.checked.segments, verdict.checked.intents) == (6, 6)


async def test_a_dropped_and_a_new_table_of_the_same_name_hold_too():
    bench = Workbench()
    table = await make(bench)
    async with bench.daemon():
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
    table.pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    assert table.pointer.dropped
    assert breaches(table.check()) == {}
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("c"))
    table.pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    assert breaches(table.check()) == {}


async def test_merged_manifests_and_checkpoints_hold_too(monkeypatch):
    monkeypatch.setattr("firn.coordinator.journal.decisions.CHECKPOINT_SEGMENTS", 4)
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"commit.manifest.min-count-to-merge": "3"}))
        for i in range(15):
            await bench.commit(append(f"f{i}"))
            await bench.merged()
            bench.files.create(content_file(f"f{i}").file_path, b"x" * 1000)
        await bench.commit(delete("f3", "f7"))
    table = Broken(bench, (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer)
    assert sum(segment.checkpoint is not None for segment in table.segments) >= 3
    assert breaches(table.check()) == {}


@pytest.mark.parametrize(
    ("break_it", "invariant", "said"),
    [
        (lost_commit, "exactly-once", "which intents were told, is not in it"),
        (decided_twice, "exactly-once", "was decided before"),
        (wrong_outcome, "exactly-once", "has the outcome of"),
        (told_of_another_snapshot, "exactly-once", "adds snapshot"),
        (one_intent_more, "exactly-once", "says that it answers 1, and 2 intents had it"),
        (committed_nothing, "exactly-once", "the table did not change"),
        (unknown_batch, "exactly-once", "which is not in the journal"),
        (forgetful_checkpoint, "exactly-once", "its checkpoint forgets 1 intent,"),
        (pointer_behind, "linear-history", "leads to"),
        (pointer_of_another_table, "linear-history", "the pointer says"),
        (gap_in_the_journal, "linear-history", "has number 6, the one before it has 4"),
        (beginning_of_the_journal_cut_off, "linear-history", "is the journal's first segment and has number 3"),
        (journal_in_a_circle, "linear-history", "runs in a circle"),
        (metadata(last_column_id=2), "linear-history", "last-column-id falls from 3 to 2"),
        (metadata(last_partition_id=0), "linear-history", "last-partition-id falls from 999 to 0"),
        (earlier, "linear-history", "last-updated-ms falls"),
        (metadata(table_uuid="00000000-0000-4000-8000-000000000000"), "linear-history", "its predecessor of"),
        (other_predecessor, "linear-history", "as its predecessor, which is"),
        (changed_snapshot, "linear-history", "changes snapshot"),
        (skipped_sequence_number, "linear-history", "has sequence number 9 after 3"),
        (cut(a_manifest), "content-agrees", "bytes where the manifest list says"),
        (cut(newest), "content-agrees", "snap-"),
        (cut(a_segment), "content-agrees", "journal segment is cut"),
        (bit(a_manifest), "content-agrees", "its bytes are not those that firn wrote"),
        (bit(newest), "content-agrees", "its bytes are not those that firn wrote"),
        (flipped(a_manifest), "content-agrees", "its bytes are not those that firn wrote"),
        (flipped(newest), "content-agrees", "its bytes are not those that firn wrote"),
        (longer_data_file, "content-agrees", "has 1800 bytes, its manifest says 1000"),
        (wrong_totals, "content-agrees", "total-records is 7 in the summary"),
        (wrong_change, "content-agrees", "deleted-data-files is 3 in the summary, 1 in the manifests"),
        (manifest_listed_twice, "no-doubles", "lists the manifest 2 times"),
        (manifest_listed_twice, "no-doubles", "is live 2 times"),
        (gone(data_file("c")), "nothing-missing", "c.parquet: the data file is gone"),
        (gone(data_file("a")), "nothing-missing", "a.parquet: the data file is gone"),  # of an older snapshot
        (gone(a_manifest), "nothing-missing", "the manifest is gone"),
        (gone(newest), "nothing-missing", "is gone"),
        (gone(metadata_in_the_log), "nothing-missing", "the metadata file is gone"),
        (gone(lambda table: table.pointer.metadata_location), "nothing-missing", "the metadata file is gone"),
        (gone(a_segment), "nothing-missing", "the journal segment is gone"),
        (statistics_gone, "nothing-missing", "the statistics file is gone"),
    ],
)
async def test_what_is_broken_is_found_and_named(break_it, invariant, said):
    table = await healthy()
    break_it(table)
    found = breaches(table.check())
    assert any(said in text for text in found.get(invariant, [])), found
    assert not table.check().ok


async def test_a_file_added_again_without_having_been_removed_is_found():
    table = await healthy()
    evidence, contents = table.gathered()
    assert evidence.current is not None
    first, second = (contents.snapshots[s.snapshot_id] for s in evidence.current.snapshots[:2])
    twin = change(second[0], facts=(*(second[0].facts or ()), change_fact(first[0], to=second[0])))
    again = change(contents, snapshots={**contents.snapshots, evidence.current.snapshots[1].snapshot_id: (twin,)})
    messages = [finding.message for finding in exactly_once(evidence, again)]
    assert any("added by snapshot" in message and "and again by" in message for message in messages)
    assert list(exactly_once(evidence, contents)) == []


def change_fact(listed, *, to):
    fact = next(f for f in listed.facts if f.path.endswith("/a.parquet"))
    return change(fact, snapshot_id=to.manifest.added_snapshot_id)


async def test_overlapping_row_ids_are_found():
    table = await healthy(format_version=3)
    evidence, contents = table.gathered()
    current = evidence.current
    assert current is not None
    assert list(no_doubles(current, contents)) == []

    def shifted(by: int) -> Contents:
        snapshot_id = current.current_snapshot_id
        assert snapshot_id is not None
        listed = tuple(
            change(one, facts=tuple(change(f, first_row_id=(f.first_row_id or 0) // 40 + by) for f in one.facts or ()))
            for one in contents.snapshots[snapshot_id]
        )
        return change(contents, snapshots={**contents.snapshots, snapshot_id: listed})

    assert any("its row ids begin at" in finding.message for finding in no_doubles(current, shifted(0)))
    assert any("the table's next is" in finding.message for finding in no_doubles(current, shifted(10**6)))


async def test_deep_checks_look_into_the_files():
    bench = Workbench()
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2, 3]}), sink)
    data = sink.getvalue()
    file = change(content_file("real"), record_count=3, file_size_in_bytes=len(data))
    lie = change(content_file("lie"), record_count=4, file_size_in_bytes=len(data))
    junk = change(content_file("junk"), record_count=4, file_size_in_bytes=100)
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(Append(intent_id=new_id(), table=TABLE, data_files=(file, lie, junk)))
    for one, content in ((file, data), (lie, data), (junk, b"j" * 100)):
        bench.files.create(one.file_path, content)
    table = Broken(bench, (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer)
    assert table.check().ok
    assert breaches(table.check(deep=True)) == {
        "content-agrees": [
            f"{lie.file_path}: has 3 rows, its manifest says 4",
            f"{junk.file_path}: {junk.file_path}: not a Parquet file with a footer in plain text",
        ]
    }


async def test_whoever_is_told_of_a_snapshot_that_another_made_is_no_second_answer() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="audit", snapshot_id=base))
        follow = FastForward(intent_id=new_id(), table=TABLE, branch="audit", to="main")
        outcomes = await bench.gathered(daemon, append("b"), append("c"), follow)
        assert len({outcome.snapshot_id for outcome in outcomes if isinstance(outcome, Committed)}) == 1
        pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    findings = check_table(pointer, files=bench.files, limits=bench.limits).findings
    assert [finding for finding in findings if finding.invariant == "exactly-once"] == []


async def test_a_table_that_moves_while_it_is_checked_is_looked_at_again():
    table = await healthy()
    moved = change(table.pointer, watermarks={})
    seen: list[Pointer] = []
    pointers = iter([table.pointer, moved, moved])

    def check(pointer: Pointer) -> Verdict:
        seen.append(pointer)
        broken = pointer is table.pointer
        return change(table.check(), findings=table_findings if broken else ())

    table.files.delete(content_file("c").file_path)
    table_findings = table.check().findings
    assert check_moving_table(lambda: next(pointers), check).ok
    assert seen == [table.pointer, moved]


def test_each_invariant_is_a_sentence():
    assert len(INVARIANTS) == 6
    assert all(" " in sentence for sentence in INVARIANTS.values())


async def view_with_history() -> Broken:
    """A view of two versions, the second of which is current."""
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1"))
        await bench.commit(replaced(first, "SELECT 2"))
        pointer = (await Pointers(bench.zookeeper.connect()).read(VIEW)).pointer
    return Broken(bench, pointer)


def rewrite_view(broken: Broken, edit: Callable[[ViewMetadata], ViewMetadata]) -> None:
    location = broken.pointer.metadata_location
    data = encode_view(edit(broken.reader.view(location)), codec="gzip")
    broken.files.delete(location)
    broken.files.create(location, data)
    broken.pointer = change(broken.pointer, metadata_digest=digest_of_bytes(data))


async def test_a_whole_view_has_no_breach() -> None:
    broken = await view_with_history()
    verdict = broken.check()
    assert verdict.ok, verdict.findings
    assert (verdict.checked.segments, verdict.checked.versions) == (2, 2)


async def test_a_version_that_was_changed_is_found() -> None:
    broken = await view_with_history()
    rewrite_view(broken, lambda view: change(view, versions=tuple(change(v, timestamp_ms=1) for v in view.versions)))
    assert [f.invariant for f in broken.check().findings] == ["linear-history"]
    assert "changes version 1" in broken.check().findings[0].message


async def test_a_version_log_that_forgets_what_was_current_is_found() -> None:
    broken = await view_with_history()
    rewrite_view(broken, lambda view: change(view, version_log=view.version_log[1:]))
    assert "does not go on" in broken.check().findings[0].message
    rewrite_view(
        broken, lambda view: change(view, version_log=(*view.version_log, change(view.version_log[0], timestamp_ms=1)))
    )
    assert any("backwards" in finding.message for finding in broken.check().findings)


async def test_a_views_metadata_that_is_gone_or_damaged_is_found() -> None:
    broken = await view_with_history()
    data = broken.files.read(broken.pointer.metadata_location, bytes_max=10**6)
    broken.files.delete(broken.pointer.metadata_location)
    assert [f.invariant for f in broken.check().findings] == ["nothing-missing"]
    broken.files.create(broken.pointer.metadata_location, data[:-9])
    assert [f.invariant for f in broken.check().findings] == ["content-agrees"]
