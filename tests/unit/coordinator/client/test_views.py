"""Views through the client: who changes one names what it has seen, and what it has seen is what was committed."""

from __future__ import annotations

import pytest

from firn.coordinator.client import AsyncClient, ViewFound
from firn.model.errors import NotFound, RejectedError
from firn.model.schema import schema_from_json
from tests.unit.coordinator.view_intents import COLUMNS, VIEW
from tests.unit.coordinator.workbench import SCHEMA, Workbench


def queries_of(seen: ViewFound) -> list[str]:
    return [one.sql for one in seen.version.representations]  # type: ignore[union-attr]


async def test_a_view_is_made_changed_and_dropped() -> None:
    bench = Workbench()
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:
        made = await client.create_view(
            VIEW, schema_from_json(COLUMNS), {"spark": "SELECT 1"},
            properties={"comment": "daily"}, default_namespace=["raw", "web"], writer="dbt",
        )  # fmt: skip
        await made.committed(10)
        first = await client.view(VIEW)
        assert (first.version.version_id, first.version.default_namespace) == (1, ("raw", "web"))
        await (await client.replace_view(first, {"spark": "SELECT 2"})).committed(10)
        second = await client.view(VIEW)
        with pytest.raises(RejectedError, match="view-conflict"):
            await (await client.replace_view(first, {"spark": "SELECT 3"})).committed(10)
        await (await client.update_view_properties(second, updates={"owner": "me"}, removals=["comment"])).committed(10)
        await (await client.set_current_view_version(second, 1)).committed(10)
        back = await client.view(VIEW)
        await (await client.drop_view(back)).committed(10)
        with pytest.raises(NotFound):
            await client.view(VIEW)
    assert (queries_of(second), queries_of(back)) == (["SELECT 2"], ["SELECT 1"])
    assert second.schema.struct == first.schema.struct
    assert back.metadata.properties == {"owner": "me"}


async def test_a_table_is_not_found_as_a_view_nor_a_view_as_a_table() -> None:
    bench = Workbench()
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:
        await (await client.create_table("db.events", SCHEMA)).committed(10)
        await (await client.create_view(VIEW, COLUMNS, {"spark": "SELECT 1"})).committed(10)
        with pytest.raises(NotFound, match="is a view, not a table"):
            await client.table(VIEW)
        with pytest.raises(NotFound, match="is a table, not a view"):
            await client.view("db.events")
