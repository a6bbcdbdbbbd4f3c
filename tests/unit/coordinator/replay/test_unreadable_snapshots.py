"""No branch or tag is moved to a snapshot that cannot be read; a damaged branch can be moved away from one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.model.intent import Intent
from firn.model.operations.refs import CreateBranch, CreateTag, FastForward, Rollback, SetCurrentSnapshot, SetRef
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id

MOVES: dict[str, Callable[[int, int], Intent]] = {
    "create-branch": lambda to, _: CreateBranch(intent_id=new_id(), table=TABLE, ref_name="new", snapshot_id=to),
    "create-tag": lambda to, _: CreateTag(intent_id=new_id(), table=TABLE, ref_name="new", snapshot_id=to),
    "set-ref": lambda to, side: SetRef(
        intent_id=new_id(), table=TABLE, ref_name="side", snapshot_id=to, expected_snapshot_id=side
    ),
    "fast-forward": lambda _to, _side: FastForward(intent_id=new_id(), table=TABLE, branch="side", to="damaged"),
    "rollback": lambda to, _: Rollback(intent_id=new_id(), table=TABLE, snapshot_id=to),
    "set-current-snapshot": lambda to, _: SetCurrentSnapshot(intent_id=new_id(), table=TABLE, snapshot_id=to),
}


async def list_of(bench: Workbench, snapshot_id: int) -> str:
    snapshot = (await bench.metadata()).snapshot_by_id(snapshot_id)
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    return snapshot.manifest_list


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("damage", ["cut", "gone"])
async def test_a_branch_is_not_moved_to_a_damaged_snapshot(move: str, damage: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        damaged = (await bench.commit(append("b"))).snapshot_id
        last = (await bench.commit(append("c"))).snapshot_id
        assert first is not None
        assert damaged is not None
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="side", snapshot_id=first))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="damaged", snapshot_id=damaged))
        location = await list_of(bench, damaged)
    if damage == "cut":
        bench.files.replace(location, b"Obj\x01")
    else:
        bench.files.delete(location)
    async with bench.daemon():
        refused = await bench.refuse(MOVES[move](damaged, first))
        await bench.commit(append("d"))
        refs = (await bench.metadata()).refs
    assert (refused.rule, refused.hint, refused.files) == ("unreadable-snapshot", "fix", (location,))
    assert "new" not in refs
    assert refs["side"].snapshot_id == first
    assert last is not None


async def test_a_branch_whose_head_is_damaged_is_moved_back_to_a_sound_snapshot() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        damaged = (await bench.commit(append("b"))).snapshot_id
        assert damaged is not None
        location = await list_of(bench, damaged)
    bench.files.replace(location, b"Obj\x01")
    async with bench.daemon():
        assert (await bench.refuse(append("c"))).rule == "table-unreadable"
        await bench.commit(Rollback(intent_id=new_id(), table=TABLE, snapshot_id=first))
        await bench.commit(append("c"))
        assert await bench.live() == ["a", "c"]
