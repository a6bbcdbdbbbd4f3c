"""Cherry-pick and publish: what was staged gets onto a branch once, on the state that is there, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import ContentFile, ReplacePartitions, RowDelta
from firn.model.metadata_changes import with_metadata_log
from firn.model.operations.refs import CherryPick, CreateBranch, FastForward, Publish, RemoveRef, Rollback
from firn.model.operations.upkeep import ExpireSnapshots
from firn.model.outcome import Committed, Rejected
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.metadata_files import encode_metadata
from tests.unit.coordinator.workbench import (
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    new_id,
    path_of,
    replace,
)

LOCATION = f"{WAREHOUSE}/db/events"
BY_NAME = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "name": "name", "transform": "identity"}]}


def intent(kind: type, **members: Any) -> Any:
    return kind(**{"intent_id": new_id(), "table": TABLE, **members})


def file_of(partition: str, name: str) -> ContentFile:
    return msgspec.structs.replace(content_file(name), partition=(partition,))


def append_to(partition: str, name: str, **members: Any) -> Any:
    return append(name, data_files=(file_of(partition, name),), **members)


def rewrite(partition: str, removed: str, added: str, **members: Any) -> Any:
    return replace([removed], [], data_files=(file_of(partition, added),), **members)


def made_dynamic_overwrite(bench: Workbench, snapshot_id: int) -> None:
    """Another engine's doing: the snapshot is one of a dynamic overwrite."""
    tables = FileSystemTables(bench.files)
    base = tables.newest(LOCATION)
    assert base is not None
    metadata = TableReader(bench.files, limits=bench.limits).metadata(base)
    marks = {"operation": "overwrite", "replace-partitions": "true"}
    snapshots = tuple(
        msgspec.structs.replace(s, summary={**(s.summary or {}), **marks}) if s.snapshot_id == snapshot_id else s
        for s in metadata.snapshots
    )
    changed = with_metadata_log(
        msgspec.structs.replace(metadata, snapshots=snapshots), base, previous_updated_ms=metadata.last_updated_ms
    )
    version = int(Path(base).name[1:].partition(".")[0])
    tables.put(tables.location_of(LOCATION, version=version + 1, codec="none"), encode_metadata(changed))


async def with_staged_overwrite(bench: Workbench) -> int:
    """A in one partition, and a dynamic overwrite of it by A' on a branch."""
    await bench.commit(create(catalog="file-system", partition_spec=BY_NAME))
    base = (await bench.commit(append_to("x", "A"))).snapshot_id
    assert base is not None
    await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
    staged = (await bench.commit(rewrite("x", "A", "A'", base=base, branch="audit"))).snapshot_id
    assert staged is not None
    made_dynamic_overwrite(bench, staged)
    return staged


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_append_is_added_again_on_top_of_what_came_since(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(format_version=version))
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", "b2", branch="audit"))
        await bench.commit(append("c"))
        picked = await bench.commit(intent(CherryPick, snapshot_id=staged.snapshot_id))
        metadata = await bench.metadata()
        await bench.commit(append("d"))
    assert await bench.live() == ["a", "b", "b2", "c", "d"]
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.snapshot_id == picked.snapshot_id != staged.snapshot_id
    assert (snapshot.summary or {})["source-snapshot-id"] == str(staged.snapshot_id)
    assert (snapshot.summary or {})["added-records"] == "20"
    assert picked.details == {"picked-snapshot-id": staged.snapshot_id}
    if version == 3:
        first, rows = snapshot.first_row_id, snapshot.added_rows
        assert (first, rows, metadata.next_row_id) == (40, 20, 60)


async def test_picking_and_appending_in_one_batch_lose_nothing() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", branch="audit"))
        outcomes = await bench.settle(
            append("c"), append("d"), intent(CherryPick, snapshot_id=staged.snapshot_id), append("e"), append("f")
        )
    assert all(isinstance(o, Committed) for o in outcomes)
    assert await bench.live() == ["a", "b", "c", "d", "e", "f"]


async def test_a_snapshot_on_the_head_is_moved_to() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", branch="audit"))
        picked = await bench.commit(intent(CherryPick, snapshot_id=staged.snapshot_id))
        metadata = await bench.metadata()
    assert picked.snapshot_id == metadata.current_snapshot_id == staged.snapshot_id
    assert await bench.live() == ["a", "b"]


async def test_nothing_is_picked_twice() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", branch="audit"))
        await bench.commit(append("c"))
        picks = [intent(CherryPick, snapshot_id=staged.snapshot_id) for _ in range(2)]
        first, second = await bench.settle(*picks)
        again = await bench.refuse(intent(CherryPick, snapshot_id=base))
    assert isinstance(first, Committed)
    assert second.rule == "already-picked"  # type: ignore[union-attr]
    assert again.rule == "already-picked"
    assert await bench.live() == ["a", "b", "c"]


async def test_files_that_are_live_already_are_not_picked_again() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", branch="audit"))
        await bench.commit(append("b"))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=staged.snapshot_id))
    assert refused.rule == "duplicate-file"
    assert await bench.live() == ["a", "b"]


async def test_what_was_staged_is_published_once_under_its_id() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        await bench.commit(append("b", branch="audit", summary={"wap.id": "run-7"}))
        await bench.commit(append("c"))
        first, second = await bench.settle(*(intent(Publish, wap_id="run-7") for _ in range(2)))
        missing = await bench.refuse(intent(Publish, wap_id="run-8"))
        metadata = await bench.metadata()
    assert isinstance(first, Committed)
    assert second.rule == "already-picked"  # type: ignore[union-attr]
    assert missing.rule == "unknown-snapshot"
    assert metadata.current_snapshot is not None
    assert (metadata.current_snapshot.summary or {})["published-wap-id"] == "run-7"
    assert await bench.live() == ["a", "b", "c"]


async def test_what_was_staged_on_the_head_is_published_once_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        await bench.commit(append("b", branch="audit", summary={"wap.id": "run-7"}))
        await bench.commit(intent(Publish, wap_id="run-7"))
        refused = await bench.refuse(intent(Publish, wap_id="run-7"))
    assert refused.rule == "already-picked"
    assert await bench.live() == ["a", "b"]


async def test_a_replacement_of_partitions_is_applied_on_top_of_other_partitions() -> None:
    """Cherry-picking a dynamic overwrite after an append to another partition, as Iceberg's own library does."""
    bench = Workbench()
    async with bench.daemon():
        staged = await with_staged_overwrite(bench)
        await bench.commit(append_to("y", "B"))
        picked = await bench.commit(intent(CherryPick, snapshot_id=staged))
        metadata = await bench.metadata()
        assert await bench.live() == ["A'", "B"]
        assert (await bench.refuse(intent(CherryPick, snapshot_id=staged))).rule == "already-picked"
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    assert snapshot.snapshot_id == picked.snapshot_id
    summary = snapshot.summary or {}
    assert (snapshot.operation, summary["deleted-data-files"], summary["added-data-files"]) == ("overwrite", "1", "1")
    assert summary["replace-partitions"] == "true"


async def test_a_replacement_of_partitions_is_refused_when_one_got_files_meanwhile() -> None:
    """Cherry-picking a dynamic overwrite after an append to the same partition."""
    bench = Workbench()
    async with bench.daemon():
        staged = await with_staged_overwrite(bench)
        winner = await bench.commit(append_to("x", "A2", writer="late"))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=staged))
    assert (refused.rule, refused.hint) == ("changed-partition", "replan")
    assert (refused.conflicting_snapshot_id, refused.conflicting_writer) == (winner.snapshot_id, "late")
    assert await bench.live() == ["A", "A2"]


async def test_a_replacement_of_partitions_is_refused_when_its_files_are_gone() -> None:
    bench = Workbench()
    async with bench.daemon():
        staged = await with_staged_overwrite(bench)
        head = (await bench.metadata()).current_snapshot_id
        assert head is not None
        winner = await bench.commit(rewrite("x", "A", "A-compacted", base=head))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=staged))
    assert (refused.rule, refused.conflicting_snapshot_id) == ("missing-file", winner.snapshot_id)
    assert await bench.live() == ["A-compacted"]


async def test_a_replacement_is_not_picked_onto_a_history_it_was_not_made_on() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog="file-system", partition_spec=BY_NAME))
        first = (await bench.commit(append_to("x", "A"))).snapshot_id
        second = (await bench.commit(append_to("y", "B"))).snapshot_id
        assert second is not None
        third = (await bench.commit(rewrite("x", "A", "A'", base=second))).snapshot_id
        assert third is not None
        made_dynamic_overwrite(bench, third)
        await bench.commit(intent(Rollback, snapshot_id=first))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=third))
    assert refused.rule == "cannot-pick"
    assert await bench.live() == ["A"]


async def test_what_is_neither_append_nor_replacement_is_only_moved_to() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        assert base is not None
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(replace(["a"], ["a2"], base=base, branch="audit"))
        await bench.commit(append("b"))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=staged.snapshot_id))
        assert await bench.live() == ["a", "b"]
        await bench.commit(intent(Rollback, snapshot_id=base))
        await bench.commit(intent(CherryPick, snapshot_id=staged.snapshot_id))
    assert refused.rule == "cannot-pick"
    assert await bench.live() == ["a2"]


async def test_the_first_snapshot_of_a_table_can_be_staged_and_published() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        staged = await bench.commit(append("a", stage=True, wap_id="first"))
        assert (await bench.metadata()).current_snapshot_id is None
        published = await bench.commit(intent(Publish, wap_id="first"))
        await bench.commit(append("b"))
    assert published.snapshot_id == staged.snapshot_id
    assert await bench.live() == ["a", "b"]


async def test_staged_replacements_of_partitions_are_published_and_the_second_sees_the_first() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_NAME))
        base = (await bench.commit(append("A", "B", data_files=(file_of("x", "A"), file_of("y", "B"))))).snapshot_id
        for wap_id, partition, name in (("one", "x", "A1"), ("two", "y", "B1"), ("three", "x", "A2")):
            staged = {"base_snapshot_id": base, "stage": True, "wap_id": wap_id}
            await bench.commit(intent(ReplacePartitions, data_files=(file_of(partition, name),), **staged))
        assert await bench.live() == ["A", "B"]
        outcomes = await bench.settle(*(intent(Publish, wap_id=wap_id) for wap_id in ("one", "two", "three", "one")))
        metadata = await bench.metadata()
    assert await bench.live() == ["A1", "B1"]
    assert [type(o) for o in outcomes] == [Committed, Committed, Rejected, Rejected]
    assert [o.rule for o in outcomes if isinstance(o, Rejected)] == ["missing-file", "already-picked"]
    summary = (metadata.current_snapshot.summary if metadata.current_snapshot else None) or {}
    assert summary["published-wap-id"] == "two"
    assert "wap.id" not in summary


@pytest.mark.parametrize("content", ["equality-deletes", "position-deletes"])
async def test_a_replacement_is_not_picked_over_deletes_that_it_has_not_seen(content: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_NAME))
        base = (await bench.commit(append_to("x", "A"))).snapshot_id
        await bench.commit(append_to("y", "B"))
        staged = await bench.commit(
            intent(ReplacePartitions, data_files=(file_of("x", "A1"),), base_snapshot_id=base, stage=True)
        )
        ids = (1,) if content == "equality-deletes" else None
        deletes = [
            msgspec.structs.replace(file_of(part, f"deletes-{part}"), content=content, equality_ids=ids)
            for part in "xy"
        ]
        named = {"base_snapshot_id": (await bench.metadata()).current_snapshot_id}
        if content == "position-deletes":
            named["referenced_data_files"] = (path_of("A"), path_of("B"))  # type: ignore[assignment]
        await bench.commit(intent(RowDelta, delete_files=tuple(deletes[1:]), **named))
        winner = await bench.commit(intent(RowDelta, delete_files=tuple(deletes[:1]), **named))
        refused = await bench.refuse(intent(CherryPick, snapshot_id=staged.snapshot_id))
    assert (refused.rule, refused.files) == ("new-deletes", (path_of("A"),))
    assert refused.conflicting_snapshot_id == winner.snapshot_id


@pytest.mark.parametrize(
    ("kind", "members", "rule"),
    [
        (CherryPick, {"snapshot_id": 1}, "unknown-snapshot"),
        (CherryPick, {"branch": "none"}, "unknown-branch"),
        (Publish, {"wap_id": "w", "branch": "none"}, "unknown-branch"),
    ],
)
async def test_what_cannot_be_picked_changes_nothing(kind: type, members: dict[str, Any], rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = (await bench.commit(append("a"))).snapshot_id
        before = await bench.metadata()
        given = {"snapshot_id": first, **members} if kind is CherryPick else members
        assert (await bench.refuse(intent(kind, **given))).rule == rule
        assert await bench.metadata() == before


async def test_a_staged_snapshot_outlives_its_branch_until_it_expires() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="audit", snapshot_id=base))
        staged = await bench.commit(append("b", branch="audit"))
        await bench.commit(intent(RemoveRef, ref_name="audit", expected_snapshot_id=staged.snapshot_id))
        assert (await bench.refuse(intent(FastForward, to="audit"))).rule == "unknown-ref"
        await bench.commit(intent(CherryPick, snapshot_id=staged.snapshot_id))
    assert await bench.live() == ["a", "b"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_snapshot_is_not_picked_again_because_what_tells_that_it_is_there_was_expired(is_known: bool) -> None:
    """Its file was compacted, so that it is not live: it would come back beside the rows that came from it."""
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        old = (await bench.commit(append("a"))).snapshot_id
        assert old is not None
        between = (await bench.commit(replace(["a"], ["a2"], base=old))).snapshot_id
        await bench.commit(intent(CreateBranch, ref_name="keeps-it", snapshot_id=old))
        await bench.commit(append("b"))
        await bench.commit(intent(ExpireSnapshots, snapshot_ids=(between,)))
        if not is_known:
            bench.lose_dropped_snapshots()
        refused = await bench.refuse(intent(CherryPick, snapshot_id=old))
        assert (refused.rule, refused.hint) == (("already-picked", "fix") if is_known else ("unknown-base", "replan"))
        staged = await bench.commit(append("c", stage=True))
        await bench.commit(append("d"))
        await bench.commit(intent(CherryPick, snapshot_id=staged.snapshot_id))
    assert await bench.live() == ["a2", "b", "c", "d"]
