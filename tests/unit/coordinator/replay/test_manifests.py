"""Manifests that writers bring along, and manifests that are rewritten: the files are what they were."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from firn.coordinator.replay import merging
from firn.model.intent import DeleteFiles, RewriteManifests, WrittenManifest
from firn.model.manifest import ManifestEntry, Status
from firn.model.operations.refs import CreateBranch
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Committed
from firn.model.types import LONG
from firn.model.values import to_bytes
from firn.storage.manifest_reader import StoredManifests
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, Workbench, append, new_id

ONE, TWO, THREE = ((1, "eu"), (2, "eu")), ((3, "us"),), ((4, "us"), (5, "us"), (6, "us"))


async def manifest_paths(table: RealRows, content: str = "data") -> list[str]:
    metadata = await table.metadata()
    assert metadata.current_snapshot is not None
    manifests = StoredManifests(table.bench.files).manifests(metadata, metadata.current_snapshot)
    return [manifest.manifest_path for manifest in manifests if manifest.content == content]


def rewrite(removed: list[str], *written: WrittenManifest, **members: Any) -> RewriteManifests:
    return RewriteManifests(
        intent_id=new_id(), table=TABLE, removed_manifests=tuple(removed), manifests=written, **members
    )


def existing(entry: ManifestEntry, **changes: Any) -> ManifestEntry:
    return msgspec.structs.replace(entry, status=Status.EXISTING, **changes)


# ---------------------------------------------------------------------------------------------------------------------
# Appended


@pytest.mark.parametrize("version", [2, 3])
async def test_a_manifest_is_appended_as_it_was_written(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        written = table.manifest(table.added(table.data(*ONE), table.data(*TWO)))
        await table.commit(table.append(manifests=(written,)))
        summary = (await table.snapshot()).summary or {}  # type: ignore[union-attr]
        assert await manifest_paths(table) == [written.manifest_path]
        assert await table.unsound() == ()
        assert {entry.sequence_number for entry in await table.entries()} == {1}
    assert (summary["added-data-files"], summary["total-records"]) == ("2", "3")
    assert await table.ids() == [1, 2, 3]


async def test_manifests_and_files_of_one_batch_share_a_snapshot() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench)
        intents = [
            table.append(table.data(*ONE)),
            table.append(manifests=(table.manifest(table.added(table.data(*TWO))),)),
            table.append(table.data((7, "eu")), manifests=(table.manifest(table.added(table.data(*THREE))),)),
        ]
        outcomes = await bench.gathered(daemon, *intents)
        assert len({o.snapshot_id for o in outcomes if isinstance(o, Committed)}) == 1
        await table.commit(table.delete(next(iter(intents[0].data_files))))
        live = [e.data_file for e in await table.entries() if not e.data_file.file_path.endswith("blocker.parquet")]
        ranges = sorted((file.first_row_id or 0, file.record_count) for file in live)
    for (start, count), (after, _) in pairwise(ranges):
        assert start + count <= after


async def test_a_file_comes_by_one_manifest_or_file_only() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*ONE)
        first, second = table.manifest(table.added(file)), table.manifest(table.added(file))
        assert (await table.refused(table.append(manifests=(first, second)))).rule == "duplicate-file"
        assert (await table.refused(table.append(file, manifests=(first,)))).rule == "duplicate-file"
        await table.commit(table.append(manifests=(first,)))
        assert (await table.refused(table.append(manifests=(first,)))).rule == "duplicate-file"
        assert (await table.refused(table.append(file))).rule == "duplicate-file"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"upper_bounds": {1: b"\0"}}, "upper-bounds: the bound of column 1"),
        ({"lower_bounds": {2: b"\xff"}}, "lower-bounds: the bound of column 2"),
        ({"value_counts": {1: -1}}, "value-counts: -1"),
        ({"partition": (99,)}, "partition[0]: partition field 'b'"),
    ],
)
async def test_a_manifest_with_values_that_no_row_has_is_refused(
    changes: dict[str, Any], said: str, version: int
) -> None:
    bench = Workbench()
    buckets = [{"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"}]
    async with bench.daemon():
        table = await RealRows.create(bench, version=version, partition_spec={"spec-id": 0, "fields": buckets})
        (entry,) = table.added(table.data(*ONE, partition=(1,)))
        bad = msgspec.structs.replace(entry, data_file=msgspec.structs.replace(entry.data_file, **changes))
        refused = await table.refused(table.append(manifests=(table.manifest([bad]),)))
        await table.commit(table.append(manifests=(table.manifest([entry]),)))
    assert (refused.rule, refused.hint) == ("invalid-manifest", "fix")
    assert said in refused.message


@pytest.mark.parametrize("stage", [False, True])
async def test_a_manifest_of_v1_is_copied_so_that_its_files_are_of_the_snapshot_that_adds_them(stage: bool) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=1)
        written = table.manifest(table.added(table.data(*ONE), table.data(*TWO)), snapshot_id=77)
        snapshot_id = await table.commit(table.append(table.data((7, "eu")), manifests=(written,), stage=stage))
        entries = await table.entries(snapshot_id=snapshot_id)
        if not stage:
            assert written.manifest_path not in await manifest_paths(table)
            assert (await table.refused(table.append(manifests=(written,)))).rule == "duplicate-file"
            assert await table.unsound() == ()
            assert await table.ids() == [1, 2, 3, 7]
    assert [entry.snapshot_id for entry in entries] == [snapshot_id] * 3


@pytest.mark.parametrize("wrong", ["existing", "snapshot", "sequence-number", "length", "count", "gone", "deletes"])
async def test_a_manifest_that_is_not_of_plain_new_files_is_refused(wrong: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        (entry,) = table.added(table.data(*ONE))
        numbered = {"snapshot_id": 1, "sequence_number": 1, "file_sequence_number": 1}
        match wrong:
            case "existing":
                written = table.manifest([existing(entry, **numbered)])
            case "snapshot":
                written = table.manifest([entry], snapshot_id=77)
            case "sequence-number":
                written = table.manifest([msgspec.structs.replace(entry, sequence_number=1)])
            case "deletes":
                written = table.manifest(table.added(table.equality(1)), content="deletes")
            case _:
                written = table.manifest([entry])
        if wrong == "length":
            written = msgspec.structs.replace(written, manifest_length=written.manifest_length - 1)
        elif wrong == "count":
            written = msgspec.structs.replace(written, files_count=2)
        elif wrong == "gone":
            bench.files.delete(written.manifest_path)
        lost = await table.refused(table.append(manifests=(written,)))
        await table.commit(table.append(table.data(*TWO)))
    assert (lost.rule, lost.hint, lost.files) == ("invalid-manifest", "fix", (written.manifest_path,))


async def test_a_manifest_of_another_place_or_spec_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        written = table.manifest(table.added(table.data(*ONE)))
        elsewhere = msgspec.structs.replace(written, manifest_path="memory://wh/db/other/m.avro")
        other_spec = msgspec.structs.replace(written, partition_spec_id=7)
        (entry,) = table.added(table.data(*TWO))
        foreign = msgspec.structs.replace(entry.data_file, file_path="memory://wh/db/other/f.parquet")
        stray = table.manifest([msgspec.structs.replace(entry, data_file=foreign)])
        rules = [(await table.refused(table.append(manifests=(one,)))).rule for one in (elsewhere, other_spec, stray)]
    assert rules == ["location-not-allowed", "unknown-spec", "location-not-allowed"]


# ---------------------------------------------------------------------------------------------------------------------
# Rewritten


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_manifests_are_rewritten_and_files_keep_their_numbers(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        for rows in (ONE, TWO, THREE):
            await table.commit(table.append(table.data(*rows)))
        before = await table.entries()
        removed = await manifest_paths(table)
        written = table.manifest([existing(entry) for entry in before], snapshot_id=before[0].snapshot_id)
        await table.commit(rewrite(removed, written))
        assert await manifest_paths(table) == [written.manifest_path]
        after = {entry.data_file.file_path: entry for entry in await table.entries()}
        assert all(existing(entry) == after[entry.data_file.file_path] for entry in before)
        snapshot = await table.snapshot()
        assert snapshot is not None
        counts = {key: value for key, value in (snapshot.summary or {}).items() if "manifests-" in key}
        assert counts == {"manifests-created": "1", "manifests-kept": "0", "manifests-replaced": "3"}
        assert snapshot.operation == "replace"
        (second,) = [entry.data_file.file_path for entry in before if entry.data_file.record_count == 1]
        await table.commit(DeleteFiles(intent_id=new_id(), table=TABLE, removed_data_files=(second,)))
        assert await table.unsound() == ()
    assert await table.ids() == [1, 2, 4, 5, 6]


async def test_manifests_of_deletes_are_rewritten_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        one, three = table.data(*ONE), table.data(*THREE)
        base = await table.commit(table.append(one, three))
        for file in (one, three):
            base = await table.commit(table.delta(base, table.vector(file, 0)))
        deletes = [entry for entry in await table.entries() if entry.data_file.content != "data"]
        removed = await manifest_paths(table, "deletes")
        assert len(removed) == 2
        written = table.manifest([existing(entry) for entry in deletes], content="deletes", snapshot_id=base)
        await table.commit(rewrite(removed, written))
        await table.commit(table.delta(base, table.vector(three, 1)))
        await table.commit(table.delete(one))
        assert len(await table.delete_files()) == 1
        assert await table.unsound() == ()
    assert await table.ids() == [6]


async def test_manifests_that_are_not_listed_any_more_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        file = table.data(*ONE)
        await table.commit(table.append(file, table.data(*TWO)))
        before, removed = await table.entries(), await manifest_paths(table)
        written = table.manifest([existing(entry) for entry in before], snapshot_id=before[0].snapshot_id)
        await table.commit(table.delete(file))
        lost = await table.refused(rewrite(removed, written))
    assert (lost.rule, lost.hint, lost.files) == ("missing-manifest", "replan", tuple(removed))


async def test_an_append_meanwhile_is_no_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*ONE)))
        before, removed = await table.entries(), await manifest_paths(table)
        written = table.manifest([existing(entry) for entry in before], snapshot_id=before[0].snapshot_id)
        await table.commit(table.append(table.data(*TWO)))
        await table.commit(rewrite(removed, written))
    assert await table.ids() == [1, 2, 3]


@pytest.mark.parametrize("wrong", ["lost", "twice", "added", "younger", "row-id", "format", "bounds", "counts"])
async def test_manifests_that_list_other_files_are_refused(wrong: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*ONE), table.data(*TWO)))
        before, removed = await table.entries(), await manifest_paths(table)
        first, second = [existing(entry) for entry in before]
        wrongly = functools.partial(msgspec.structs.replace, second.data_file)
        lower = {**(second.data_file.lower_bounds or {}), 1: to_bytes(LONG, 1_000)}
        entries = {
            "lost": [first],
            "twice": [first, second, second],
            "added": [first, *table.added(table.data(*THREE))],
            "younger": [first, existing(second, sequence_number=5)],
            "row-id": [first, existing(second, data_file=wrongly(first_row_id=1_000))],
            "format": [first, existing(second, data_file=wrongly(file_format="orc"))],
            "bounds": [first, existing(second, data_file=wrongly(lower_bounds=lower))],
            "counts": [first, existing(second, data_file=wrongly(null_value_counts={1: 1, 2: 1}))],
        }[wrong]
        lost = await table.refused(rewrite(removed, table.manifest(entries, snapshot_id=first.snapshot_id)))
    assert (lost.rule, lost.hint) == ("manifest-mismatch", "fix")


async def test_manifests_may_be_rewritten_without_metrics() -> None:
    """What is not said makes scans slower, not wrong."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        await table.commit(table.append(table.data(*ONE)))
        before, removed = await table.entries(), await manifest_paths(table)
        bare = msgspec.structs.replace(before[0].data_file, lower_bounds=None, upper_bounds={}, value_counts=None)
        written = table.manifest([existing(before[0], data_file=bare)], snapshot_id=before[0].snapshot_id)
        await table.commit(rewrite(removed, written))
    assert await table.ids() == [1, 2]


async def test_a_branch_rewrites_its_own_manifests() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        base = await table.commit(table.append(table.data(*ONE)))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="dev", snapshot_id=base))
        await table.commit(table.append(table.data(*TWO), branch="dev"))
        await table.commit(table.append(table.data(*THREE)))
        head = (await table.metadata()).refs["dev"].snapshot_id
        before = await table.entries(snapshot_id=head)
        metadata = await table.metadata()
        snapshot = metadata.snapshot_by_id(head)
        assert snapshot is not None
        listed = StoredManifests(bench.files).manifests(metadata, snapshot)
        written = table.manifest([existing(entry) for entry in before], snapshot_id=head)
        await table.commit(rewrite([m.manifest_path for m in listed], written, branch="dev"))
        assert len(await table.entries(snapshot_id=(await table.metadata()).refs["dev"].snapshot_id)) == 2
    assert await table.ids() == [1, 2, 4, 5, 6]
    assert await table.ids(ref="dev") == [1, 2, 3]


async def test_an_upgraded_table_keeps_row_ids_when_its_manifests_are_rewritten() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data(*ONE), table.data(*TWO)))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        await bench.commit(append("later"))
        table.created = await table.metadata()
        old = [entry for entry in await table.entries() if entry.data_file.first_row_id is not None]
        assert len(old) == 3
        removed = await manifest_paths(table)
        written = table.manifest([existing(entry) for entry in old], snapshot_id=old[0].snapshot_id)
        await table.commit(rewrite(removed, written))
        after = {entry.data_file.file_path: entry.data_file.first_row_id for entry in await table.entries()}
    assert after == {entry.data_file.file_path: entry.data_file.first_row_id for entry in old}


async def test_the_first_commit_after_an_upgrade_gives_each_row_an_id_of_its_own() -> None:
    """Manifests that are written anew take their ids behind those that older ones get now, not the same."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, partitioned=True)
        kept, gone = table.data(*ONE), table.data(*TWO)
        await table.commit(table.append(kept, gone))
        base = await table.commit(table.append(table.data((7, "as"))))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        await table.commit(table.replace_partitions(base, table.data((8, "us"))))
        row_ids = await table.row_ids()
        assert await table.unsound() == ()
    assert sorted(row_ids) == [1, 2, 7, 8]
    assert sorted(row_ids.values()) == [0, 1, 2, 3]


# ---------------------------------------------------------------------------------------------------------------------
# Merged


async def test_small_manifests_are_merged_by_every_operation_deletes_too() -> None:
    """A stream of row deltas must not make lists that only grow."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, properties={"commit.manifest.min-count-to-merge": "4"})
        base = None
        for n in range(12):
            file = table.data((2 * n, "eu"), (2 * n + 1, "eu"))
            base = await table.commit(table.append(file))
            delta = table.delta(base, table.vector(file, 0), added=[table.data((100 + n, "eu"))], isolation="snapshot")
            await table.commit(delta)
            await bench.merged()
        assert len(await manifest_paths(table)) <= 10
        assert len(await manifest_paths(table, "deletes")) <= 4
        row_ids = await table.row_ids()
        removed = [e.data_file.file_path for e in await table.entries() if e.data_file.record_count == 2][:3]
        await table.commit(DeleteFiles(intent_id=new_id(), table=TABLE, removed_data_files=tuple(removed)))
        left = await table.row_ids()
        assert len(await table.delete_files()) == 9
        assert await table.unsound() == ()
    assert {id: row_ids[id] for id in left} == left
    assert sorted(row_ids) == [*range(1, 24, 2), *range(100, 112)]


async def test_a_swap_of_many_snapshots_merges_once_and_its_rows_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Gathering()
    taken: list[int] = []

    def counted(working: Any, manifests: Any, **settings: Any) -> Any:
        kept, names = merging.take_over(working, manifests, **settings)
        taken.extend([working.next_sequence_number] if names else [])
        return kept, names

    monkeypatch.setattr("firn.coordinator.replay.append.take_over", counted)
    properties = {"commit.manifest.min-count-to-merge": "3", "firn.append-mode": "per-intent"}
    async with bench.daemon() as daemon:
        table = await RealRows.create(bench, properties=properties)
        for turn in range(4):
            await bench.gathered(
                daemon, *(table.append(table.data((10 * turn + n, "eu"))) for n in range(5)), blocker=f"blocker-{turn}"
            )
            await bench.merged()
        assert (await table.metadata()).last_sequence_number == 24
        assert 2 <= len(taken) <= 8, "eight swaps"
        assert len(await manifest_paths(table)) <= 10
        # The blockers' files do not exist.
        assert all("blocker" in finding.where for finding in await table.unsound())
    entries = [e for e in await table.entries() if "blocker" not in e.data_file.file_path]
    assert len(entries) == 20


@pytest.mark.parametrize("version", [2, 3])
async def test_a_manifest_of_an_attempt_that_did_not_come_off_gets_the_numbers_of_the_next(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        file = table.data(*ONE)
        bench.sessions["a"].drop_next_write("before")
        committed = await table.committed(table.append(manifests=(table.manifest(table.added(file)),)))
        assert committed.replays == 1
        await table.commit(table.delete_where({"type": "eq", "term": "id", "value": 4711}))
        assert [entry.sequence_number for entry in await table.entries()] == [committed.sequence_number]
        await table.commit(table.delete(file))
        assert await table.unsound() == ()
    assert await table.ids() == []
