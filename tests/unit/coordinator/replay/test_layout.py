"""Partition specs and sort orders: changed where the changes commute, refused where they do not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.operations.layout import UpdateSchema, UpdateSortOrder, UpdateSpec
from firn.model.operations.tables import CreateOrReplaceTable, SeenTable
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, append, content_file, create, new_id

BY_DAY = {"spec-id": 0, "fields": [{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}]}


def spec(*changes: dict[str, Any], base: int = 0, schema: int = 0, **members: Any) -> UpdateSpec:
    return UpdateSpec(**{
        "intent_id": new_id(), "table": TABLE, "base_spec_id": base, "base_schema_id": schema, "changes": changes,
        **members,
    })  # fmt: skip


def order(*keys: dict[str, Any], base: int = 0, schema: int = 0, **members: Any) -> UpdateSortOrder:
    return UpdateSortOrder(**{
        "intent_id": new_id(), "table": TABLE, "base_sort_order_id": base, "base_schema_id": schema, "sort_by": keys,
        **members,
    })  # fmt: skip


def schema(*changes: dict[str, Any]) -> UpdateSchema:
    return UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=0, changes=changes)


def add(source: str, transform: str = "identity", **members: Any) -> dict[str, Any]:
    return {"action": "add-field", "source": source, "transform": transform, **members}


def remove(name: str) -> dict[str, Any]:
    return {"action": "remove-field", "name": name}


def rename(name: str, new_name: str) -> dict[str, Any]:
    return {"action": "rename-field", "name": name, "new-name": new_name}


def rename_column(name: str, new_name: str) -> dict[str, Any]:
    return {"action": "rename-column", "name": name, "new-name": new_name}


async def fields(bench: Workbench) -> list[tuple[str, str, int]]:
    return [(f.name, f.transform, f.field_id) for f in (await bench.metadata()).default_spec.fields]


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_a_spec_evolves_and_files_of_both_specs_are_taken(catalog: str) -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create(catalog=catalog))
        new = msgspec.structs.replace(content_file("b"), spec_id=1, partition=("x",))
        outcomes = await bench.gathered(daemon, append("a"), spec(add("name")), append("b", data_files=(new,)))
        assert all(isinstance(o, Committed) for o in outcomes), outcomes
        assert await fields(bench) == [("name", "identity", 1000)]
        await bench.commit(append("c"))
    assert outcomes[1].details == {"spec-id": 1}
    assert await bench.live() == ["a", "b", "blocker", "c"]


async def test_changes_of_the_partitioning_by_different_columns_are_both_made() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_DAY))
        outcomes = await bench.settle(
            spec(add("name")),
            spec(add("id", "bucket[16]")),
            spec(rename("ts_day", "day")),
            schema(rename_column("id", "key")),
        )
        assert all(isinstance(o, Committed) for o in outcomes), outcomes
        expected = [("day", "day", 1000), ("name", "identity", 1001), ("id_bucket_16", "bucket[16]", 1002)]
        assert await fields(bench) == expected
        again = await bench.commit(spec(remove("name"), base=3))
        assert await fields(bench) == [expected[0], expected[2]]
    assert again.details == {"spec-id": 4}


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        (spec(add("name")), spec(add("name", "truncate[2]"))),
        (spec(add("ts", "hour"), remove("ts_day")), spec(add("ts", "month"))),
        (spec(remove("ts_day")), spec(rename("ts_day", "day"))),
        (spec(remove("ts_day")), spec(remove("ts_day"))),
        (spec(add("id", name="part")), spec(add("name", name="part"))),
        (schema(rename_column("name", "title")), spec(add("name"))),
        (schema({"action": "drop-column", "name": "name"}), spec(add("name"))),
        (schema(rename_column("name", "title")), order({"source": "name"})),
        (order({"source": "name"}), order({"source": "id"})),
    ],
)
async def test_what_does_not_commute_is_refused(
    winner: UpdateSpec | UpdateSchema | UpdateSortOrder, loser: UpdateSpec | UpdateSortOrder
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_DAY))
        fresh = [msgspec.structs.replace(i, intent_id=new_id()) for i in (winner, loser)]
        won, lost = await bench.settle(*fresh)
        assert isinstance(won, Committed), won
        assert isinstance(lost, Rejected)
        assert (lost.rule, lost.hint) == ("layout-conflict", "replan")


async def test_a_sort_order_is_replaced_and_the_same_again_is_no_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        key = {"source": "ts", "transform": "day", "direction": "desc"}
        one, other, schema_too = await bench.settle(
            order(key), order(key), schema({"action": "add-column", "name": "new", "type": "int"})
        )
        assert isinstance(schema_too, Committed)
        assert (one.details, other.details) == ({"sort-order-id": 1}, {"sort-order-id": 1, "unchanged": True})
        await bench.commit(order({"source": "name"}, base=1))
        metadata = await bench.metadata()
        assert metadata.default_order.fields[0].source_ids == (3,)
        unsorted = await bench.commit(order(base=2))
        assert (await bench.metadata()).default_sort_order_id == 0
    assert unsorted.details == {"sort-order-id": 0}


@pytest.mark.parametrize(
    ("intent", "rule"),
    [
        (spec({"action": "explode"}), "invalid-field"),
        (spec({"action": "add-field", "source": "name", "why": 1}), "invalid-field"),
        (spec(add("none")), "invalid-change"),
        (spec(add("ts", "day")), "invalid-change"),
        (spec(add("name", "sideways")), "invalid-change"),
        (spec(remove("none")), "invalid-change"),
        (spec(add("name"), base=9), "layout-conflict"),
        (spec(add("name"), schema=9), "schema-conflict"),
        (order({"source": "none"}), "invalid-change"),
        (order({"column": "id"}), "invalid-field"),
        (order({"source": "id"}, base=9), "layout-conflict"),
        (order({"source": "id"}, schema=9), "schema-conflict"),
        (order({"source": "id"}, table="db.none"), "unknown-table"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_rule_and_changes_nothing(
    intent: UpdateSpec | UpdateSortOrder, rule: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_DAY))
        before = await bench.metadata()
        outcome = await bench.refuse(msgspec.structs.replace(intent, intent_id=new_id()))
        assert outcome.rule == rule
        assert outcome.message
        assert await bench.metadata() == before


async def test_a_v1_spec_keeps_removed_fields_as_void() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(partition_spec=BY_DAY, format_version=1))
        outcomes = await bench.settle(spec(remove("ts_day")), spec(add("name")))
        assert all(isinstance(o, Committed) for o in outcomes), outcomes
        assert await fields(bench) == [("ts_day", "void", 1000), ("name", "identity", 1001)]


@pytest.mark.parametrize("how", ["add", "rename", "reuse", "replace"])
async def test_no_column_gets_a_name_or_type_that_a_partition_field_of_any_spec_cannot_stand(how: str) -> None:
    """Java and Spark do not open a table with a field that has another column's name, or is a bucket of doubles.

    A replacement with another type is allowed: the column gets a new id, and the old field keeps its source.
    """
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(spec(add("id", "bucket[4]"), add("name")))
        await bench.commit(spec(remove("id_bucket_4"), base=1))
        await bench.commit(spec(add("ts", "day"), base=2))
        match how:
            case "add":
                intent: Any = schema({"action": "add-column", "name": "id_bucket_4", "type": "int"})
            case "rename":
                intent = schema(rename_column("ts", "id_bucket_4"))
            case "reuse":
                intent = schema(rename_column("name", "title"), {"action": "add-column", "name": "name", "type": "int"})
            case _:
                before, columns = await bench.metadata(), list(SCHEMA["fields"])
                columns.append({"id": 9, "name": "ts_day", "type": "date", "required": False})
                intent = CreateOrReplaceTable(
                    intent_id=new_id(),
                    table=TABLE,
                    schema={**SCHEMA, "fields": columns},
                    seen=SeenTable(
                        uuid=before.table_uuid,
                        schema_id=before.current_schema_id,
                        last_column_id=before.last_column_id,
                        last_partition_id=before.last_partition_id,
                    ),
                )
        refused = await bench.refuse(intent)
        await bench.commit(schema(rename_column("name", "title")))  # nobody takes that for the field called name
        assert [one[0] for one in await fields(bench)] == ["name", "ts_day"]
    assert refused.rule == ("invalid-table" if how == "replace" else "invalid-change")
