"""Create or replace: what the writer saw is replaced and nothing else, history and ids are kept, rows come with it."""

from __future__ import annotations

from typing import Any

import pytest

from firn.model.intent import CreateOrReplaceTable
from firn.model.metadata import TableMetadata
from firn.model.operations.layout import UpdateSchema, UpdateSpec
from firn.model.operations.refs import CreateTag
from firn.model.operations.tables import SeenTable
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.view_intents import new_view
from tests.unit.coordinator.workbench import (
    SCHEMA,
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    content_file,
    create,
    new_id,
)

NARROW: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "name", "type": "string", "required": False},
        {"id": 2, "name": "score", "type": "double", "required": False},
    ],
}


def seen(metadata: TableMetadata | None) -> SeenTable | None:
    if metadata is None:
        return None
    return SeenTable(
        uuid=metadata.table_uuid,
        schema_id=metadata.current_schema_id,
        last_column_id=metadata.last_column_id,
        last_partition_id=metadata.last_partition_id,
    )


def replacing(metadata: TableMetadata | None, **changes: Any) -> CreateOrReplaceTable:
    return CreateOrReplaceTable(**{
        "intent_id": new_id(), "table": TABLE, "schema": NARROW, "seen": seen(metadata), **changes,
    })  # fmt: skip


@pytest.fixture(params=["metastore", "file-system"])
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_is_not_there_is_created_with_its_rows_in_one_commit(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        done = await bench.commit(
            replacing(None, schema=SCHEMA, catalog=catalog, data_files=(content_file("a"),), writer="ctas",
                      summary={"query": "select"})
        )  # fmt: skip
        metadata = await bench.metadata()
    assert done.details["replaced"] is False
    assert done.snapshot_id == metadata.current_snapshot_id
    assert metadata.current_snapshot is not None
    assert metadata.current_snapshot.summary is not None
    assert metadata.current_snapshot.summary["firn.writer"] == "ctas"
    assert metadata.current_snapshot.summary["query"] == "select"
    assert await bench.live() == ["a"]
    assert len(await bench.journal()) == 1


async def test_a_replaced_table_keeps_history_and_ids(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog=catalog, properties={"owner": "me"}))
        old = await bench.commit(append("a", "b"))
        assert old.snapshot_id is not None
        await bench.commit(CreateTag(intent_id=new_id(), table=TABLE, ref_name="kept", snapshot_id=old.snapshot_id))
        before = await bench.metadata()
        done = await bench.commit(replacing(before, data_files=(content_file("c"),), properties={"team": "data"}))
        after = await bench.metadata()
        assert await bench.live() == ["c"]
        await bench.commit(append("d"))
        assert await bench.live() == ["c", "d"]
    assert done.details["replaced"] is True
    assert done.details["replaced-snapshot-id"] == old.snapshot_id
    assert after.table_uuid == before.table_uuid
    assert {f.name: f.field_id for f in after.current_schema.fields} == {"name": 3, "score": 4}
    assert [s.snapshot_id for s in after.snapshots] == [old.snapshot_id, done.snapshot_id]
    assert after.current_snapshot is not None
    assert after.current_snapshot.parent_snapshot_id is None
    assert after.current_snapshot.sequence_number == 2
    assert after.refs["kept"].snapshot_id == old.snapshot_id
    assert after.properties.items() >= {"owner": "me", "team": "data"}.items()
    assert len(after.schemas) == 2


async def test_without_rows_the_table_is_empty_afterwards() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        done = await bench.commit(replacing(await bench.metadata()))
        assert await bench.live() == []
        await bench.commit(append("b"))
        assert await bench.live() == ["b"]
    assert done.snapshot_id is None


async def test_a_table_that_changed_under_its_writer_is_not_replaced() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        before = await bench.metadata()
        widened = await bench.commit(UpdateSchema(
            intent_id=new_id(), table=TABLE, base_schema_id=0, writer="alter",
            changes=({"action": "add-column", "name": "extra", "type": "long"},),
        ))  # fmt: skip
        schema = await bench.refuse(replacing(before))
        now = await bench.metadata()
        await bench.commit(UpdateSpec(
            intent_id=new_id(), table=TABLE, base_schema_id=now.current_schema_id, base_spec_id=0,
            changes=({"action": "add-field", "source": "id", "transform": "bucket[4]"},),
        ))  # fmt: skip
        layout = await bench.refuse(replacing(now))
        other = await bench.refuse(replacing(await bench.metadata(), seen=SeenTable(
            uuid="0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e", schema_id=1, last_column_id=4, last_partition_id=1000
        )))  # fmt: skip
        exists = await bench.refuse(replacing(None))
        gone = await bench.refuse(replacing(now, table="db.none"))
        assert (await bench.metadata()).current_schema.find_field("extra") is not None
    assert (schema.rule, schema.hint) == ("schema-conflict", "replan")
    assert (schema.conflicting_intent_id, schema.conflicting_writer) == (widened.intent_id, "alter")
    assert (layout.rule, layout.conflicting_operation) == ("layout-conflict", "update-spec")
    assert (other.rule, exists.rule, gone.rule) == ("table-uuid-mismatch", "table-exists", "table-uuid-mismatch")
    assert {other.hint, exists.hint, gone.hint} == {"replan"}


async def test_a_statement_that_has_read_the_table_itself_loses_no_row_that_came_meanwhile() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        before = await bench.metadata()
        won = await bench.commit(append("b"))
        lost = await bench.refuse(replacing(before, base_snapshot_id=base, data_files=(content_file("c"),)))
        assert await bench.live() == ["a", "b"]
        # One that has not read it comes after the append as well as before it.
        await bench.commit(replacing(before, data_files=(content_file("c"),)))
        assert await bench.live() == ["c"]
    assert (lost.rule, lost.conflicting_snapshot_id) == ("ref-moved", won.snapshot_id)
    assert lost.base_snapshot_id == base


@pytest.mark.parametrize(
    ("members", "rule"),
    [
        ({"data_files": (content_file("a", table="db.other"),)}, "location-not-allowed"),
        ({"schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "?", "required": True}]}},
         "invalid-table"),
        ({"location": "memory://elsewhere/x"}, "location-not-allowed"),
        ({"properties": {"write.data.path": f"{WAREHOUSE}/db/other/data"}}, "location-taken"),
        ({"properties": {"current-snapshot-id": "1"}}, "invalid-table"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)  # fmt: skip
async def test_a_refused_replacement_leaves_no_trace(members: dict[str, Any], rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create("db.other"))
        refused = await bench.refuse(replacing(None, **members))
        assert refused.rule == rule
        await bench.commit(create())
        await bench.commit(append("a"))
        before = await bench.metadata()
        again = await bench.refuse(replacing(before, **members))
        assert again.rule == rule
        assert await bench.metadata() == before
        assert await bench.live() == ["a"]


async def test_format_and_place_do_not_go_where_they_must_not() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(format_version=3))
        v3 = await bench.metadata()
        older = await bench.refuse(replacing(v3, format_version=2))
        await bench.commit(create("db.path", catalog="file-system"))
        path = await bench.metadata("db.path")
        moved = await bench.refuse(replacing(path, table="db.path", location=f"{WAREHOUSE}/else/where"))
        await bench.commit(replacing(path, table="db.path", format_version=3))
        assert (await bench.metadata("db.path")).format_version == 3
        await bench.commit(new_view(table="db.v"))
        taken = await bench.refuse(replacing(None, table="db.v"))
    assert (older.rule, moved.rule, taken.rule) == ("format-downgrade", "location-fixed", "table-exists")


async def test_of_two_that_create_one_wins_and_a_repeat_is_answered_once() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = replacing(None, data_files=(content_file("a"),))
        won, lost = await bench.settle(first, replacing(None, data_files=(content_file("b"),)))
        assert isinstance(won, Committed)
        assert isinstance(lost, Rejected)
        assert lost.conflicting_intent_id == won.intent_id
        metadata = await bench.metadata()
        await bench.commit(replacing(metadata, data_files=(content_file("c"),)))
        assert await bench.settle(first) == [won]
        assert await bench.live() == ["c"]
