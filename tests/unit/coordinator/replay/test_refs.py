"""Branches and tags: each operation does what it says, and refuses what its writer did not foresee."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.metadata import TableMetadata
from firn.model.operations.refs import (
    CreateBranch,
    CreateTag,
    FastForward,
    RemoveRef,
    RenameBranch,
    Rollback,
    SetCurrentSnapshot,
    SetRef,
    SetRetention,
)
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def refs_of(metadata: TableMetadata) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in metadata.refs.items()}


@pytest.fixture(params=["metastore", "file-system"])
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def with_history(bench: Workbench, *names: str, **members: Any) -> list[int]:
    """A table with one snapshot per name, oldest first."""
    await bench.commit(create(**members))
    ids = [(await bench.commit(append(name))).snapshot_id for name in names]
    assert None not in ids
    return ids  # type: ignore[return-value]


async def test_a_branch_and_a_tag_are_made_where_they_are_told(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b", catalog=catalog)
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=first, min_snapshots_to_keep=3))
        await bench.commit(intent(CreateTag, ref_name="eom", snapshot_id=second, max_ref_age_ms=1000))
        await bench.commit(append("c", branch="dev"))
        metadata = await bench.metadata()
    dev, tag = metadata.refs["dev"], metadata.refs["eom"]
    assert (dev.type, dev.min_snapshots_to_keep) == ("branch", 3)
    assert (tag.type, tag.snapshot_id, tag.max_ref_age_ms) == ("tag", second, 1000)
    assert metadata.snapshots[-1].parent_snapshot_id == first
    assert await bench.live() == ["a", "b"]


async def test_a_branch_is_made_and_filled_in_one_batch() -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        outcomes = await bench.settle(
            append("b"),
            intent(CreateBranch, ref_name="dev", snapshot_id=first),
            append("c", branch="dev"),
            append("d"),
        )
        metadata = await bench.metadata()
    assert all(isinstance(o, Committed) for o in outcomes)
    dev = metadata.head("dev")
    assert dev is not None
    assert dev.parent_snapshot_id == first
    assert await bench.live() == ["a", "b", "d"]


async def test_a_ref_moves_only_from_where_its_writer_saw_it_and_names_what_falls_off(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second, third = await with_history(bench, "a", "b", "c", catalog=catalog)
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=second))
        refused = await bench.refuse(intent(SetRef, ref_name="dev", snapshot_id=third, expected_snapshot_id=first))
        moved = await bench.commit(intent(SetRef, ref_name="dev", snapshot_id=first, expected_snapshot_id=second))
        ahead = await bench.commit(intent(SetRef, ref_name="dev", snapshot_id=third, expected_snapshot_id=first))
        metadata = await bench.metadata()
    assert (refused.rule, refused.hint, refused.base_snapshot_id) == ("ref-moved", "replan", first)
    assert refused.conflicting_snapshot_id == second
    assert moved.details == {"fallen-off": [second], "fallen-off-count": 1}
    assert ahead.details == {}
    assert refs_of(metadata)["dev"] == third


async def test_of_two_writers_who_move_one_branch_the_second_hears_of_the_first() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second, third = await with_history(bench, "a", "b", "c")
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=first))
        outcomes = await bench.settle(
            intent(SetRef, ref_name="dev", snapshot_id=second, expected_snapshot_id=first),
            intent(SetRef, ref_name="dev", snapshot_id=third, expected_snapshot_id=first),
        )
    assert [type(o) for o in outcomes] == [Committed, Rejected]
    assert outcomes[1].rule == "ref-moved"  # type: ignore[union-attr]
    assert outcomes[1].conflicting_snapshot_id == second  # type: ignore[union-attr]


async def test_what_is_expected_of_one_branch_does_not_stand_in_for_another() -> None:
    """Case 7: two branches are moved together, each with its own expectation, and the second has moved on."""
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b")
        await bench.settle(
            intent(CreateBranch, ref_name="one", snapshot_id=first),
            intent(CreateBranch, ref_name="two", snapshot_id=first),
        )
        unseen = await bench.commit(append("unseen", branch="two"))
        outcomes = await bench.settle(
            intent(SetRef, ref_name="one", snapshot_id=second, expected_snapshot_id=first),
            intent(SetRef, ref_name="two", snapshot_id=second, expected_snapshot_id=first),
        )
        metadata = await bench.metadata()
    assert [type(o) for o in outcomes] == [Committed, Rejected]
    assert refs_of(metadata)["one"] == second
    assert refs_of(metadata)["two"] == unseen.snapshot_id


async def test_a_branch_is_renamed_and_removed(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a", catalog=catalog)
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=first))
        await bench.commit(intent(RenameBranch, ref_name="dev", new_name="test"))
        assert set((await bench.metadata()).refs) == {"main", "test"}
        moved = await bench.commit(append("b", branch="test"))
        assert (await bench.refuse(append("c", branch="dev"))).rule == "unknown-branch"
        lost = await bench.refuse(intent(RemoveRef, ref_name="test", expected_snapshot_id=first))
        assert lost.rule == "ref-moved"
        await bench.commit(intent(RemoveRef, ref_name="test", expected_snapshot_id=moved.snapshot_id))
        metadata = await bench.metadata()
    assert set(metadata.refs) == {"main"}
    assert len(metadata.snapshots) == 2


async def test_a_branch_is_fast_forwarded_to_where_the_other_is_when_its_turn_comes() -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=first))
        outcomes = await bench.settle(
            append("b", branch="audit"), append("c", branch="audit"), intent(FastForward, to="audit"), append("d")
        )
        metadata = await bench.metadata()
    assert all(isinstance(o, Committed) for o in outcomes)
    assert outcomes[2].snapshot_id == refs_of(metadata)["audit"]  # type: ignore[union-attr]
    assert await bench.live() == ["a", "b", "c", "d"]


async def test_a_fast_forward_to_where_the_branch_is_changes_nothing() -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        before = await bench.metadata()
        assert (await bench.commit(intent(FastForward, to="main"))).snapshot_id == first
        assert await bench.metadata() == before


async def test_a_fast_forward_that_would_lose_a_commit_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=first))
        await bench.commit(append("b", branch="audit"))
        ahead = await bench.commit(append("c"))
        refused = await bench.refuse(intent(FastForward, to="audit"))
    assert refused.rule == "not-an-ancestor"
    assert refused.conflicting_snapshot_id == ahead.snapshot_id
    assert await bench.live() == ["a", "c"]


async def test_retention_is_changed_setting_by_setting() -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        await bench.commit(intent(CreateBranch, ref_name="dev", snapshot_id=first, max_ref_age_ms=5))
        await bench.commit(intent(SetRetention, ref_name="dev", min_snapshots_to_keep=7, expected_snapshot_id=first))
        dev = (await bench.metadata()).refs["dev"]
    assert (dev.min_snapshots_to_keep, dev.max_snapshot_age_ms, dev.max_ref_age_ms) == (7, None, 5)


async def test_a_rollback_names_every_commit_that_falls_off_those_it_did_not_know_too(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second, third = await with_history(bench, "a", "b", "c", catalog=catalog)
        outcomes = await bench.settle(append("unseen"), intent(Rollback, snapshot_id=first), append("d"))
        assert all(isinstance(o, Committed) for o in outcomes)
        unseen, rolled_back, after = outcomes
        metadata = await bench.metadata()
    assert rolled_back.snapshot_id == first  # type: ignore[union-attr]
    lost = [unseen.snapshot_id, third, second]  # type: ignore[union-attr]
    assert rolled_back.details == {"fallen-off": lost, "fallen-off-count": 3}
    assert metadata.current_snapshot_id == after.snapshot_id  # type: ignore[union-attr]
    assert await bench.live() == ["a", "d"]
    assert metadata.last_sequence_number == 5


async def test_a_rollback_can_insist_on_the_head_that_its_writer_saw() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b")
        unseen = await bench.commit(append("unseen"))
        refused = await bench.refuse(intent(Rollback, snapshot_id=first, expected_snapshot_id=second))
    assert (refused.rule, refused.conflicting_snapshot_id) == ("ref-moved", unseen.snapshot_id)


async def test_a_rollback_to_a_time_takes_the_newest_older_snapshot() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b")
        metadata = await bench.metadata()
        snapshot = metadata.snapshot_by_id(second)
        assert snapshot is not None
        rolled_back = await bench.commit(intent(Rollback, timestamp_ms=snapshot.timestamp_ms))
        refused = await bench.refuse(intent(Rollback, timestamp_ms=1))
        assert "no snapshot older than 1970-01-01T00:00:00.001+00:00" in refused.message
    assert rolled_back.snapshot_id == first
    assert refused.rule == "unknown-snapshot"
    assert await bench.live() == ["a"]


async def test_a_delete_after_a_rollback_finds_what_is_live_then() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b")
        await bench.commit(intent(CreateTag, ref_name="keep", snapshot_id=second))
        outcomes = await bench.settle(
            intent(Rollback, snapshot_id=first), append("b2"), intent(SetCurrentSnapshot, snapshot_id=second)
        )
        assert all(isinstance(o, Committed) for o in outcomes)
        assert outcomes[2].details["fallen-off"] == [outcomes[1].snapshot_id]  # type: ignore[union-attr]
        assert (await bench.refuse(append("b"))).rule == "duplicate-file"
        await bench.commit(append("b2"))
    assert await bench.live() == ["a", "b", "b2"]


@pytest.mark.parametrize(
    ("kind", "members", "rule"),
    [
        (CreateBranch, {"ref_name": "dev", "snapshot_id": 1}, "unknown-snapshot"),
        (CreateBranch, {"ref_name": "main"}, "ref-exists"),
        (CreateTag, {"ref_name": "taken"}, "ref-exists"),
        (SetRef, {"ref_name": "none", "expected_snapshot_id": 1}, "unknown-ref"),
        (SetRef, {"ref_name": "taken", "snapshot_id": 1, "expected_snapshot_id": "first"}, "unknown-snapshot"),
        (RemoveRef, {"ref_name": "none", "expected_snapshot_id": 1}, "unknown-ref"),
        (RemoveRef, {"ref_name": "main", "expected_snapshot_id": "first"}, "invalid-ref"),
        (RenameBranch, {"ref_name": "main", "new_name": "other"}, "invalid-ref"),
        (RenameBranch, {"ref_name": "none", "new_name": "other"}, "unknown-branch"),
        (RenameBranch, {"ref_name": "taken", "new_name": "other"}, "not-a-branch"),
        (RenameBranch, {"ref_name": "dev2", "new_name": "taken"}, "ref-exists"),
        (FastForward, {"branch": "none", "to": "main"}, "unknown-branch"),
        (FastForward, {"to": "none"}, "unknown-ref"),
        (SetRetention, {"ref_name": "none", "max_ref_age_ms": 1}, "unknown-ref"),
        (SetRetention, {"ref_name": "main", "max_ref_age_ms": 1}, "invalid-ref"),
        (SetRetention, {"ref_name": "taken", "min_snapshots_to_keep": 1}, "invalid-ref"),
        (Rollback, {}, "invalid-field"),
        (Rollback, {"snapshot_id": "first", "timestamp_ms": 1}, "invalid-field"),
        (Rollback, {"snapshot_id": 1}, "unknown-snapshot"),
        (Rollback, {"snapshot_id": "aside"}, "not-an-ancestor"),
        (Rollback, {"snapshot_id": "first", "branch": "taken"}, "not-a-branch"),
        (SetCurrentSnapshot, {"snapshot_id": 1}, "unknown-snapshot"),
        (SetCurrentSnapshot, {"snapshot_id": "first", "branch": "none"}, "unknown-branch"),
        (SetCurrentSnapshot, {"snapshot_id": "first", "expected_snapshot_id": 1}, "ref-moved"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_rule_and_changes_nothing(
    kind: type, members: dict[str, Any], rule: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        await bench.commit(intent(CreateTag, ref_name="taken", snapshot_id=first))
        await bench.commit(intent(CreateBranch, ref_name="dev2", snapshot_id=first))
        aside = await bench.commit(append("aside", branch="dev2"))
        named = {"first": first, "aside": aside.snapshot_id}
        if kind in {CreateBranch, CreateTag, SetRef}:
            members = {"snapshot_id": first, **members}
        given = {k: named.get(v, v) if k.endswith("snapshot_id") else v for k, v in members.items()}
        before = await bench.metadata()
        outcome = await bench.refuse(intent(kind, **given))
        assert outcome.rule == rule
        assert outcome.message
        assert await bench.metadata() == before
