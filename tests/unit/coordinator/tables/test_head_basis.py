"""A head that is made from a known one is the head that reading everything finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.known_deletes import find_deletes
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import CorruptFile, Unavailable
from firn.model.limits import Limits
from firn.model.manifest import ManifestEntry, ManifestFile
from firn.model.metadata import TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import UNPARTITIONED
from firn.model.refs import set_current
from firn.model.schema import schema_from_json
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.tables.foreign_writer import ForeignWriter
from tests.unit.coordinator.workbench import SCHEMA

LOCATION = "memory://wh/t"
PATHS = [f"{LOCATION}/data/{number}.parquet" for number in range(24)]
NO_CACHE = Limits(manifest_cache_bytes_max=0)

SOME_PATHS = st.sets(st.sampled_from(PATHS[:8]), min_size=1, max_size=3)
SOME_PLACES = st.sets(st.integers(0, 4), max_size=3)
BRANCHES = st.sampled_from(["main", "main", "audit"])
CHANGES = st.lists(
    st.tuples(st.just("append"), SOME_PATHS, BRANCHES)
    | st.tuples(st.just("append-new"), SOME_PATHS, BRANCHES)
    | st.tuples(st.just("append-deletes"), SOME_PATHS, BRANCHES)
    | st.tuples(st.just("delete"), SOME_PATHS, BRANCHES)
    | st.tuples(st.just("merge"), SOME_PLACES, BRANCHES)
    | st.tuples(st.just("turn-round"), st.none(), BRANCHES)
    | st.tuples(st.just("leave-out"), SOME_PLACES, BRANCHES)
    | st.tuples(st.just("go-back"), st.integers(0, 20), BRANCHES),
    min_size=4,
    max_size=14,
)


class CountingFiles(MemoryFiles):
    """Remembers what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, location: str, *, bytes_max: int) -> bytes:
        self.reads.append(location)
        return super().read(location, bytes_max=bytes_max)


def table(version: int = 2) -> TableMetadata:
    return new_table_metadata(
        schema_from_json(SCHEMA),
        UNPARTITIONED,
        location=LOCATION,
        table_uuid="0b9e5cf2-6a55-4a44-8a0c-6f1ad0a4c1a5",
        now_ms=1,
        format_version=version,
    )


def uncounted(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """As old writers of v1 list them: every other one without counts."""
    names = [f"{status}_{what}_count" for status in ("added", "existing", "deleted") for what in ("files", "rows")]
    return [one if at % 2 else msgspec.structs.replace(one, **dict.fromkeys(names)) for at, one in enumerate(manifests)]


def apply(writer: ForeignWriter, what: str, argument: Any, branch: str) -> None:
    """One change by another engine; to a branch that is not there, none."""
    metadata, manifests = writer.metadata, writer.manifests(branch)
    live = {path for one in manifests if one.content == "data" for path in writer.live(one)}
    match what:
        case "append":  # files that are live as well: no other engine looks
            writer.append(sorted(argument), branch=branch)
        case "append-new":
            writer.append(sorted(argument - live) or [f"{LOCATION}/data/other.parquet"], branch=branch)
        case "append-deletes" if metadata.format_version > 1:
            writer.append([f"{path}.deletes" for path in sorted(argument)], branch=branch, content="deletes")
        case "delete":
            writer.delete(argument, branch=branch)
        case "merge":
            writer.merge(argument, branch=branch)
        case "turn-round":
            writer.list(manifests[::-1], branch=branch)
        case "leave-out":
            writer.list([one for at, one in enumerate(manifests) if at not in argument], branch=branch)
        case "go-back" if metadata.snapshots:
            snapshot = metadata.snapshots[argument % len(metadata.snapshots)]
            writer.metadata = set_current(metadata, snapshot.snapshot_id, branch=branch, now_ms=99)


def content(head: Head) -> tuple[Any, ...]:
    """All that a head says."""
    paths = [*PATHS, f"{LOCATION}/data/other.parquet", f"{LOCATION}/data/never.parquet"]
    return tuple(head.manifests), len(head.live.index), [head.live.manifest_of(path) for path in paths], head.deletes


def deletes(reader: TableReader, metadata: TableMetadata, head: Head) -> list[tuple[str, str, ManifestEntry]]:
    """The delete files of a head, which are known from now on: location, manifest and entry with what it inherits."""
    head.deletes = find_deletes(
        head.manifests, lambda manifest: reader.entries(metadata, stored(manifest)), known=head.known_deletes
    )
    head.known_deletes = None
    return sorted(((one.file.file_path, one.manifest, one.entry) for one in head.deletes), key=lambda one: one[:2])


def stored(manifest: ManifestRef) -> ManifestFile:
    assert isinstance(manifest, ManifestFile)
    return manifest


@settings(max_examples=max(60, settings().max_examples))
@given(CHANGES, st.sampled_from([1, 2, 3]), st.booleans(), st.data())
def test_it_is_the_head_that_reading_everything_finds(changes: Any, version: int, counted: bool, data: Any) -> None:
    """Whatever engines did meanwhile, and whichever heads are known; those stay as they are."""
    files = MemoryFiles()
    writer = ForeignWriter(files, table(version), listed=tuple if counted or version > 1 else uncounted)
    known: dict[int, Head] = {}
    for what, argument, branch in changes:
        apply(writer, what, argument, branch)
        head = writer.metadata.head(branch)
        if head is None or not data.draw(st.integers(0, 3)):  # some are never looked at
            continue
        chosen = data.draw(st.just([*known]) | st.lists(st.sampled_from([*known]), unique=True)) if known else []
        before = {number: content(one) for number, one in known.items()}
        reader = TableReader(files, limits=NO_CACHE)
        made = reader.head(writer.metadata, head.snapshot_id, known=[known[number] for number in chosen])
        whole = reader.head(writer.metadata, head.snapshot_id)
        assert content(made) == content(whole)
        if data.draw(st.booleans()):  # otherwise what is known of them goes on to the next head
            assert deletes(reader, writer.metadata, made) == deletes(reader, writer.metadata, whole)
        assert {number: content(one) for number, one in known.items()} == before
        known[head.snapshot_id] = made


def grown(files: MemoryFiles, *, version: int = 2, listed: Any = tuple) -> ForeignWriter:
    """A table of twenty files in twenty manifests."""
    writer = ForeignWriter(files, table(version), listed=listed)
    for path in PATHS[:20]:
        writer.append([path])
    return writer


def names(paths: Sequence[str]) -> set[str]:
    return {path.rpartition("/")[2] for path in paths}


def only_new(manifests: Sequence[ManifestFile], before: Sequence[ManifestFile]) -> set[str]:
    return names([one.manifest_path for one in manifests if one not in before])


@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.append(PATHS[20:22]),
        lambda writer: writer.delete([PATHS[3], PATHS[7]]),
        lambda writer: writer.merge([0, 1, 2, 3]),
        lambda writer: writer.list(writer.manifests()[2:]),
        lambda writer: writer.list(writer.manifests()[::-1]),
    ],
)
def test_only_new_manifests_are_read(change: Any) -> None:
    files = CountingFiles()
    writer = grown(files)
    reader = TableReader(files, limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    before = writer.manifests()
    change(writer)
    expected = only_new([one for one in writer.manifests() if one.may_have_live_files], before)
    assert len(expected) <= 1
    files.reads.clear()
    reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    snapshot = writer.metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    assert names(files.reads) == expected | names([snapshot.manifest_list])


def test_the_head_that_has_most_in_common_is_taken() -> None:
    files = CountingFiles()
    writer = grown(files)
    reader = TableReader(files, limits=NO_CACHE)
    newest = writer.metadata.snapshots[-1].snapshot_id
    older = reader.head(writer.metadata, writer.metadata.snapshots[4].snapshot_id)
    newer = reader.head(writer.metadata, writer.metadata.snapshots[18].snapshot_id)
    for known in ([older, newer], [newer, older]):
        files.reads.clear()
        reader.head(writer.metadata, newest, known=known)
        assert len(files.reads) == 2  # the list, and one manifest


def test_a_file_that_is_live_in_several_manifests_is_found_in_the_last_one_and_stays_when_that_goes() -> None:
    files = MemoryFiles()
    writer = grown(files)
    reader = TableReader(files, limits=NO_CACHE)
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id)

    def follow() -> Head:
        nonlocal made
        made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[made])
        assert content(made) == content(reader.head(writer.metadata, writer.metadata.current_snapshot_id))
        return made

    (older,) = [one for one in writer.manifests() if writer.live(one) == [PATHS[3]]]
    writer.append([PATHS[3]])
    assert follow().live.manifest_of(PATHS[3]) == older.manifest_path
    writer.list([one for one in writer.manifests() if one.manifest_path != older.manifest_path])
    newer = writer.manifests()[0]
    assert follow().live.manifest_of(PATHS[3]) == newer.manifest_path
    writer.delete([PATHS[3]])
    assert PATHS[3] not in follow().live


def test_counts_that_a_list_leaves_out_are_taken_from_the_known_head() -> None:
    files = CountingFiles()
    writer = grown(files, version=1, listed=uncounted)
    reader = TableReader(files, limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    writer.append(PATHS[20:21])
    files.reads.clear()
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    assert all(one.live_files_count == 1 for one in made.manifests if isinstance(one, ManifestFile))
    assert len(set(files.reads)) == 2


def test_a_list_that_says_something_else_of_a_known_manifest_is_found_out() -> None:
    files = MemoryFiles()
    writer = grown(files)
    reader = TableReader(files, limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    first, *rest = writer.manifests()
    writer.list([msgspec.structs.replace(first, added_rows_count=2), *rest])
    with pytest.raises(CorruptFile, match="says 2"):
        reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])


def test_a_read_that_fails_half_way_leaves_the_known_head_as_it_was() -> None:
    stored = MemoryFiles()
    writer = grown(stored)
    failing: list[str] = []

    def plan(operation: str, location: str) -> Fault | None:
        return Fault(kind="error") if operation == "read" and location in failing else None

    reader = TableReader(FailingFiles(stored, plan), limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    before = content(known)
    writer.delete(PATHS[:2])
    writer.append(PATHS[20:22])
    last = max(one.manifest_path for one in writer.manifests())
    failing.append(last)
    with pytest.raises(Unavailable):
        reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    assert content(known) == before
    failing.clear()
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    assert content(made) == content(reader.head(writer.metadata, writer.metadata.current_snapshot_id))


@pytest.mark.parametrize(
    "change",
    [
        lambda writer: writer.append(PATHS[20:22]),
        lambda writer: writer.append(["new.deletes"], content="deletes"),
        lambda writer: writer.append(["3.deletes"], content="deletes"),  # live in two manifests, known of the newer
        lambda writer: writer.list(writer.manifests()[::-1]),
        lambda writer: writer.list(writer.manifests()[2:]),
    ],
)
@pytest.mark.parametrize("heads_between", [0, 2])
def test_delete_files_are_read_from_new_manifests_only(change: Any, heads_between: int) -> None:
    """Also by heads for which nobody asks between the two."""
    files = CountingFiles()
    writer = grown(files)
    for number in range(10):
        writer.append([f"{number}.deletes"], content="deletes")
    reader = TableReader(files, limits=NO_CACHE)
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    assert len(deletes(reader, writer.metadata, made)) == 10
    before = writer.manifests()
    for number in range(heads_between):
        writer.append([f"{LOCATION}/data/between-{number}.parquet"])
        made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[made])
    change(writer)
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[made])
    files.reads.clear()
    found = deletes(reader, writer.metadata, made)
    read = names(files.reads)
    new = only_new([one for one in writer.manifests() if one.content == "deletes"], before)
    assert read == new
    assert len(new) <= 1
    whole = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    assert found == deletes(reader, writer.metadata, whole)


def test_delete_files_that_inherit_something_else_are_read_again() -> None:
    """Another branch may list a manifest with other numbers, and an engine may write them wrong."""
    files = CountingFiles()
    writer = grown(files)
    writer.append(["a.deletes"], content="deletes")
    reader = TableReader(files, limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    (before,) = deletes(reader, writer.metadata, known)
    first, *rest = writer.manifests()
    writer.list([msgspec.structs.replace(first, sequence_number=first.sequence_number - 1), *rest])
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    (after,) = deletes(reader, writer.metadata, made)
    assert after[2].sequence_number == first.sequence_number - 1
    assert before[2].sequence_number == first.sequence_number


def test_what_is_known_of_delete_files_is_true_after_the_known_head_went_on() -> None:
    files = MemoryFiles()
    writer = grown(files)
    for number in range(4):
        writer.append([f"{number}.deletes"], content="deletes")
    reader = TableReader(files, limits=NO_CACHE)
    known = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    deletes(reader, writer.metadata, known)
    writer.append(PATHS[20:21])
    made = reader.head(writer.metadata, writer.metadata.current_snapshot_id, known=[known])
    assert known.deletes is not None
    for number in (1, 2):
        known.deletes.remove((f"{number}.deletes", None))
    known.deletes.adopt(shared=False)
    whole = reader.head(writer.metadata, writer.metadata.current_snapshot_id)
    assert deletes(reader, writer.metadata, made) == deletes(reader, writer.metadata, whole)
