"""A refusal says what was planned on, where the branch stood, and who was first, even where no snapshot tells it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.coordinator.journal import decisions
from firn.coordinator.journal.landmarks import LOOK_BACKS_MAX
from firn.model.limits import Limits
from firn.model.operations.files import Overwrite
from firn.model.operations.layout import UpdateSchema, UpdateSortOrder, UpdateSpec
from firn.model.operations.refs import CreateBranch, CreateTag, FastForward, RemoveRef, RenameBranch, Rollback, SetRef
from firn.model.operations.tables import DropTable
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties, UpgradeFormat
from firn.model.outcome import Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import (
    TABLE,
    Workbench,
    append,
    content_file,
    create,
    delete,
    new_id,
    path_of,
    replace,
)


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def add(name: str, **members: Any) -> UpdateSchema:
    change = {"action": "add-column", "name": name, "type": "string"}
    return intent(UpdateSchema, base_schema_id=0, changes=(change,), **members)


def rename(name: str, new_name: str, *, base: int = 0, **members: Any) -> UpdateSchema:
    change = {"action": "rename-column", "name": name, "new-name": new_name}
    return intent(UpdateSchema, base_schema_id=base, changes=(change,), **members)


def winner(refused: Rejected) -> tuple[str | None, str | None, str | None]:
    return refused.conflicting_operation, refused.conflicting_intent_id, refused.conflicting_writer


async def test_a_schema_conflict_names_the_columns_and_the_first_of_several_changes_that_is_in_the_way() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(add("a", writer="harmless"))
        guilty = rename("name", "title", base=1, writer="guilty")
        made = await bench.commit(guilty)
        await bench.commit(rename("ts", "at", base=2, writer="later"))
        refused = await bench.refuse(rename("name", "label", writer="late"))
    assert (refused.rule, refused.columns) == ("schema-conflict", ("name",))
    assert winner(refused) == ("update-schema", guilty.intent_id, "guilty")
    assert refused.conflicting_metadata_location == made.metadata_location


async def test_of_two_changes_in_one_batch_the_second_is_told_of_the_first() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        first = rename("name", "title", writer="first")
        _, refused = await bench.gathered(daemon, first, rename("name", "label"))
    assert isinstance(refused, Rejected)
    assert winner(refused) == ("update-schema", first.intent_id, "first")


async def test_conflicts_of_partitioning_and_order_name_columns_and_winner() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        by_day = intent(
            UpdateSpec, base_schema_id=0, base_spec_id=0, writer="w",
            changes=({"action": "add-field", "source": "ts", "transform": "day"},),
        )  # fmt: skip
        await bench.commit(by_day)
        hours = ({"action": "add-field", "source": "ts", "transform": "hour"},)
        refused = await bench.refuse(intent(UpdateSpec, base_schema_id=0, base_spec_id=0, changes=hours))
        assert (refused.rule, refused.columns) == ("layout-conflict", ("ts",))
        assert winner(refused) == ("update-spec", by_day.intent_id, "w")
        by_id = intent(UpdateSortOrder, base_schema_id=0, base_sort_order_id=0, sort_by=({"source": "id"},))
        await bench.commit(by_id)
        other = intent(UpdateSortOrder, base_schema_id=0, base_sort_order_id=0, sort_by=({"source": "ts"},))
        refused = await bench.refuse(other)
        assert (refused.rule, refused.columns) == ("layout-conflict", ("id",))
        assert winner(refused) == ("update-sort-order", by_id.intent_id, None)
        renamed = rename("ts", "at", writer="renamer")
        await bench.commit(renamed)
        refused = await bench.refuse(intent(UpdateSpec, base_schema_id=0, base_spec_id=0, changes=hours))
        assert winner(refused) == ("update-schema", renamed.intent_id, "renamer")


async def test_what_moved_removed_or_expired_a_reference_or_snapshot_is_named() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        second = (await bench.commit(append("b"))).snapshot_id
        made = intent(CreateBranch, ref_name="audit", snapshot_id=first, writer="maker")
        await bench.commit(made)
        assert winner(await bench.refuse(intent(CreateTag, ref_name="audit", snapshot_id=second)))[1] == made.intent_id

        moved = intent(SetRef, ref_name="audit", snapshot_id=second, expected_snapshot_id=first, writer="mover")
        await bench.commit(moved)
        refused = await bench.refuse(intent(RemoveRef, ref_name="audit", expected_snapshot_id=first))
        assert (refused.rule, refused.branch) == ("ref-moved", "audit")
        assert (refused.base_snapshot_id, refused.head_snapshot_id) == (first, second)
        assert winner(refused) == ("set-ref", moved.intent_id, "mover")

        removed = intent(RemoveRef, ref_name="audit", expected_snapshot_id=second, writer="remover")
        await bench.commit(removed)
        for lost in (append("c", branch="audit"), intent(FastForward, to="audit")):
            refused = await bench.refuse(lost)
            assert (winner(refused), refused.hint) == (("remove-ref", removed.intent_id, "remover"), "replan")
        misspelt = await bench.refuse(append("c", branch="audti"))
        assert (winner(misspelt), misspelt.hint) == ((None, None, None), "fix")

        await bench.commit(intent(CreateBranch, ref_name="x", snapshot_id=first))
        renamed = intent(RenameBranch, ref_name="x", new_name="y")
        await bench.commit(renamed)
        assert winner(await bench.refuse(append("c", branch="x")))[:2] == ("rename-branch", renamed.intent_id)
        await bench.commit(intent(RemoveRef, ref_name="y", expected_snapshot_id=first))

        expired = intent(ExpireSnapshots, snapshot_ids=(first,), writer="janitor")
        await bench.commit(expired)
        refused = await bench.refuse(intent(CreateTag, ref_name="t", snapshot_id=first))
        assert (refused.rule, winner(refused)) == (
            "unknown-snapshot", ("expire-snapshots", expired.intent_id, "janitor")
        )  # fmt: skip


async def test_a_branch_that_moved_on_by_a_commit_was_moved_by_that_commit() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(append("b"))
        await bench.commit(intent(Rollback, snapshot_id=first, writer="roller"))
        on_top = append("c", writer="appender")
        head = (await bench.commit(on_top)).snapshot_id
        refused = await bench.refuse(intent(Rollback, snapshot_id=first, expected_snapshot_id=first))
    assert (refused.conflicting_snapshot_id, refused.head_snapshot_id) == (head, head)
    assert winner(refused) == ("append", on_top.intent_id, "appender")


@pytest.mark.parametrize("kind", ["delete-files", "replace", "overwrite"])
async def test_a_conflict_over_files_names_the_operation_and_the_writer_that_came_first(kind: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        first = {
            "delete-files": lambda: delete("a", writer="first"),
            "replace": lambda: replace(["a"], ["c"], base=base, writer="first"),
            "overwrite": lambda: intent(
                Overwrite, base_snapshot_id=base, removed_data_files=(path_of("a"),), data_files=(content_file("c"),),
                writer="first",
            ),
        }[kind]()  # fmt: skip
        await bench.commit(first)
        refused = await bench.refuse(replace(["a"], ["d"], base=base))
    assert refused.rule == "missing-file"
    assert winner(refused) == (kind, first.intent_id, "first")


async def test_who_set_a_property_or_the_format_or_made_or_dropped_the_table_is_named() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = create(writer="maker")
        await bench.commit(made)
        assert winner(await bench.refuse(create())) == ("create-table", made.intent_id, "maker")
        put = intent(UpdateProperties, updates={"k": "1", "other": "2"}, writer="setter")
        await bench.commit(put)
        refused = await bench.refuse(intent(UpdateProperties, updates={"k": "3"}, expect={"k": None}))
        assert (refused.rule, winner(refused)) == (
            "expectation-failed", ("update-properties", put.intent_id, "setter")
        )  # fmt: skip
        upgraded = intent(UpgradeFormat, format_version=3, writer="upgrader")
        await bench.commit(upgraded)
        assert winner(await bench.refuse(intent(UpgradeFormat, format_version=2)))[1] == upgraded.intent_id
        dropped = intent(DropTable, writer="dropper")
        await bench.commit(dropped)
        refused = await bench.refuse(append("a"))
        assert (refused.rule, winner(refused)) == ("unknown-table", ("drop-table", dropped.intent_id, "dropper"))


async def test_base_and_head_are_those_of_the_intents_branch() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        ahead = (await bench.commit(append("b", branch="audit"))).snapshot_id
        await bench.commit(append("c"))
        refused = await bench.refuse(replace(["gone"], ["x"], base=base, branch="audit"))
        assert (refused.branch, refused.base_snapshot_id, refused.head_snapshot_id) == ("audit", base, ahead)
        twice = await bench.refuse(append("a", branch="audit", base_snapshot_id=base))
        assert (twice.rule, twice.base_snapshot_id, twice.head_snapshot_id) == ("duplicate-file", base, ahead)


async def test_a_conflict_over_files_names_their_partitions() -> None:
    bench = Workbench()
    spec = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "name": "kind", "transform": "identity"}]}
    async with bench.daemon():
        await bench.commit(create(partition_spec=spec))
        base = (await bench.commit(_append("a", "red"))).snapshot_id
        await bench.commit(_append("b", "blue", writer="other"))
        statement = intent(
            Overwrite, base_snapshot_id=base, data_files=(_file("n", "red"),), removed_data_files=(path_of("a"),)
        )
        refused = await bench.refuse(statement)
        assert (refused.rule, refused.partitions) == ("new-data", ("kind=blue",))
        await bench.commit(delete("b", writer="deleter"))
        gone = await bench.refuse(delete("b"))
        assert (gone.rule, gone.partitions) == ("missing-file", ("kind=blue",))
        twice = await bench.refuse(_append("a", "red"))
        assert (twice.rule, twice.partitions) == ("duplicate-file", ("kind=red",))


def _file(name: str, kind: str) -> Any:
    return msgspec.structs.replace(content_file(name), partition=(kind,))


def _append(name: str, kind: str, **members: Any) -> Any:
    return append(name, **members | {"data_files": (_file(name, kind),)})


@pytest.mark.parametrize("remembered", [1, 50_000])
async def test_a_daemon_that_takes_over_still_knows_who_was_first(
    remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the checkpoints that it reads anyway, or from those further back that it has to look into."""
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 3)
    bench = Workbench(limits=Limits(dedupe_intents_max=remembered))
    guilty = rename("name", "title", writer="guilty")
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(guilty)
        for number in range(9):
            await bench.commit(append(f"f{number}"))
    async with bench.daemon("b"):
        refused = await bench.refuse(rename("name", "label"))
    assert winner(refused) == ("update-schema", guilty.intent_id, "guilty")


async def test_a_batch_of_refused_intents_does_not_read_the_journal_over_and_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 3)
    asked: list[str] = []
    look_back = decisions.Decisions._landmark_before

    def counted(self: decisions.Decisions, key: str) -> object:
        asked.append(key)
        return look_back(self, key)

    monkeypatch.setattr(decisions.Decisions, "_landmark_before", counted)
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        for number in range(4):
            await bench.commit(append(f"f{number}"))
        lost = [intent(RemoveRef, ref_name=f"nope{number}", expected_snapshot_id=1) for number in range(30)]
        refused = await bench.gathered(daemon, *lost)
        appends = [append("f0"), append("x", table_uuid="another")]
        told = await bench.gathered(daemon, *appends, blocker="again")
    assert {one.rule for one in refused if isinstance(one, Rejected)} == {"unknown-ref"}
    assert len(asked) == LOOK_BACKS_MAX
    assert {one.rule for one in told if isinstance(one, Rejected)} == {"duplicate-file", "table-uuid-mismatch"}
