"""One file, one name: a file is the same in whatever spelling an intent or a stored manifest has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from firn.coordinator.insight.lost_past import evidence_of
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import ContentFile, DeleteFileRef, DropTable, RegisterTable
from firn.model.manifest import ManifestEntry, ManifestFile, Status
from firn.model.outcome import Committed, Rejected
from firn.storage.manifest_lists import encode_manifest_list
from firn.storage.manifest_reader import StoredManifests
from firn.storage.manifests import encode_manifest, manifest_file
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows, ref
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id

ROWS = tuple((id, "eu") for id in range(5))

SPELLINGS = ("file:{}", "file://{}", "file://localhost{}", "FILE:{}", "/{}", "//{}", "file:///{}")
"""Of a file that is stored as its plain path."""


def spelled(file: Any, spelling: str) -> Any:
    """The file under another name of the same place."""
    return msgspec.structs.replace(file, file_path=spelling.format(file.file_path))


@asynccontextmanager
async def local_table(bench: Workbench | None = None, **changes: Any) -> AsyncIterator[RealRows]:
    bench = Workbench(warehouse="/wh") if bench is None else bench
    async with bench.daemon():
        yield await RealRows.create(bench, **changes)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_live_file_is_a_duplicate_in_every_spelling(spelling: str) -> None:
    async with local_table() as table:
        file = table.data(*ROWS)
        base = await table.commit(table.append(file))
        again = spelled(file, spelling)
        for intent in (
            table.append(again),
            table.append(manifests=(table.manifest(table.added(again)),)),
            table.append(again, stage=True, wap_id="w"),
            table.overwrite(base, [again]),
            table.replace_partitions(base, again),
            table.delta(base, added=[again]),
        ):
            rejected = await table.refused(intent)
            assert (rejected.rule, rejected.hint) == ("duplicate-file", "fix"), intent
        assert await table.ids() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_file_in_two_spellings_within_an_intent_is_a_duplicate(spelling: str) -> None:
    async with local_table() as table:
        first, file = table.data((7, "eu")), table.data(*ROWS)
        base = await table.commit(table.append(first))
        again = spelled(file, spelling)
        both = table.manifest(table.added(file, again))
        for intent in (
            table.append(file, again),
            table.append(manifests=(both,)),
            table.append(again, manifests=(table.manifest(table.added(file)),)),
            table.overwrite(base, [file, again]),
            table.replace(base, [first], [file, again]),
            table.delta(base, added=[file, again]),
            table.delete(first, spelled(first, spelling)),
        ):
            assert (await table.refused(intent)).rule == "duplicate-file", intent


async def test_a_file_in_two_spellings_within_a_batch_is_committed_once() -> None:
    bench = Gathering(warehouse="/wh")
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        file = table.data(*ROWS)
        appends = [table.append(spelled(file, spelling)) for spelling in ("{}", *SPELLINGS)]
        outcomes = await bench.gathered(daemon, *appends)
        assert [type(outcome) for outcome in outcomes] == [Committed, *[Rejected] * len(SPELLINGS)]
        assert await table.ids() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("read_anew", [False, True])
@pytest.mark.parametrize(("stored", "named"), [("{}", "file://{}"), ("file:{}", "{}"), ("file:{}", "file:///{}")])
async def test_a_file_is_removed_by_any_of_its_names(stored: str, named: str, read_anew: bool) -> None:
    """Whether the index of live files comes from the commits or from stored manifests."""
    bench = Workbench(warehouse="/wh")
    async with bench.daemon():
        table = await RealRows.create(bench)
        plain = [table.data((id, "eu")) for id in range(6)]
        files = [spelled(file, stored) for file in plain]
        base = await table.commit(table.append(*files))
        if not read_anew:
            await remove_by(named, table, plain, base)
    if read_anew:
        async with bench.daemon("b"):
            await remove_by(named, table, plain, base)
    assert await table.ids() == [1, 2, 5, 30, 40]
    assert files[5].file_path in [entry.data_file.file_path for entry in await table.entries()]


async def remove_by(named: str, table: RealRows, plain: list[ContentFile], base: int) -> None:
    """Remove all files but the last, each by its other name."""
    others = [spelled(file, named) for file in plain]
    await table.commit(table.delete(others[0]))
    await table.commit(table.replace(base, others[1:3], [table.data((1, "eu"), (2, "eu"))]))
    await table.commit(table.overwrite(base, [table.data((30, "us"))], [others[3]], isolation="snapshot"))
    delta = table.delta(base, added=[table.data((40, "us"))], removed_data_files=(others[4].file_path,))
    await table.commit(msgspec.structs.replace(delta, isolation="snapshot"))
    assert (await table.refused(table.delete(plain[0]))).rule == "missing-file"
    assert (await table.refused(table.append(others[5]))).rule == "duplicate-file"
    assert await table.unsound() == ()


async def test_a_conflict_is_told_in_every_spelling() -> None:
    async with local_table() as table:
        file = table.data(*ROWS)
        base = await table.commit(table.append(file))
        removing = await table.commit(table.delete(spelled(file, "file:{}")))
        rejected = await table.refused(table.replace(base, [spelled(file, "file://{}")], [table.data(*ROWS)]))
        assert (rejected.rule, rejected.conflicting_snapshot_id) == ("missing-file", removing)


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_deletes_for_a_file_in_another_spelling_are_refused(spelling: str) -> None:
    """Readers compare what deletes are for as text: they would ignore them, and the statement reported success."""
    async with local_table() as table:
        file = table.data(*ROWS)
        base = await table.commit(table.append(file))
        other = spelled(file, spelling)
        for intent in (
            table.delta(base, table.vector(other, 0)),
            table.delta(base, table.vector(file, 0), table.vector(other, 1)),
        ):
            assert (await table.refused(intent)).rule == "invalid-delete-file", intent
        new = table.data((9, "eu"))
        rejected = await table.refused(table.delta(base, table.vector(spelled(new, spelling), 0), added=[new]))
        assert (rejected.rule, rejected.hint) == ("invalid-delete-file", "fix")
        assert new.file_path in rejected.message
        await table.commit(table.delta(base, table.vector(file, 0), referenced_data_files=(other.file_path,)))
        assert await table.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_position_deletes_by_another_spelling_are_refused(spelling: str) -> None:
    async with local_table(version=2) as table:
        file = table.data(*ROWS)
        base = await table.commit(table.append(file))
        other = spelling.format(file.file_path)
        named = table.positions({other: [0]}, like=file)
        assert (await table.refused(table.delta(base, named))).rule == "invalid-delete-file"
        assert await table.ids() == [0, 1, 2, 3, 4]


async def test_delete_files_have_one_name_too() -> None:
    async with local_table() as table:
        file = table.data(*ROWS)
        base = await table.commit(table.append(file))
        first = table.vector(file, 0)
        await table.commit(table.delta(base, first))
        again = table.vector(file, 0, 1)
        rejected = await table.refused(table.delta(base, spelled(first, "file:{}")))
        assert rejected.rule == "duplicate-file"
        named = DeleteFileRef(file_path=f"file:{first.file_path}", content_offset=ref(first).content_offset)
        await table.commit(table.delta(base, again, removed_delete_files=(named,)))
        (left,) = await table.delete_files()
        assert left.file_path == again.file_path
        assert await table.ids() == [2, 3, 4]


async def left_twice(table: RealRows, file: ContentFile, *, together: bool) -> None:
    """Another writer, or firn before it compared names, has listed the file again as ``file:…``."""
    await table.commit(table.append(file))
    metadata, reader = await table.metadata(), StoredManifests(table.bench.files)
    head = metadata.current_snapshot
    assert head is not None
    assert head.manifest_list is not None
    (row,) = reader.manifests(metadata, head)
    (entry,) = reader.entries(metadata, row)
    first = msgspec.structs.replace(entry, status=Status.EXISTING)
    other = msgspec.structs.replace(first, data_file=spelled(entry.data_file, "file:{}"))
    rows = [_written(table, [first, other])] if together else [row, _written(table, [other])]
    listed = f"{metadata.location}/metadata/snap-{new_id()}.avro"
    encoded = encode_manifest_list(
        rows,
        snapshot_id=head.snapshot_id, parent_snapshot_id=None, sequence_number=head.sequence_number,
        format_version=metadata.format_version,
    )  # fmt: skip
    table.bench.files.create(listed, encoded)
    left = msgspec.structs.replace(
        metadata, snapshots=(msgspec.structs.replace(head, manifest_list=listed, summary={"operation": "append"}),)
    )
    location = f"{metadata.location}/metadata/{new_id()}.metadata.json"
    table.bench.files.create(location, encode_metadata(left))
    await table.bench.commit(DropTable(intent_id=new_id(), table=TABLE))
    await table.bench.commit(RegisterTable(intent_id=new_id(), table=TABLE, metadata_location=location))


def _written(table: RealRows, entries: list[ManifestEntry]) -> ManifestFile:
    encoded = encode_manifest(
        entries,
        schema=table.schema,
        spec=table.spec,
        content="data",
        format_version=2,
        snapshot_id=entries[0].snapshot_id,
    )
    location = f"{table.created.location}/metadata/{new_id()}-m0.avro"
    table.bench.files.create(location, encoded.data)
    return manifest_file(encoded, location)


@pytest.mark.parametrize("together", [False, True], ids=["in two manifests", "in one manifest"])
async def test_a_file_that_is_stored_in_two_spellings_is_found_and_removed_whole(together: bool) -> None:
    bench = Workbench(warehouse="/wh")
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        file = table.data(*ROWS)
        await left_twice(table, file, together=together)
        (finding,) = [one for one in await table.unsound() if one.invariant == "no-doubles"]
        assert finding.where == file.file_path
        assert f"file:{file.file_path}" in finding.message
    async with bench.daemon("b"):
        assert (await table.refused(table.append(file))).rule == "duplicate-file"
        await table.commit(table.delete(file))
        assert await table.entries() == []
        await table.commit(table.append(file))
        assert await table.ids() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_traces_of_a_lost_intent_are_found_in_every_spelling(spelling: str) -> None:
    async with local_table() as table:
        file = table.data(*ROWS)
        await table.commit(table.append(file))
        reader = TableReader(table.bench.files, limits=table.bench.limits)
        lost = table.append(spelled(file, spelling))
        found = evidence_of(lost, metadata=await table.metadata(), reader=reader)
        assert (found.files, found.live) == (1, 1)
