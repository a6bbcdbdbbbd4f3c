"""Files go into the table, and under the columns, that they were described for, and into no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firn import Intents
from firn.coordinator.client.intents import sealed
from firn.coordinator.replay.origins import replaced_columns
from firn.model.intent import ContentFile, DropTable, Intent, RenameTable
from firn.model.metadata import TableMetadata
from firn.model.operations.layout import UpdateSchema
from firn.model.outcome import Committed, Rejected
from firn.model.schema import schema_from_json
from tests.unit.coordinator.replay.test_create_or_replace import replacing
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, append, content_file, create, new_id

MAKE = Intents()
MOVED: dict[str, Any] = {"type": "struct", "fields": [
    {"id": 1, "name": "name", "type": "string", "required": False},
    {"id": 2, "name": "id", "type": "long", "required": True},
]}  # fmt: skip
"""Columns of `SCHEMA` that have changed places: file and table agree on no id."""


def described(metadata: TableMetadata, *names: str, table: str = TABLE) -> list[ContentFile]:
    """Files as every describing function returns them."""
    origin: dict[str, Any] = {"table_uuid": metadata.table_uuid, "schema_id": metadata.current_schema_id}
    return [msgspec.structs.replace(content_file(name, table=table), **origin) for name in names]


def deletes(metadata: TableMetadata) -> list[ContentFile]:
    files = described(metadata, "deletes")
    return [msgspec.structs.replace(file, content="equality-deletes", equality_ids=(1,)) for file in files]


WRITES: dict[str, Callable[[TableMetadata, int], Intent]] = {
    "append": lambda old, base: MAKE.append(TABLE, described(old, "x")),
    "staged append": lambda old, base: MAKE.append(TABLE, described(old, "x"), stage=True),
    "overwrite": lambda old, base: MAKE.overwrite(
        TABLE, base_snapshot_id=base, row_filter=True, added=described(old, "x")
    ),
    "replace": lambda old, base: MAKE.replace(
        TABLE, removed=described(old, "b"), added=described(old, "x"), base_snapshot_id=base
    ),
    "replace-partitions": lambda old, base: MAKE.replace_partitions(TABLE, described(old, "x"), base_snapshot_id=base),
    "row-delta": lambda old, base: MAKE.row_delta(TABLE, added=described(old, "x"), base_snapshot_id=base),
    "equality deletes": lambda old, base: MAKE.row_delta(TABLE, deletes=deletes(old)),
    "transaction": lambda old, base: MAKE.transaction([MAKE.append(TABLE, described(old, "x"))]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("once", [True, False], ids=["said by the intent", "said by each file"])
async def test_files_of_a_table_that_was_dropped_do_not_get_into_its_successor(
    write: Callable[[TableMetadata, int], Intent], *, once: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        old = await bench.metadata()
        await bench.commit(append("a"))
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        await bench.commit(create(schema=MOVED))
        base = (await bench.commit(append("b"))).snapshot_id
        assert base is not None
        intent = write(old, base)
        if once:
            intent = msgspec.structs.replace(sealed(intent, reply_to="firn:replies:x"), reply_to=None)
            assert b'schema-id"' not in msgspec.json.encode(intent)
        refused = await bench.refuse(intent)
        assert (refused.rule, refused.hint) == ("table-uuid-mismatch", "replan")
        assert old.table_uuid in refused.message
        new = write(await bench.metadata(), base)
        await bench.commit(new)
    assert "a" not in await bench.live()


async def test_files_of_several_tables_in_one_intent_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        old = await bench.metadata()
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        await bench.commit(create())
        now = await bench.metadata()
        mixed = MAKE.append(TABLE, [*described(now, "a"), *described(old, "b")])
        contradicting = MAKE.append(TABLE, described(old, "c"), table_uuid=now.table_uuid)
        for intent in (mixed, contradicting):
            refused = await bench.refuse(sealed(intent, reply_to="firn:replies:x"))
            assert (refused.rule, len(refused.files)) == ("table-uuid-mismatch", 1)
        good = [MAKE.append(TABLE, described(now, name)) for name in "de"]
        outcomes = await bench.settle(*good, mixed)  # in one batch
        assert [type(outcome) for outcome in outcomes] == [Committed, Committed, Rejected]
    assert await bench.live() == ["d", "e"]


async def test_a_renamed_table_takes_the_files_that_were_described_for_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        old = await bench.metadata()
        await bench.commit(RenameTable(intent_id=new_id(), table=TABLE, new_name="db.renamed"))
        await bench.commit(create(schema=MOVED))
        await bench.commit(MAKE.append("db.renamed", described(old, "a")))
        assert (await bench.refuse(MAKE.append(TABLE, described(old, "b")))).rule == "table-uuid-mismatch"
    assert await bench.live("db.renamed") == ["a"]


def change(*changes: dict[str, Any], base: int = 0) -> UpdateSchema:
    return UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=base, changes=changes, allow_incompatible=True)


ADD: dict[str, Any] = {"action": "add-column", "name": "note", "type": "string"}
DROP: dict[str, Any] = {"action": "drop-column", "name": "name"}
RENAME: dict[str, Any] = {"action": "rename-column", "name": "name", "new-name": "title"}
AGAIN: dict[str, Any] = {"action": "add-column", "name": "name", "type": "string"}
CHANGES: dict[str, tuple[tuple[dict[str, Any], ...], list[str] | None]] = {
    "a new column": ((ADD,), None),
    "a dropped column": ((DROP,), None),
    "a renamed column": ((RENAME,), None),
    "a renamed column whose name a new one has": ((RENAME, AGAIN), None),
    "a dropped column whose name a new one has": ((DROP, AGAIN), ["name"]),
}


@pytest.mark.parametrize(("changes", "replaced"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("at_once", [False, True])
async def test_files_described_by_an_older_schema_may_be_added_unless_a_column_was_replaced(
    changes: tuple[dict[str, Any], ...], replaced: list[str] | None, *, at_once: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intent = MAKE.append(TABLE, described(await bench.metadata(), "a"))
        updates = [change(one, base=at) for at, one in enumerate(changes)]
        if at_once:
            *_, outcome = await bench.settle(*updates, sealed(intent, reply_to="firn:replies:x"))
        else:
            for update in updates:
                await bench.commit(update)
            (outcome,) = await bench.settle(intent)
    if replaced is None:
        assert isinstance(outcome, Committed)
        assert await bench.live() == ["a"]
    else:
        assert isinstance(outcome, Rejected)
        assert (outcome.rule, outcome.hint, list(outcome.columns)) == ("columns-replaced", "replan", replaced)
        assert outcome.conflicting_intent_id == updates[-1].intent_id


REPLACEMENTS: dict[str, tuple[dict[str, Any], bool]] = {
    "the same columns": (SCHEMA, True),
    "fewer columns": ({**SCHEMA, "fields": SCHEMA["fields"][:1]}, True),
    "other columns": ({"type": "struct", "fields": [{"id": 1, "name": "x", "type": "int", "required": False}]}, False),
    "a column of another type": (
        {**SCHEMA, "fields": [{**SCHEMA["fields"][0], "type": "string"}, *SCHEMA["fields"][1:]]}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "fits"), REPLACEMENTS.values(), ids=REPLACEMENTS)
async def test_files_described_for_what_a_table_was_before_its_replacement(
    schema: dict[str, Any], *, fits: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        old = await bench.metadata()
        await bench.commit(replacing(old, schema=schema, data_files=tuple(described(old, "first"))))
        (outcome,) = await bench.settle(MAKE.append(TABLE, described(old, "a")))
    assert isinstance(outcome, Committed if fits else Rejected)
    assert await bench.live() == (["a", "first"] if fits else ["first"])


async def test_files_described_by_a_schema_that_the_table_does_not_have_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        refused = await bench.refuse(append("a", schema_ids=(0, 7)))
        assert (refused.rule, refused.hint) == ("columns-replaced", "replan")
        assert "no schema 7" in refused.message
        await bench.commit(append("a", schema_ids=(0,)))


def columns(*given: tuple[int, str]) -> Any:
    fields = [{"id": field_id, "name": name, "type": "long", "required": False} for field_id, name in given]
    return schema_from_json({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        ([(1, "a"), (2, "b")], [(1, "a"), (2, "b")], []),
        ([(1, "a"), (2, "b")], [(2, "b")], []),
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")], []),
        ([(1, "a"), (2, "b")], [(1, "a"), (3, "b")], ["b"]),
        ([(1, "a"), (2, "b")], [(3, "c")], ["a", "b"]),
        ([], [(3, "c")], []),
    ],
)
def test_a_column_is_replaced_where_another_has_its_name(
    before: list[tuple[int, str]], after: list[tuple[int, str]], replaced: list[str]
) -> None:
    assert replaced_columns(columns(*before), columns(*after)) == replaced
