"""Statistics files: attached to a snapshot that exists if they are of their kind and the table's own, and detached."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import DropTable, RegisterTable
from firn.model.operations.refs import CreateBranch
from firn.model.operations.upkeep import (
    ExpireSnapshots,
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
)
from firn.model.outcome import Committed
from firn.storage.metadata_files import encode_metadata
from firn.storage.pointers import Pointers
from tests.strategies.statistics_files import write_partition_statistics, write_statistics
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, new_id, path_of

FOLDER = f"{WAREHOUSE}/db/events/metadata"


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def table_statistics(bench: Workbench, snapshot_id: int | None, name: str = "stats.puffin") -> dict[str, Any]:
    assert snapshot_id is not None
    return write_statistics(bench.files, f"{FOLDER}/{name}", snapshot_id)


def partition_statistics(bench: Workbench, snapshot_id: int | None, name: str = "counts.parquet") -> dict[str, Any]:
    assert snapshot_id is not None
    return write_partition_statistics(bench.files, f"{FOLDER}/{name}", snapshot_id)


def attach(members: dict[str, Any], *, partition: bool) -> Any:
    if partition:
        return intent(SetPartitionStatistics, partition_statistics=members)
    return intent(SetStatistics, statistics=members)


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_statistics_are_attached_and_detached(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog=catalog))
        first = (await bench.commit(append("a"))).snapshot_id
        puffin, counts = table_statistics(bench, first), partition_statistics(bench, first)
        outcomes = await bench.settle(
            append("b"), attach(puffin, partition=False), attach(counts, partition=True), append("c")
        )
        assert all(isinstance(o, Committed) for o in outcomes)
        metadata = await bench.metadata()
        assert metadata.statistics == (puffin,)
        assert metadata.partition_statistics == (counts,)
        await bench.commit(intent(RemoveStatistics, snapshot_id=first))
        await bench.commit(intent(RemovePartitionStatistics, snapshot_id=first))
        await bench.commit(intent(RemovePartitionStatistics, snapshot_id=1))
        metadata = await bench.metadata()
    assert (metadata.statistics, metadata.partition_statistics) == ((), ())


async def test_newer_statistics_take_the_place_of_older_ones() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        newer = table_statistics(bench, first, "newer.puffin")
        await bench.commit(attach(table_statistics(bench, first), partition=False))
        await bench.commit(attach(newer, partition=False))
        assert (await bench.metadata()).statistics == (newer,)


async def test_nothing_is_attached_to_a_snapshot_that_has_expired() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(append("b"))
        await bench.commit(intent(ExpireSnapshots, older_than_ms=2**62))
        for late in (
            attach(table_statistics(bench, first), partition=False),
            attach(partition_statistics(bench, first), partition=True),
        ):
            assert (await bench.refuse(late)).rule == "unknown-snapshot"
        assert (await bench.metadata()).statistics == ()


@pytest.mark.parametrize("partition", [False, True])
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"snapshot-id": "one"}, "invalid-field"),
        ({"file-size-in-bytes": -1}, "invalid-field"),
        ({"statistics-path": 1}, "invalid-field"),
        ({"statistics-path": f"{WAREHOUSE}/db/other/stats.puffin"}, "location-not-allowed"),
        ({"statistics-path": f"{FOLDER}/missing.puffin"}, "not-a-statistics-file"),
        ({"file-size-in-bytes": 100}, "not-a-statistics-file"),
    ],
)
async def test_what_is_no_statistics_file_of_the_table_is_refused(
    changes: dict[str, Any], rule: str, *, partition: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        right = partition_statistics(bench, first) if partition else table_statistics(bench, first)
        refused = await bench.refuse(attach({**right, **changes}, partition=partition))
        assert (refused.rule, refused.hint) == (rule, "fix")
        assert (await bench.metadata()).statistics == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"file-footer-size-in-bytes": 12},
        {"blob-metadata": []},
        {"blob-metadata": [{"type": "apache-datasketches-theta-v1"}] * 2},
        {"blob-metadata": [{"type": "ndv"}]},
        {"blob-metadata": [{"snapshot-id": 1}]},
        {"blob-metadata": [{"sequence-number": 7}]},
        {"blob-metadata": [{"fields": [2]}]},
        {"blob-metadata": [{"fields": [[1]]}]},
        {"blob-metadata": [{"fields": [True]}]},
        {"blob-metadata": [{"properties": {"ndv": "1000000"}}]},
    ],
)
async def test_statistics_that_differ_from_their_file_are_refused(changes: dict[str, Any]) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        right = table_statistics(bench, (await bench.commit(append("a"))).snapshot_id)
        (blob,) = right["blob-metadata"]
        if "blob-metadata" in changes:
            changes = {"blob-metadata": [{**blob, **one} for one in changes["blob-metadata"]]}
        assert (await bench.refuse(attach({**right, **changes}, partition=False))).rule == "not-a-statistics-file"
        bare = {name: value for name, value in blob.items() if name != "properties"}
        await bench.commit(attach({**right, "blob-metadata": [bare]}, partition=False))


async def named_files(bench: Workbench, table: RealRows) -> dict[str, str]:
    """Every kind of file that a table names, by what it is."""
    data, more = table.data((1, "eu"), (2, "eu")), table.data((3, "eu"))
    base = await table.commit(table.append(data, more))
    vector = table.vector(data, 0)
    await table.commit(table.delta(base, vector))
    counts = partition_statistics(bench, base, "own.parquet")
    puffin = table_statistics(bench, base, "own.puffin")
    await bench.commit(attach(counts, partition=True))
    await bench.commit(attach(puffin, partition=False))
    head = (await bench.metadata()).current_snapshot
    assert head is not None
    assert head.manifest_list is not None
    pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    assert pointer.journal_head is not None
    reader = TableReader(bench.files, limits=bench.limits)
    manifests = reader.manifests(await bench.metadata(), head)
    return {
        "data file": data.file_path,
        "deletion vector": vector.file_path,
        "manifest list": head.manifest_list,
        "manifest": manifests[0].manifest_path,
        "metadata file": pointer.metadata_location,
        "journal segment": pointer.journal_head,
        "statistics": puffin["statistics-path"],
        "partition statistics": counts["statistics-path"],
    }


async def test_no_live_file_of_a_table_can_be_called_its_statistics() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        named = await named_files(bench, table)
        snapshot = (await bench.metadata()).current_snapshot_id
        for what, path in named.items():
            for spelled in (path, path.replace("memory://wh", "MEMORY://WH")):
                members = {"snapshot-id": snapshot, "statistics-path": spelled}
                members |= {"file-size-in-bytes": bench.files.size(path), "file-footer-size-in-bytes": 0}
                for partition in (False, True):
                    if what == ("partition statistics" if partition else "statistics"):
                        continue
                    wrong = attach({**members, "blob-metadata": []}, partition=partition)
                    refused = await bench.refuse(wrong)
                    assert refused.rule == "not-a-statistics-file", (what, spelled, partition)
                    assert path.rpartition("/")[2] in refused.message


@pytest.mark.parametrize("branch", ["main", "audit"])
async def test_a_live_data_file_with_the_columns_of_partition_statistics_is_none(branch: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("first"))).snapshot_id
        assert base is not None
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        members = write_partition_statistics(bench.files, path_of("a"), base)
        await bench.commit(append("a", branch=branch))
        refused = await bench.refuse(attach(members, partition=True))
        assert refused.rule == "not-a-statistics-file"
        assert f"is a data file of branch '{branch}'" in refused.message


async def test_one_wrong_statistics_file_refuses_its_intent_only() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        right = table_statistics(bench, (await bench.commit(append("a"))).snapshot_id)
        wrong = {**right, "statistics-path": path_of("a")}
        outcomes = await bench.settle(
            append("b"), attach(wrong, partition=False), append("c"), attach(right, partition=False)
        )
        assert [isinstance(one, Committed) for one in outcomes] == [True, False, True, True]


async def test_a_table_is_not_registered_whose_statistics_are_files_of_another_kind() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench)
        named = await named_files(bench, table)
        metadata = await bench.metadata()
        await bench.commit(intent(DropTable))
        right, counts = metadata.statistics, metadata.partition_statistics
        missing = {**right[0], "statistics-path": f"{FOLDER}/gone.puffin"}
        for number, (what, path) in enumerate(named.items()):
            for member, good in (("statistics", right), ("partition_statistics", counts)):
                if what == member.replace("_", " "):
                    continue
                changed = msgspec.structs.replace(metadata, **{member: ({**good[0], "statistics-path": path},)})
                at = f"{FOLDER}/{number}-{member}.metadata.json"
                bench.files.create(at, encode_metadata(changed))
                refused = await bench.refuse(intent(RegisterTable, metadata_location=at))
                assert (refused.rule, refused.hint) == ("not-a-statistics-file", "fix"), (what, member)
                assert path in refused.message
        at = f"{FOLDER}/right.metadata.json"
        bench.files.create(at, encode_metadata(msgspec.structs.replace(metadata, statistics=(*right, missing))))
        await bench.commit(intent(RegisterTable, metadata_location=at))
