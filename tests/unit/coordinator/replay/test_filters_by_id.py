"""A filter by column ids means the columns that its writer saw, whatever they are called when it is committed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.coordinator.client import Intents
from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput
from firn.model.expressions.by_id import with_column_ids
from firn.model.expressions.expression_json import expression_from_json, expression_to_json
from firn.model.expressions.filter_text import filter_from_text
from firn.model.intent import Append, ContentFile, ValueMap
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import TABLE, Workbench, create, new_id, path_of

INTENTS = Intents()


async def seen(bench: Workbench) -> TableView:
    pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    return TableView.from_metadata(pointer.metadata_location, bench.files, name=TABLE)


def old_rows() -> Append:
    """A file whose rows have the id (column 1) 5, and no other."""
    bound = ValueMap((1,), (f"{5:02x}{'00' * 7}",))
    file = ContentFile(
        file_path=path_of("old"), file_format="parquet", spec_id=0, record_count=1, file_size_in_bytes=100,
        lower_bounds=bound, upper_bounds=bound,
    )  # fmt: skip
    return Append(intent_id=new_id(), table=TABLE, data_files=(file,))


async def renamed_and_reused(bench: Workbench, before: TableView) -> None:
    """``id`` becomes ``key``, and another column gets its name."""
    await bench.commit(INTENTS.update_schema(TABLE, base=before).rename_column("id", "key").submit())
    await bench.commit(INTENTS.update_schema(TABLE, base=await seen(bench)).add_column("id", "long").submit())


async def test_a_column_that_was_renamed_is_still_meant_when_another_has_its_name() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(old_rows())
        before = await seen(bench)
        by_name, by_id = "id = 5", before.filter("id = 5")
        await renamed_and_reused(bench, before)
        await bench.refuse(INTENTS.delete_where(TABLE, by_name))  # of the new column nothing is known
        assert await bench.live() == ["old"]
        await bench.commit(INTENTS.delete_where(TABLE, by_id))
    assert await bench.live() == []


async def test_a_column_that_was_dropped_is_not_taken_for_another() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        before = await seen(bench)
        by_id = before.filter("name = 'x'")
        change = INTENTS.update_schema(TABLE, base=before).drop_column("name")
        await bench.commit(change.submit())
        again = INTENTS.update_schema(TABLE, base=await seen(bench)).add_column("name", "string")
        await bench.commit(again.submit())
        refused = await bench.refuse(INTENTS.delete_where(TABLE, by_id))
    assert refused.rule == "invalid-filter"


@pytest.mark.parametrize(
    "text",
    ["id = 1", "not (id = 1 or name is null)", "id in (1, 2) and name like 'a%'", "bucket(4, id) = 1", "true"],
)
async def test_every_reference_is_replaced(text: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        schema = (await seen(bench)).schema
    json: Any = expression_to_json(with_column_ids(filter_from_text(text, where="filter"), schema))
    assert b'"name"' not in msgspec.json.encode(json)
    assert b'"term"' not in msgspec.json.encode(json)
    assert expression_to_json(expression_from_json(json, where="filter")) == json


async def test_a_name_that_means_no_column_is_refused_at_once() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        table = await seen(bench)
    with pytest.raises(InvalidInput, match="nothing"):
        table.filter("nothing = 1")
