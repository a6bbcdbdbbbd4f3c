"""Names that intents bring: those that no engine could use are refused where they come, and none that are there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.metadata import TableMetadata
from firn.model.operations.layout import UpdateSchema
from firn.model.operations.refs import CreateBranch, CreateTag, RenameBranch
from firn.model.operations.tables import CreateOrReplaceTable, RegisterTable, RenameTable, SeenTable
from firn.storage.metadata_files import encode_metadata
from tests.strategies.hostile_names import BIDI, CONTROLS, PLAIN, RESERVED_COLUMNS, SPACED
from tests.unit.coordinator.workbench import SCHEMA, TABLE, WAREHOUSE, Workbench, append, create, new_id

REFUSED_COLUMNS = (*RESERVED_COLUMNS, "_ROW_ID", *CONTROLS, *BIDI, *SPACED, "", "x" * 513)
REFUSED_REFS = (*CONTROLS, *BIDI, *SPACED)
NAMES = [name for name in PLAIN if not set(name) & {"."}]


def schema_with(*names: str) -> dict[str, Any]:
    columns = [{"id": 10 + at, "name": name, "type": "int", "required": False} for at, name in enumerate(names)]
    return {**SCHEMA, "fields": [*SCHEMA["fields"], *columns]}


def update(*changes: dict[str, Any]) -> UpdateSchema:
    return UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=0, changes=changes)


def added(name: str) -> UpdateSchema:
    return update({"action": "add-column", "parent": "", "name": name, "type": "int"})


async def test_new_columns_cannot_have_names_that_no_engine_can_use() -> None:
    bench = Workbench()
    async with bench.daemon():
        for name in REFUSED_COLUMNS:
            rejected = await bench.refuse(create("db.new", schema=schema_with(name)))
            assert (rejected.rule, rejected.hint) == ("invalid-table", "fix"), name
        twins = await bench.refuse(create("db.new", schema=schema_with("B", "b")))
        assert "differ in case only" in twins.message
        await bench.commit(create())
        metadata = await bench.metadata()
        for name in REFUSED_COLUMNS:
            rejected = await bench.refuse(added(name))
            assert (rejected.rule, rejected.hint) == ("invalid-change", "fix"), name
        assert (await bench.refuse(added("ID"))).rule == "invalid-change"
        rename = update({"action": "rename-column", "name": "id", "new-name": "_pos"})
        assert (await bench.refuse(rename)).rule == "invalid-change"
        replaced = CreateOrReplaceTable(
            intent_id=new_id(), table=TABLE, schema=schema_with("_file"), seen=seen_of(metadata)
        )
        assert (await bench.refuse(replaced)).rule == "invalid-table"
        assert await bench.metadata() == metadata


def seen_of(metadata: TableMetadata) -> SeenTable:
    return SeenTable(
        uuid=metadata.table_uuid or "",
        schema_id=metadata.current_schema_id,
        last_column_id=metadata.last_column_id,
        last_partition_id=metadata.last_partition_id,
    )


async def test_unusual_names_of_columns_are_taken() -> None:
    bench = Workbench()
    async with bench.daemon():
        lowered = {name.lower(): name for name in PLAIN}
        await bench.commit(create(schema=schema_with(*lowered.values())))
        await bench.commit(append("a"))


async def test_a_foreign_table_with_such_names_is_registered_written_to_and_changed() -> None:
    bench = Workbench()
    names = ("_file", "_row_id", "B", "b", "a\nb")
    async with bench.daemon():
        await bench.commit(create())
        made = await bench.metadata()
        document = msgspec.json.decode(encode_metadata(made))
        document["schemas"][0]["fields"] = schema_with(*names)["fields"]
        document |= {
            "last-column-id": 20, "location": f"{WAREHOUSE}/db/foreign",
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c2",
        }  # fmt: skip
        place = f"{WAREHOUSE}/db/foreign/metadata/00000-a.metadata.json"
        bench.files.create(place, msgspec.json.encode(document))
        await bench.commit(RegisterTable(intent_id=new_id(), table="db.foreign", metadata_location=place))
        await bench.commit(append("a", table="db.foreign"))
        change = {"action": "rename-column", "name": "_file", "new-name": "file"}
        await bench.commit(UpdateSchema(intent_id=new_id(), table="db.foreign", base_schema_id=0, changes=(change,)))
        assert {"file", "_row_id", "B", "b"} <= {
            field.name for field in (await bench.metadata("db.foreign")).current_schema.fields
        }


@pytest.mark.parametrize("kind", [CreateBranch, CreateTag])
async def test_new_branches_and_tags_have_names_that_people_can_read(kind: Any) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        head = (await bench.commit(append("a"))).snapshot_id
        for name in REFUSED_REFS:
            rejected = await bench.refuse(kind(intent_id=new_id(), table=TABLE, ref_name=name, snapshot_id=head))
            assert (rejected.rule, rejected.hint) == ("invalid-ref", "fix"), name
        for name in PLAIN[:-1]:  # the last is longer than a name of a branch may be
            await bench.commit(kind(intent_id=new_id(), table=TABLE, ref_name=name, snapshot_id=head))
        if kind is CreateBranch:
            renamed = RenameBranch(intent_id=new_id(), table=TABLE, ref_name=PLAIN[0], new_name="a\u202eb")
            assert (await bench.refuse(renamed)).rule == "invalid-ref"


async def test_new_tables_have_names_that_people_can_read() -> None:
    bench = Workbench()
    async with bench.daemon():
        for name in ("\u2028", "a\u2029b", *BIDI, *SPACED):
            for full in (f"db.{name}", f"{name}.t"):
                rejected = await bench.refuse(create(full))
                assert (rejected.rule, rejected.hint) == ("invalid-table-name", "fix"), name
        places = {(await bench.commit(create(f"{name}.t"))).metadata_location for name in NAMES}
        assert len({place.rpartition("/metadata/")[0] for place in places if place}) == len(NAMES)
        renamed = RenameTable(intent_id=new_id(), table=f"{NAMES[0]}.t", new_name="db.a\u202eb")
        assert (await bench.refuse(renamed)).rule == "invalid-table-name"
