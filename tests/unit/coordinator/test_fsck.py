"""fsck finds each invariant broken on purpose, names it, and finds nothing where nothing is broken."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.coordinator.config import Settings
from firn.coordinator.decisions import Decisions
from firn.coordinator.fsck.contents import Contents, read_contents
from firn.coordinator.fsck.evidence import Evidence, gather
from firn.coordinator.fsck.exactly_once import exactly_once
from firn.coordinator.fsck.finding import INVARIANTS
from firn.coordinator.fsck.no_doubles import no_doubles
from firn.coordinator.fsck.run import Verdict, check_moving_table, check_table
from firn.coordinator.table_reader import TableReader
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.intent import Append, DropTable
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.operations.refs import CreateBranch, FastForward
from firn.model.outcome import Committed
from firn.model.view import ViewMetadata
from firn.storage.avro import SEAL_KEY, open_avro
from firn.storage.journal import JournalFiles, pack_segment
from firn.storage.manifest_lists import decode_manifest_list, encode_manifest_list
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import decode_metadata, digest_of_bytes, encode_metadata
from firn.storage.pointers import Pointer, Pointers
from firn.storage.view_files import encode_view
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.view_intents import VIEW, new_view, replaced
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, delete, new_id, replace

change = msgspec.structs.replace


class Broken:
    """A table in memory, with what it takes to break it."""

    def __init__(self, bench: Workbench, pointer: Pointer) -> None:
        self.bench = bench
        self.files = bench.files
        self.pointer = pointer
        self.reader = TableReader(bench.files, limits=bench.limits)
        self.journal_files = JournalFiles(bench.files, bytes_max=bench.limits.journal_bytes_max)

    def check(self, *, deep: bool = False) -> Verdict:
        return check_table(self.pointer, files=self.files, limits=self.bench.limits, deep=deep)

    @property
    def metadata(self) -> TableMetadata:
        return self.reader.metadata(self.pointer.metadata_location)

    @property
    def segments(self) -> list[Segment]:
        return list(self.journal_files.walk(self.pointer.journal_head))[::-1]

    def rewrite_metadata(self, edit: Callable[[TableMetadata], TableMetadata], *, version: int = -1) -> None:
        location = [s.batch.new_metadata for s in self.segments][version]
        assert location is not None
        metadata = decode_metadata(self.files.read(location, bytes_max=10**8), location=location)
        self.files.replace(location, encode_metadata(edit(metadata)))

    def rewrite_segment(self, edit: Callable[[Segment], Segment], *, number: int = -1) -> None:
        segment = self.segments[number]
        self.files.replace(segment.location, pack_segment(edit(segment)))

    def gathered(self) -> tuple[Evidence, Contents]:
        evidence = gather(self.pointer, reader=self.reader, journal=self.journal_files)
        assert evidence.current is not None
        return evidence, read_contents(evidence.current, self.files, limits=self.bench.limits)


_MADE: dict[int, tuple[dict[str, tuple[bytes, int]], Pointer]] = {}


async def healthy(*, format_version: int = 2) -> Broken:
    """A table with appends, a replace, a delete, a rejection; its data files are there. Made once, then copied."""
    if format_version not in _MADE:
        bench = Workbench()
        table = await make(bench, format_version=format_version)
        _MADE[format_version] = (bench.files._files, table.pointer)  # type: ignore[attr-defined]
    stored, pointer = _MADE[format_version]
    files = MemoryFiles()
    files._files = dict(stored)
    return Broken(Workbench(files=files), pointer)


async def make(bench: Workbench, *, format_version: int = 2) -> Broken:
    """See `healthy`."""
    async with bench.daemon():
        await bench.commit(create(format_version=format_version))
        base = await bench.commit(append("a", "b", writer="w"))
        assert base.snapshot_id is not None
        await bench.commit(append("c"))
        await bench.commit(replace(["a"], ["a2"], base=base.snapshot_id))
        await bench.refuse(delete("a"))
        await bench.commit(delete("b"))
    for name in ("a", "b", "c", "a2"):
        file = content_file(name)
        bench.files.create(file.file_path, b"x" * file.file_size_in_bytes)
    return Broken(bench, (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer)


def breaches(verdict: Verdict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for finding in verdict.findings:
        found.setdefault(finding.invariant, []).append(f"{finding.where}: {finding.message}")
    return found


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
    monkeypatch.setattr("firn.coordinator.decisions.CHECKPOINT_SEGMENTS", 4)
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"commit.manifest.min-count-to-merge": "3"}))
        for i in range(15):
            await bench.commit(append(f"f{i}"))
            bench.files.create(content_file(f"f{i}").file_path, b"x" * 1000)
        await bench.commit(delete("f3", "f7"))
    table = Broken(bench, (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer)
    assert sum(segment.checkpoint is not None for segment in table.segments) >= 3
    assert breaches(table.check()) == {}


def lost_commit(table: Broken) -> None:
    """The newest version does not have the snapshot that its writer was told."""

    def without(metadata: TableMetadata) -> TableMetadata:
        *kept, _ = metadata.snapshots
        refs = {"main": change(metadata.refs["main"], snapshot_id=kept[-1].snapshot_id)}
        return change(
            metadata, snapshots=tuple(kept), refs=refs, current_snapshot_id=kept[-1].snapshot_id,
            snapshot_log=metadata.snapshot_log[:-1], last_sequence_number=metadata.last_sequence_number - 1,
        )  # fmt: skip

    table.rewrite_metadata(without)


def decided_twice(table: Broken) -> None:
    again = table.segments[1].decided
    table.rewrite_segment(lambda segment: change(segment, decided=(*segment.decided, *again)))


def wrong_outcome(table: Broken) -> None:
    def swap(segment: Segment) -> Segment:
        (decided,) = segment.decided
        return change(segment, decided=(change(decided, outcome=change(decided.outcome, intent_id=new_id())),))

    table.rewrite_segment(swap)


def told_of_another_snapshot(table: Broken) -> None:
    def other(segment: Segment) -> Segment:
        (decided,) = segment.decided
        assert isinstance(decided.outcome, Committed)
        return change(segment, decided=(change(decided, outcome=change(decided.outcome, snapshot_id=42)),))

    table.rewrite_segment(other)


def one_intent_more(table: Broken) -> None:
    def more(segment: Segment) -> Segment:
        (decided,) = segment.decided
        fresh = new_id()
        outcome = change(decided.outcome, intent_id=fresh)
        return change(segment, decided=(decided, change(decided, intent_id=fresh, outcome=outcome)))

    table.rewrite_segment(more)


def committed_nothing(table: Broken) -> None:
    batch = table.segments[-1].batch
    table.rewrite_segment(lambda s: change(s, batch=change(batch, new_metadata=batch.base_metadata)))
    assert batch.base_metadata is not None
    table.pointer = change(table.pointer, metadata_location=batch.base_metadata)


def unknown_batch(table: Broken) -> None:
    table.rewrite_segment(lambda s: change(s, batch=change(s.batch, batch=new_id())))


def forgetful_checkpoint(table: Broken) -> None:
    decisions = Decisions(table.journal_files, limits=Settings().limits)
    segments = table.segments
    for segment in segments[:-1]:
        decisions.add(segment)
    last = segments[-1]
    checkpoint = decisions.checkpoint_with(last.decided, location=last.location)
    forgets = change(checkpoint, intents=checkpoint.intents[1:])
    table.rewrite_segment(lambda segment: change(segment, checkpoint=forgets))


def pointer_behind(table: Broken) -> None:
    batch = table.segments[-1].batch
    assert batch.base_metadata is not None
    table.pointer = change(table.pointer, metadata_location=batch.base_metadata)


def pointer_of_another_table(table: Broken) -> None:
    table.pointer = change(table.pointer, uuid="00000000-0000-4000-8000-000000000000")


def gap_in_the_journal(table: Broken) -> None:
    table.rewrite_segment(lambda s: change(s, batch=change(s.batch, previous_segment=table.segments[-3].location)))


def beginning_of_the_journal_cut_off(table: Broken) -> None:
    table.rewrite_segment(lambda s: change(s, batch=change(s.batch, previous_segment=None)), number=2)


def journal_in_a_circle(table: Broken) -> None:
    head = table.segments[-1].location
    table.rewrite_segment(lambda s: change(s, batch=change(s.batch, previous_segment=head)), number=0)


def metadata(**members: object) -> Callable[[Broken], None]:
    return lambda table: table.rewrite_metadata(lambda found: change(found, **members))


def earlier(table: Broken) -> None:
    table.rewrite_metadata(lambda found: change(found, last_updated_ms=found.last_updated_ms - 30_000))


def other_predecessor(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        return change(found, metadata_log=(*found.metadata_log[:-1], change(found.metadata_log[-2])))

    table.rewrite_metadata(edit)


def changed_snapshot(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        first, *rest = found.snapshots
        return change(found, snapshots=(change(first, timestamp_ms=first.timestamp_ms - 1), *rest))

    table.rewrite_metadata(edit)


def skipped_sequence_number(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        *rest, last = found.snapshots
        return change(found, snapshots=(*rest, change(last, sequence_number=9)), last_sequence_number=9)

    table.rewrite_metadata(edit)


def newest(table: Broken) -> str:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return snapshot.manifest_list


def a_manifest(table: Broken) -> str:
    location = newest(table)
    return decode_manifest_list(table.files.read(location, bytes_max=10**8), location=location)[0].manifest_path


def cut(location_of: Callable[[Broken], str]) -> Callable[[Broken], None]:
    def cut_short(table: Broken) -> None:
        location = location_of(table)
        table.files.replace(location, table.files.read(location, bytes_max=10**8)[:-20])

    return cut_short


def flipped(location_of: Callable[[Broken], str]) -> Callable[[Broken], None]:
    """One bit of a compressed block is another, and the file, an older firn's, can be read all the same."""

    def flip(table: Broken) -> None:
        location = location_of(table)
        data = table.files.read(location, bytes_max=10**8)
        data = data.replace(SEAL_KEY.encode(), b"firn.none")
        block = open_avro(data, location=location).blocks[0]
        content = zlib.decompress(data[block.start : block.end], -zlib.MAX_WBITS)
        for at in range(block.start, block.end):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            with contextlib.suppress(zlib.error, CorruptFile, InvalidInput):
                other = zlib.decompress(changed[block.start : block.end], -zlib.MAX_WBITS)
                if len(other) != len(content) or other == content:
                    continue
                table.files.replace(location, changed)
                decode_manifest_list(table.files.read(newest(table), bytes_max=10**8), location=newest(table))
                contents = read_contents(table.metadata, table.files, limits=table.bench.limits)
                if all(listed.facts is not None for one in contents.snapshots.values() for listed in one):
                    return
        raise AssertionError("every changed bit is noticed by reading")

    return flip


def bit(location_of: Callable[[Broken], str]) -> Callable[[Broken], None]:
    """One bit of a compressed block is another."""

    def flip(table: Broken) -> None:
        location = location_of(table)
        data = table.files.read(location, bytes_max=10**8)
        at = open_avro(data, location=location).blocks[0].end - 3
        table.files.replace(location, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])

    return flip


def gone(location_of: Callable[[Broken], str]) -> Callable[[Broken], None]:
    return lambda table: table.files.delete(location_of(table))


def data_file(name: str) -> Callable[[Broken], str]:
    return lambda _: content_file(name).file_path


def longer_data_file(table: Broken) -> None:
    table.files.replace(content_file("c").file_path, b"longer than before" * 100)


def wrong_totals(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        *rest, last = found.snapshots
        return change(found, snapshots=(*rest, change(last, summary={**(last.summary or {}), "total-records": "7"})))

    table.rewrite_metadata(edit)


def wrong_change(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        *rest, last = found.snapshots
        return change(
            found, snapshots=(*rest, change(last, summary={**(last.summary or {}), "deleted-data-files": "3"}))
        )

    table.rewrite_metadata(edit)


def manifest_listed_twice(table: Broken) -> None:
    location, found = newest(table), table.metadata
    snapshot = found.current_snapshot
    assert snapshot is not None
    manifests = decode_manifest_list(table.files.read(location, bytes_max=10**8), location=location)
    data = encode_manifest_list(
        [*manifests, manifests[0]], format_version=2, snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id, sequence_number=snapshot.sequence_number,
    )  # fmt: skip
    table.files.replace(location, data)


def metadata_in_the_log(table: Broken) -> str:
    return table.metadata.metadata_log[1].metadata_file


def a_segment(table: Broken) -> str:
    return table.segments[2].location


def statistics_gone(table: Broken) -> None:
    def edit(found: TableMetadata) -> TableMetadata:
        entry: dict[str, object] = {
            "snapshot-id": found.current_snapshot_id, "statistics-path": f"{found.location}/metadata/s.puffin",
            "file-size-in-bytes": 10, "file-footer-size-in-bytes": 10, "blob-metadata": [],
        }  # fmt: skip
        return change(found, statistics=(entry,))

    table.rewrite_metadata(edit)


@pytest.mark.parametrize(
    ("break_it", "invariant", "said"),
    [
        (lost_commit, "exactly-once", "which intents were told, is not in it"),
        (decided_twice, "exactly-once", "was decided before"),
        (wrong_outcome, "exactly-once", "has the outcome of"),
        (told_of_another_snapshot, "exactly-once", "adds snapshot"),
        (one_intent_more, "exactly-once", "says that it answers 1 intents; 2 were told it"),
        (committed_nothing, "exactly-once", "the table did not change"),
        (unknown_batch, "exactly-once", "which is not in the journal"),
        (forgetful_checkpoint, "exactly-once", "its checkpoint forgets 1 intents"),
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
