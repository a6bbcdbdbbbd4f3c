"""A branch can be made on a table without snapshots: it starts with an empty one, as in Iceberg's Java library."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.metadata import TableMetadata
from firn.model.operations.refs import CherryPick, CreateBranch, CreateTag, FastForward, Publish
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def refs_of(metadata: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in metadata.refs.items()}


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_a_branch_on_an_empty_table_starts_with_an_empty_snapshot(format_version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(format_version=format_version))
        made = await bench.commit(
            intent(CreateBranch, ref_name="audit", min_snapshots_to_keep=3, max_ref_age_ms=10**12, summary={"by": "me"})
        )
        metadata = await bench.metadata()
        (empty,) = metadata.snapshots
        assert metadata.current_snapshot is None
        assert (made.snapshot_id, made.sequence_number) == (empty.snapshot_id, empty.sequence_number)
        assert (empty.parent_snapshot_id, (empty.summary or {})["by"]) == (None, "me")
        assert {name: (empty.summary or {})[name] for name in ("operation", "total-records", "total-data-files")} == {
            "operation": "append", "total-records": "0", "total-data-files": "0",
        }  # fmt: skip
        audit = metadata.refs["audit"]
        assert (audit.snapshot_id, audit.min_snapshots_to_keep, audit.max_ref_age_ms) == (made.snapshot_id, 3, 10**12)
        written = await bench.commit(append("a", branch="audit"))
        assert await bench.live() == []
        published = await bench.commit(intent(FastForward, to="audit"))
        assert published.snapshot_id == written.snapshot_id
        assert await bench.live() == ["a"]
        await bench.commit(append("b"))
        assert await bench.live() == ["a", "b"]
    snapshots = (await bench.metadata()).snapshots
    assert [one.parent_snapshot_id for one in snapshots] == [None, *(one.snapshot_id for one in snapshots[:-1])]


@pytest.mark.parametrize("format_version", [1, 2, 3])
async def test_a_branch_is_made_filled_and_published_in_one_batch(format_version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        outcomes = await bench.settle(
            create(format_version=format_version),
            intent(CreateBranch, ref_name="audit"),
            append("a", branch="audit"),
            append("b", branch="audit"),
            intent(FastForward, to="audit"),
            append("c"),
        )
        assert all(isinstance(one, Committed) for one in outcomes), outcomes
        assert await bench.live() == ["a", "b", "c"]


async def test_a_transaction_makes_a_branch_on_an_empty_table_and_fills_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        members = [intent(CreateBranch, ref_name="audit"), append("a", branch="audit"), intent(FastForward, to="audit")]
        await bench.commit(transaction(*members))
        assert await bench.live() == ["a"]


@pytest.mark.parametrize("kind", ["cherry-pick", "publish"])
async def test_what_an_empty_tables_branch_got_can_be_picked_to_main(kind: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(intent(CreateBranch, ref_name="audit"))
        if kind == "publish":
            await bench.commit(append("a", branch="audit", stage=True, wap_id="w"))
            await bench.commit(intent(Publish, wap_id="w"))
        else:
            picked = (await bench.commit(append("a", branch="audit"))).snapshot_id
            await bench.commit(intent(CherryPick, snapshot_id=picked))
        assert await bench.live() == ["a"]


async def test_a_branch_without_a_snapshot_starts_where_main_is_when_its_turn_comes() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first, made = await bench.settle(append("a"), intent(CreateBranch, ref_name="audit"))
        assert isinstance(first, Committed)
        assert isinstance(made, Committed)
        metadata = await bench.metadata()
    assert refs_of(metadata) == {"main": first.snapshot_id, "audit": first.snapshot_id}
    assert len(metadata.snapshots) == 1


async def test_of_two_that_make_one_branch_on_an_empty_table_the_second_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first, second = await bench.settle(
            intent(CreateBranch, ref_name="audit"), intent(CreateBranch, ref_name="audit")
        )
        assert isinstance(first, Committed)
        assert isinstance(second, Rejected)
        assert (second.rule, second.conflicting_snapshot_id) == ("ref-exists", first.snapshot_id)
        metadata = await bench.metadata()
    assert refs_of(metadata) == {"audit": first.snapshot_id}


async def test_a_second_branch_of_a_table_whose_main_is_empty_has_a_snapshot_of_its_own() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(intent(CreateBranch, ref_name="one"))
        await bench.commit(append("a", branch="one"))
        two = await bench.commit(intent(CreateBranch, ref_name="two"))
        metadata = await bench.metadata()
    snapshot = metadata.snapshot_by_id(two.snapshot_id or 0)
    assert snapshot is not None
    assert (snapshot.parent_snapshot_id, (snapshot.summary or {})["total-records"]) == (None, "0")


@pytest.mark.parametrize(
    ("kind", "members", "rule"),
    [
        (CreateTag, {"ref_name": "v1", "snapshot_id": 1}, "unknown-snapshot"),
        (CreateBranch, {"ref_name": "audit", "snapshot_id": 1}, "unknown-snapshot"),
        (CreateBranch, {"ref_name": "main", "max_ref_age_ms": 5}, "invalid-ref"),
    ],
)
async def test_what_cannot_be_on_an_empty_table_is_refused(kind: type, members: dict[str, Any], rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        before = await bench.metadata()
        assert (await bench.refuse(intent(kind, **members))).rule == rule
        assert await bench.metadata() == before
