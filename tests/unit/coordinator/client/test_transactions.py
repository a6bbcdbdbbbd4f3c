"""Transactions through the client: made of intents that it makes, committed whole, told member by member."""

from __future__ import annotations

import pytest

from firn import Intents
from firn.coordinator.client import AsyncClient
from firn.model.errors import InvalidIntent, RejectedError
from firn.model.operations.transaction import Unchanged
from tests.unit.coordinator.workbench import SCHEMA, Workbench, content_file

A, B = "db.a", "db.b"


async def test_intents_that_were_made_are_committed_together_while_what_was_read_is_unchanged() -> None:
    bench, make = Workbench(), Intents()
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:
        for table in (A, B):
            await (await client.create_table(table, SCHEMA)).committed(10)
        prices = await client.table(B)
        members = [
            make.append(A, [content_file("x", table=A)], summary={"step": "1"}),
            make.update_properties(A, {"filled": "yes"}),
        ]
        done = await (await client.transaction(members, unchanged=[prices], summary={"job": "7"})).committed(10)
        assert [member["operation"] for member in done.details["members"]] == ["append", "update-properties"]
        assert await bench.live(A) == ["x"]
        await (await client.append(B, [content_file("new price", table=B)])).committed(10)
        with pytest.raises(RejectedError, match="table-changed"):
            await (await client.transaction(members, unchanged=[prices])).committed(10)
        exactly = Unchanged(
            table=B, table_uuid=prices.uuid, metadata_location=(await client.table(B)).metadata_location
        )
        later = [make.append(A, [content_file("y", table=A)]), make.append("db.c", [content_file("z")])]
        with pytest.raises(RejectedError, match="unknown-table") as caught:
            await (await client.transaction(later, unchanged=[exactly])).committed(10)
        assert await bench.live(A) == ["x"]
    assert caught.value.outcome.details == {"member": 1, "table": "db.c", "operation": "append"}


async def test_what_cannot_be_part_of_a_transaction_is_said_before_it_is_sent() -> None:
    make = Intents()
    with pytest.raises(InvalidIntent, match="drop-table cannot be part"):
        make.transaction([make.drop_table(A)])
    with pytest.raises(InvalidIntent, match="no members"):
        make.transaction([])
