"""Expiring snapshots: decided on what the table is when its turn comes; nothing that is in use goes."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.limits import Limits
from firn.model.operations.refs import CherryPick, CreateBranch, CreateTag, Publish, RemoveRef, Rollback, SetRef
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties
from firn.model.outcome import Committed, Outcome
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id, replace

FOREVER_MS = 2**62


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def expire_all(**members: Any) -> Any:
    """Everything goes that retention does not keep."""
    return intent(ExpireSnapshots, older_than_ms=FOREVER_MS, **members)


async def with_history(bench: Workbench, *names: str, **members: Any) -> list[int]:
    """A table with one snapshot per name, oldest first."""
    await bench.commit(create(**members))
    ids = [(await bench.commit(append(name))).snapshot_id for name in names]
    assert None not in ids
    return ids  # type: ignore[return-value]


async def snapshots(bench: Workbench) -> list[int]:
    return [snapshot.snapshot_id for snapshot in (await bench.metadata()).snapshots]


def committed(outcome: Outcome) -> Committed:
    assert isinstance(outcome, Committed), outcome
    return outcome


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_old_snapshots_go_and_the_newest_stay(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second, third, fourth = await with_history(bench, "a", "b", "c", "d", catalog=catalog)
        young = await bench.commit(intent(ExpireSnapshots))
        expired = await bench.commit(expire_all(retain_last=2))
        assert await snapshots(bench) == [third, fourth]
        await bench.commit(append("e"))
    assert young.details == {"removed-count": 0}
    assert expired.details == {"removed": [first, second], "removed-count": 2}
    assert expired.snapshot_id is None
    assert await bench.live() == ["a", "b", "c", "d", "e"]


async def test_case_15_criteria_are_judged_when_the_turn_comes_not_when_they_were_made() -> None:
    """Case 15: what has become referenced meanwhile does not go, and the outcome says so."""
    bench = Workbench()
    async with bench.daemon():
        first, second, third = await with_history(bench, "a", "b", "c")
        await bench.commit(intent(CreateTag, ref_name="audit", snapshot_id=first))
        expired = await bench.commit(intent(ExpireSnapshots, snapshot_ids=(first, second), older_than_ms=0))
        assert await snapshots(bench) == [first, third]
    assert expired.details == {"removed": [second], "removed-count": 1, "kept": [[first, "tag audit"]]}


@pytest.mark.parametrize("order", ["branch-first", "expiry-first"])
async def test_case_12_a_branch_that_is_being_made_is_never_dropped(order: str) -> None:
    """Case 12: an expiry and a new branch on what it would expire, in one batch, in either order."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        first, second, third = await with_history(bench, "a", "b", "c")
        branch, expiry = intent(CreateBranch, ref_name="dev", snapshot_id=first), expire_all()
        if order == "branch-first":
            made, expired = await bench.gathered(daemon, branch, expiry)
        else:
            expired, made = await bench.gathered(daemon, expiry, branch)
        metadata = await bench.metadata()
    assert committed(made).batch == committed(expired).batch
    assert metadata.refs["dev"].snapshot_id == first
    if order == "branch-first":
        assert committed(expired).details["removed"] == [second, third]
    else:
        # All of the way from the head to the snapshot that the waiting intent names.
        assert {first, second, third} <= set(dict(committed(expired).details["kept"]))
        assert committed(expired).details["removed-count"] == 0


@pytest.mark.parametrize("batch", ["the-same", "the-next"])
async def test_a_waiting_intent_can_still_be_validated_after_an_expiry(batch: str) -> None:
    bench = Gathering(limits=Limits(batch_intents_max=1) if batch == "the-next" else None)
    async with bench.daemon() as daemon:
        first, second, third, fourth = await with_history(bench, "a", "b", "c", "d")
        rewrite = replace(["a", "b"], ["ab"], base=second, rows=20)
        expired, rewritten = (committed(o) for o in await bench.gathered(daemon, expire_all(), rewrite))
        assert [first, second, third, fourth][1:] == (await snapshots(bench))[:3]
    assert (expired.batch == rewritten.batch) is (batch == "the-same")
    assert expired.details["removed"] == [first]
    kept = dict(expired.details["kept"])
    assert rewrite.intent_id in kept[second]
    assert str(second) in kept[third]
    assert await bench.live() == ["ab", "blocker", "c", "d"]


async def test_what_is_asked_for_by_id_goes_and_what_is_gone_already_is_no_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second, third = await with_history(bench, "a", "b", "c")
        twice = [intent(ExpireSnapshots, snapshot_ids=(first,), older_than_ms=0) for _ in range(2)]
        one, other = await bench.settle(*twice)
        head = await bench.commit(intent(ExpireSnapshots, snapshot_ids=(third,), older_than_ms=0))
        assert await snapshots(bench) == [second, third]
    assert committed(one).details == {"removed": [first], "removed-count": 1}
    assert committed(other).details == {"removed-count": 0, "already-gone": [first]}
    assert head.details == {"removed-count": 0, "kept": [[third, "branch main"]]}


async def test_what_the_same_batch_has_made_does_not_go() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        first, second = await with_history(bench, "a", "b")
        outcomes = await bench.gathered(
            daemon, append("c"), intent(Rollback, snapshot_id=second), append("d"), expire_all(), append("e")
        )
        c, _, d, expired, e = (committed(outcome) for outcome in outcomes)
        assert len({c.batch, d.batch, expired.batch, e.batch}) == 1
        assert await snapshots(bench) == [c.snapshot_id, d.snapshot_id, e.snapshot_id]
    assert set(expired.details["removed"]) > {first, second}
    assert await bench.live() == ["a", "b", "d", "e"]


async def test_aged_references_go_with_their_snapshots_and_are_named() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b")
        await bench.commit(intent(CreateTag, ref_name="old", snapshot_id=first, max_ref_age_ms=1))
        expired = await bench.commit(expire_all())
        metadata = await bench.metadata()
    assert expired.details["removed"] == [first]
    assert set(expired.details["removed-refs"]) == {"old"}
    assert set(metadata.refs) == {"main"}
    assert [s.snapshot_id for s in metadata.snapshots] == [second]


@pytest.mark.parametrize("kind", [CherryPick, Publish])
async def test_what_is_about_to_be_picked_stays(kind: type) -> None:
    bench = Workbench()
    async with bench.daemon():
        (first,) = await with_history(bench, "a")
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=first))
        staged = await bench.commit(append("b", branch="audit", summary={"wap.id": "w"}))
        await bench.commit(intent(RemoveRef, ref_name="audit", expected_snapshot_id=staged.snapshot_id))
        await bench.commit(append("c"))
        named = {"snapshot_id": staged.snapshot_id} if kind is CherryPick else {"wap_id": "w"}
        expired, picked = await bench.settle(expire_all(), intent(kind, **named))
        assert isinstance(picked, Committed)
    assert staged.snapshot_id in dict(committed(expired).details["kept"])
    assert await bench.live() == ["a", "b", "c"]


async def test_a_reference_cannot_be_set_to_what_has_expired() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, _, third = await with_history(bench, "a", "b", "c")
        await bench.commit(expire_all())
        tag = await bench.refuse(intent(CreateTag, ref_name="t", snapshot_id=first))
        moved = await bench.refuse(intent(SetRef, ref_name="main", snapshot_id=first, expected_snapshot_id=third))
        await bench.commit(replace(["a"], ["a2"], base=first))  # a base may have expired
    assert (tag.rule, moved.rule) == ("unknown-snapshot", "unknown-snapshot")


async def test_a_table_that_shares_its_files_is_not_expired() -> None:
    bench = Workbench()
    async with bench.daemon():
        first, second = await with_history(bench, "a", "b", properties={"gc.enabled": "false"})
        assert (await bench.refuse(expire_all())).rule == "gc-disabled"
        assert await snapshots(bench) == [first, second]
        await bench.commit(intent(UpdateProperties, updates={"gc.enabled": "true"}))
        await bench.commit(expire_all())
        assert await snapshots(bench) == [second]
