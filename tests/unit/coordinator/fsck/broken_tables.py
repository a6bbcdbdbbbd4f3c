"""Tables, and the ways in which they are broken: each changes what is stored, as no firn would."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable

import msgspec

from firn.coordinator.config import Settings
from firn.coordinator.fsck.contents import Contents, read_contents
from firn.coordinator.fsck.evidence import Evidence, gather
from firn.coordinator.fsck.run import Verdict, check_table
from firn.coordinator.journal.decisions import Decisions
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.journal import Segment
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed
from firn.storage.avro import SEAL_KEY, open_avro
from firn.storage.journal import JournalFiles, pack_segment
from firn.storage.manifest_lists import decode_manifest_list, encode_manifest_list
from firn.storage.memory_files import MemoryFiles
from firn.storage.metadata_files import codec_of, decode_metadata, encode_metadata
from firn.storage.pointers import Pointer, Pointers
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
        self.files.replace(location, encode_metadata(edit(metadata), codec=codec_of(location)))

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
