"""Rows, bytes and row ids stay in 63 bits; what passes them is refused, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import Append, RowDelta
from firn.model.limits import Limits
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Committed, Outcome, Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, delete, new_id
from tests.unit.coordinator.workbench import replace as rewrite

MOST = 2**63 - 1


def rows(name: str, count: int, **changes: Any) -> Append:
    file = changed(content_file(name), record_count=count, **{"file_size_in_bytes": 1000, **changes})
    return append(data_files=(file,))


def size(name: str, count: int) -> Append:
    return rows(name, 1, file_size_in_bytes=count)


def refused(outcome: Outcome) -> bool:
    if isinstance(outcome, Committed):
        return False
    assert isinstance(outcome, Rejected)
    assert (outcome.rule, outcome.hint) == ("too-many-rows", "fix")
    assert outcome.files
    return True


async def readable(bench: Workbench) -> dict[str, str]:
    """The summary of a table whose metadata and manifests have been read anew."""
    metadata = await bench.metadata()
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    reader = TableReader(bench.files, limits=Limits())
    for manifest in reader.manifests(metadata, snapshot):
        reader.entries(metadata, manifest)
    assert (metadata.next_row_id or 0) <= MOST
    return dict(snapshot.summary or {})


GOOD = [append(f"good{n}") for n in range(3)]
CASES: dict[str, list[tuple[Append, bool]]] = {
    "most rows, then more": [(rows("a", MOST - 10), False), (append("b"), True)],
    "two halves": [(rows("a", 2**62), False), (append("b"), False), (rows("c", 2**62), True), (append("d"), False)],
    "one intent of two files": [
        (append(data_files=(*rows("a", 2**62).data_files, *rows("b", 2**62).data_files)), True), (append("c"), False),
    ],
    "good ones around": [*[(one, False) for one in GOOD], (rows("a", MOST), True), (append("b"), False)],
    "the first of its snapshot": [(rows("a", MOST), True), (append("b"), False)],
    "bytes": [(size("a", MOST - 2000), False), (size("b", MOST), True), (append("c"), False)],
}  # fmt: skip


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", CASES)
async def test_only_what_passes_the_limit_is_refused(name: str, together: bool, version: int) -> None:
    bench = Gathering()
    intents = [changed(intent, intent_id=new_id()) for intent, _ in CASES[name]]
    async with bench.daemon() as daemon:
        await bench.commit(create(format_version=version))
        if together:
            outcomes = await bench.gathered(daemon, *intents)
        else:
            await bench.commit(append("blocker"))
            outcomes = [(await bench.settle(intent))[0] for intent in intents]
        assert [refused(one) for one in outcomes] == [expected for _, expected in CASES[name]]
        summary = await readable(bench)
    assert int(summary["total-records"]) <= MOST
    assert int(summary["total-files-size"]) <= MOST


async def test_a_branch_that_has_most_rows_can_be_emptied_and_filled_again() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(rows("a", MOST))
        assert refused((await bench.settle(append("b")))[0])
        await bench.commit(delete("a"))
        await bench.commit(append("b"))


async def test_rows_of_a_table_that_comes_to_v3_count_before_those_that_are_added() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.commit(rows("old", 2**62))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        outcomes = await bench.gathered(daemon, rows("a", 2**62), append("b"), blocker="first")
        assert [refused(one) for one in outcomes] == [True, False]
        await readable(bench)


async def test_a_rewrite_takes_no_more_row_ids_than_there_are() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(format_version=3))
        files = (*rows("a", 2**62).data_files, *rows("b", 10).data_files)
        base = await bench.commit(append(data_files=files))
        assert base.snapshot_id is not None
        (outcome,) = await bench.settle(rewrite(["b"], ["c"], base=base.snapshot_id))
        assert isinstance(outcome, Rejected)
        assert (outcome.rule, outcome.hint) == ("too-many-rows", "fix")
        await bench.commit(append("d"))
        await bench.commit(delete("a", "b"))
        await readable(bench)


async def test_rows_of_delete_files_are_counted_by_themselves() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        first, second = (
            RowDelta(
                intent_id=new_id(),
                table=TABLE,
                delete_files=(
                    changed(content_file(name), content="equality-deletes", equality_ids=(1,), record_count=MOST),
                ),
            )
            for name in ("d", "e")
        )
        await bench.commit(first)
        assert refused((await bench.settle(second))[0])
        await bench.commit(append("c"))
        await readable(bench)
