"""Schema changes: applied where they are about other columns than what changed since, refused where they are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from firn.model import metadata_create
from firn.model.operations.layout import UpdateSchema
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "n", "type": "int", "required": False},
        {"id": 3, "name": "name", "type": "string", "required": False},
        {"id": 4, "name": "p", "required": False, "type": {"type": "struct", "fields": [
            {"id": 5, "name": "x", "type": "int", "required": False},
            {"id": 6, "name": "y", "type": "int", "required": False},
        ]}},
        {"id": 7, "name": "l", "required": False, "type": {
            "type": "list", "element-id": 8, "element-required": False, "element": {"type": "struct", "fields": [
                {"id": 9, "name": "z", "type": "int", "required": False},
            ]},
        }},
    ],
}  # fmt: skip
NAMES = ["id", "n", "name", "p", "p.x", "p.y", "l", "l.element", "l.element.z"]


def update(*changes: dict[str, Any], base: int = 0, **members: Any) -> UpdateSchema:
    return UpdateSchema(
        **{"intent_id": new_id(), "table": TABLE, "base_schema_id": base, "changes": changes, **members}
    )


def add(name: str, type: str = "string", **members: Any) -> dict[str, Any]:
    return {"action": "add-column", "name": name, "type": type, **members}


def drop(name: str) -> dict[str, Any]:
    return {"action": "drop-column", "name": name}


def rename(name: str, new_name: str) -> dict[str, Any]:
    return {"action": "rename-column", "name": name, "new-name": new_name}


def widen(name: str) -> dict[str, Any]:
    return {"action": "update-column-type", "name": name, "type": "long"}


def comment(name: str, doc: str = "said") -> dict[str, Any]:
    return {"action": "update-column-doc", "name": name, "doc": doc}


def first(name: str) -> dict[str, Any]:
    return {"action": "move-column-first", "name": name}


def identifiers(*names: str) -> dict[str, Any]:
    return {"action": "set-identifier-fields", "names": list(names)}


async def names_of(bench: Workbench) -> dict[str, int]:
    return {name: i for i, name in (await bench.metadata()).current_schema.names_by_id.items()}


async def with_table(bench: Workbench, **members: Any) -> dict[str, int]:
    await bench.commit(create(schema=SCHEMA, **members))
    return await names_of(bench)


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_a_schema_evolves_and_the_writer_learns_the_ids(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        ids = await with_table(bench, catalog=catalog)
        await bench.commit(append("a"))
        outcome = await bench.commit(update(add("country"), add("w", parent="p"), rename("name", "title"), widen("n")))
        await bench.commit(append("b"))
        metadata = await bench.metadata()
        names = await names_of(bench)
    assert outcome.snapshot_id is None
    assert outcome.details == {
        "schema-id": 1, "new-columns": {"country": names["country"], "p.w": names["p.w"]},
    }  # fmt: skip
    assert names["title"] == ids["name"]
    assert {names["country"], names["p.w"]} == {max(ids.values()) + 1, max(ids.values()) + 2}
    assert metadata.last_column_id == max(names.values())
    assert [s.schema_id for s in metadata.snapshots] == [0, 1]
    assert await bench.live() == ["a", "b"]


async def test_changes_of_different_columns_that_were_planned_together_are_all_made() -> None:
    bench = Gathering()
    async with bench.daemon() as daemon:
        ids = await with_table(bench)
        outcomes = await bench.gathered(
            daemon,
            append("a"),
            update(add("one")),
            update(add("two"), comment("n")),
            update(add("v", parent="p"), rename("p.x", "x1")),
            update(add("w", parent="p"), widen("p.y")),
            update(drop("name")),
            update(first("id")),
            append("b"),
        )
        assert all(isinstance(o, Committed) for o in outcomes), outcomes
        assert len({o.batch for o in outcomes}) == 1
        names = await names_of(bench)
    new = {"one", "two", "p.v", "p.w"}
    assert set(names) == ({*NAMES, "p.x1"} - {"name", "p.x"}) | new
    assert sorted(names[n] for n in new) == list(range(max(ids.values()) + 1, max(ids.values()) + 5))
    assert await bench.live() == ["a", "b", "blocker"]


@pytest.mark.parametrize(
    ("winner", "loser", "named"),
    [
        ([rename("n", "m")], [comment("n")], "n"),
        ([widen("n")], [widen("n"), comment("n")], "n"),
        ([drop("n")], [widen("n")], "n"),
        ([drop("p")], [add("w", parent="p")], "p"),
        ([drop("p")], [widen("p.x")], "p"),
        ([rename("p", "q")], [comment("p.x")], "p"),
        ([add("w", parent="p")], [drop("p")], "p"),
        ([widen("p.x")], [drop("p")], "p.x"),
        ([drop("l")], [add("w", parent="l")], "l"),
        ([rename("p.x", "x1")], [{"action": "move-column-after", "name": "p.y", "reference": "p.x"}], "p.x"),
        ([first("name")], [first("n")], "the order of columns"),
        ([first("p.y")], [{"action": "move-column-first", "name": "p.x"}], "the order of columns in p"),
        ([identifiers("id")], [identifiers()], "the identifier fields"),
        ([add("one", "int")], [add("one", "string")], "one"),
        ([add("title")], [rename("name", "title")], "title"),
        ([rename("name", "title"), rename("n", "name")], [comment("name")], "name"),
        ([identifiers("id")], [drop("id")], "id"),
    ],
)
async def test_a_change_of_what_somebody_else_has_changed_is_refused(
    winner: list[dict[str, Any]], loser: list[dict[str, Any]], named: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench)
        won, lost = await bench.settle(update(*winner), update(*loser))
        assert isinstance(won, Committed), won
        assert isinstance(lost, Rejected)
        assert (lost.rule, lost.hint) == ("schema-conflict", "replan")
        assert named in lost.message
        before = await bench.metadata()
        # Planned on what is there now, most of them would be made; none is made behind the writer's back.
        assert before.current_schema_id == 1


async def test_a_change_planned_on_a_schema_that_came_back_is_made() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench)
        await bench.commit(update(add("one")))
        back = await bench.commit(update(drop("one"), base=1))
        assert back.details["schema-id"] == 0
        late = await bench.commit(update(add("two"), base=0))
        ids = await names_of(bench)
    # The id of the dropped column is not given again.
    assert ids["two"] == max(i for n, i in ids.items() if n != "two") + 2
    assert late.details["schema-id"] == 2


@pytest.mark.parametrize(
    ("changes", "members", "rule"),
    [
        ([{"action": "explode"}], {}, "invalid-field"),
        ([{"action": "drop-column"}], {}, "invalid-field"),
        ([{**drop("n"), "why": 1}], {}, "invalid-field"),
        ([drop("none")], {}, "invalid-change"),
        ([add("n")], {}, "invalid-change"),
        ([add("r", required=True)], {}, "invalid-change"),
        ([add("d", default="x")], {}, "invalid-change"),
        ([{"action": "update-column-type", "name": "name", "type": "int"}], {}, "invalid-change"),
        ([identifiers("n")], {}, "invalid-change"),
        ([drop("n")], {"base": 7}, "schema-conflict"),
        ([drop("n")], {"table_uuid": "00000000-0000-0000-0000-000000000000"}, "table-uuid-mismatch"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_rule_and_changes_nothing(
    changes: list[dict[str, Any]], members: dict[str, Any], rule: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench)
        before = await bench.metadata()
        outcome = await bench.refuse(update(*changes, **members))
        assert outcome.rule == rule
        assert outcome.message
        assert await bench.metadata() == before


async def test_what_could_never_be_is_told_from_what_cannot_be_any_more() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench)
        await bench.commit(update(add("one")))
        never = await bench.refuse(update(drop("none")))
        no_more = await bench.refuse(update(add("one")))
    assert (never.rule, never.hint) == ("invalid-change", "fix")
    assert (no_more.rule, no_more.hint) == ("schema-conflict", "replan")


@pytest.mark.parametrize("used_by", ["partition_spec", "write_order"])
async def test_a_column_that_new_files_need_is_not_dropped(used_by: str) -> None:
    spec = {"spec-id": 0, "fields": [{"source-id": 3, "field-id": 1000, "name": "name", "transform": "identity"}]}
    key = {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    order = {"order-id": 1, "fields": [key]}
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench, **{used_by: spec if used_by == "partition_spec" else order})
        assert (await bench.refuse(update(drop("name")))).rule == "column-in-use"
        await bench.commit(update(rename("name", "title"), drop("n")))


async def test_what_properties_say_of_columns_follows_them() -> None:
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["n", "number"]}]
    properties = {
        "schema.name-mapping.default": json.dumps(mapping),
        "write.metadata.metrics.column.n": "full",
        "write.metadata.metrics.column.p.x": "counts",
        "write.metadata.metrics.column.name": "none",
        "write.parquet.bloom-filter-enabled.column.none": "true",
    }
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench, properties=properties)
        await bench.commit(update(rename("n", "m"), rename("p", "q"), drop("name"), add("extra")))
        metadata = await bench.metadata()
        found = dict(metadata.properties)
        mapped = {f["field-id"]: f["names"] for f in json.loads(found.pop("schema.name-mapping.default"))}
    assert mapped == {1: ["id"], 2: ["n", "number", "m"], metadata.current_schema.ids_by_name["extra"]: ["extra"]}
    assert {n: v for n, v in found.items() if ".column." in n} == {
        "write.metadata.metrics.column.m": "full",
        "write.metadata.metrics.column.q.x": "counts",
        "write.parquet.bloom-filter-enabled.column.none": "true",
    }


async def test_properties_and_schema_changes_commute() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench)
        outcomes = await bench.settle(
            UpdateProperties(intent_id=new_id(), table=TABLE, updates={"write.metadata.metrics.column.n": "full"}),
            update(rename("n", "m")),
        )
        assert all(isinstance(o, Committed) for o in outcomes)
        assert (await bench.metadata()).properties["write.metadata.metrics.column.m"] == "full"


async def test_a_malformed_name_mapping_of_another_writer_is_left_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_create, "check_name_mapping", lambda _: None)  # as another engine would store it
    bench = Workbench()
    async with bench.daemon():
        await with_table(bench, properties={"schema.name-mapping.default": "{"})
        outcome = await bench.commit(update(add("one")))
        assert (await bench.metadata()).properties["schema.name-mapping.default"] == "{"
    assert "left as it is" in outcome.details["name-mapping"]
