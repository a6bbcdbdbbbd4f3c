"""What another writer has stored in a table stops neither commits nor deletes of the files beside it."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import Append, DeleteFiles, DeleteWhere, Replace
from firn.model.manifest import FieldSummary
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Rejected
from firn.model.types import BINARY, STRING, TIMESTAMP, TIMESTAMP_NS
from tests.unit.coordinator.foreign_tables import SNAPSHOT, content_file, path, register
from tests.unit.coordinator.replay.real_rows import field_is
from tests.unit.coordinator.workbench import TABLE, Workbench, new_id
from tests.unit.storage.foreign_manifests import BAD, CASES, ID, OPEN, Case, long

STORABLE = [name for name, case in CASES.items() if case.type != TIMESTAMP_NS]
"""Cases that a v2 table can have."""

MERGE_AT_THREE = {"commit.manifest.min-count-to-merge": "3"}
INSTANT = 1_735_689_600_000


async def partitions(bench: Workbench) -> dict[str, Any]:
    """The partition values of the live files, by file name."""
    metadata = await bench.metadata()
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    reader = TableReader(bench.files, limits=bench.limits)
    return {
        entry.data_file.file_path.rpartition("/")[2]: entry.data_file.partition[0]
        for manifest in reader.manifests(metadata, snapshot)
        for entry in reader.entries(metadata, manifest)
        if entry.is_live
    }


def delete(*files: str) -> DeleteFiles:
    return DeleteFiles(intent_id=new_id(), table=TABLE, removed_data_files=files)


@pytest.mark.parametrize("name", STORABLE)
async def test_a_file_beside_another_can_be_deleted_whatever_its_partition_value_is(name: str) -> None:
    case = CASES[name]
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[case.stored, None, case.stored], [case.stored]])
        assert isinstance(await bench.commit(delete(path(0, "b"))), Committed)
        assert isinstance(await bench.commit(delete(path(0, "a"))), Committed)
    async with bench.daemon("b"):  # reads everything from storage
        assert await partitions(bench) == {"0c": case.value, "1a": case.value}
        assert isinstance(await bench.commit(delete(path(0, "c"), path(1, "a"))), Committed)
        assert await partitions(bench) == {}


@pytest.mark.parametrize("name", [name for name in STORABLE if name not in OPEN])
async def test_appends_commit_and_manifests_are_merged_beside_what_others_have_stored(name: str) -> None:
    case = CASES[name]
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[case.stored]] * 6, properties=MERGE_AT_THREE)
        for number in range(8):
            intent = Append(intent_id=new_id(), table=TABLE, data_files=(content_file(f"n{number}", None),))
            assert isinstance(await bench.commit(intent), Committed)
            await bench.merged()
        found = await partitions(bench)
        metadata = await bench.metadata()
        assert metadata.current_snapshot is not None
        listed = TableReader(bench.files, limits=bench.limits).manifests(metadata, metadata.current_snapshot)
    assert found == {f"{n}a": case.value for n in range(6)} | {f"n{n}.parquet": None for n in range(8)}
    assert len(listed) <= 9  # the six of a bad value may stay, or become one


@pytest.mark.parametrize("name", [*BAD, *OPEN])
async def test_a_file_with_a_value_out_of_its_type_can_be_compacted_away(name: str) -> None:
    case = CASES[name]
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[case.stored, case.stored]])
        intent = Replace(
            intent_id=new_id(), table=TABLE, base_snapshot_id=SNAPSHOT, removed_data_files=(path(0, "a"),)
        )  # fmt: skip
        assert isinstance(await bench.commit(intent), Committed)
        assert await partitions(bench) == {"0b": case.value}


@pytest.mark.parametrize("bad", [b"x" * 15 + b"\xe2", b"\xff", b""])
async def test_an_undecodable_bound_of_a_summary_hides_no_file_and_stops_no_delete(bad: bytes) -> None:
    summaries = (FieldSummary(contains_null=False, lower_bound=bad, upper_bound=b"\xff\xff"),)
    bench = Workbench()
    async with bench.daemon():
        await register(bench, Case(STRING, "string", None, None), [["x", "y"]] * 3, summaries=summaries)
        intent = DeleteWhere(intent_id=new_id(), table=TABLE, row_filter=field_is("c", "x"))
        assert isinstance(await bench.commit(intent), Committed)
        assert set(await partitions(bench)) == {"0b", "1b", "2b"}


@pytest.mark.parametrize(
    ("type", "value", "bound"),
    [
        (STRING, "0123456789abcdef0123", b"0123456789abcdef"),
        (STRING, "ä" * 20, "ä".encode() * 16),
        (STRING, "0123456789abc€" + "d" * 9, b"0123456789abc"),
        (BINARY, "30" * 20, b"0" * 16),
        (BINARY, "ff" * 20, b"\xff" * 16),
    ],
)
async def test_an_upper_bound_that_was_cut_and_not_rounded_up_hides_no_file(
    type: Any, value: str, bound: bytes
) -> None:
    """Elsewhere and here the delete reported success and deleted nothing."""
    stored = bytes.fromhex(value) if type == BINARY else value
    summaries = (FieldSummary(contains_null=False, lower_bound=bound, upper_bound=bound),)
    bench = Workbench()
    async with bench.daemon():
        kind = "bytes" if type == BINARY else "string"
        await register(bench, Case(type, kind, None, None), [[stored]], summaries=summaries)
        intent = DeleteWhere(intent_id=new_id(), table=TABLE, row_filter=field_is("c", value))
        assert isinstance(await bench.commit(intent), Committed)
        assert await partitions(bench) == {}


async def test_milliseconds_are_found_by_their_instant() -> None:
    case = Case(TIMESTAMP, long("timestamp-millis"), INSTANT, INSTANT * 1000)
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[INSTANT, INSTANT + 1], [INSTANT]])
        intent = DeleteWhere(intent_id=new_id(), table=TABLE, row_filter=field_is("c", "2025-01-01T00:00:00"))
        assert isinstance(await bench.commit(intent), Committed)
        assert await partitions(bench) == {"0b": (INSTANT + 1) * 1000}


@pytest.mark.parametrize("name", ["uuid of three bytes", "text that is no UTF-8"])
async def test_a_filter_neither_takes_nor_passes_over_a_file_of_an_unreadable_value(name: str) -> None:
    case = BAD[name]
    good = str(ID)
    stored = ID.bytes if name == "uuid of three bytes" else good
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[case.stored, stored]])
        refused = await bench.refuse(
            DeleteWhere(intent_id=new_id(), table=TABLE, row_filter=field_is("c", good))
        )  # fmt: skip
        assert isinstance(refused, Rejected)
        assert refused.rule == "partial-match"
        assert path(0, "a") in refused.message or path(0, "a") in refused.files
        assert isinstance(await bench.commit(delete(path(0, "a"))), Committed)
        again = DeleteWhere(intent_id=new_id(), table=TABLE, row_filter=field_is("c", good))
        assert isinstance(await bench.commit(again), Committed)
        assert await partitions(bench) == {}


async def test_a_summary_of_changed_partitions_spells_values_out_of_their_type() -> None:
    case = BAD["uuid that is no text of one"]
    bench = Workbench()
    async with bench.daemon():
        await register(bench, case, [[case.stored, case.stored]])
        updates = {"write.summary.partition-limit": "10"}
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates=updates))
        await bench.commit(delete(path(0, "a")))
        snapshot = (await bench.metadata()).current_snapshot
    assert snapshot is not None
    assert "partitions.p=nobody" in (snapshot.summary or {})
