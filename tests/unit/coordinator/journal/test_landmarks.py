"""Telling who was first is a courtesy: it is not paid for by those who have nothing to do with it."""

from __future__ import annotations

import pytest

from firn.coordinator.journal import decisions
from firn.model.limits import Limits
from firn.model.operations.layout import UpdateSchema
from firn.model.outcome import Rejected
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import TABLE, append, create, new_id


def rename(new_name: str, *, writer: str | None = None) -> UpdateSchema:
    """A change of the table's first schema, of which only one can win."""
    change = {"action": "rename-column", "name": "name", "new-name": new_name}
    return UpdateSchema(intent_id=new_id(), table=TABLE, base_schema_id=0, changes=(change,), writer=writer)


@pytest.mark.parametrize("damage", ["damaged", "gone"])
async def test_a_checkpoint_that_cannot_be_read_costs_nobody_more_than_the_winners_name(
    damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 3)
    bench = Gathering(limits=Limits(dedupe_intents_max=1))
    async with bench.daemon("a"):
        await bench.commit(create())
        await bench.commit(rename("title", writer="guilty"))
        for number in range(9):
            await bench.commit(append(f"f{number}"))
    checkpoint = (await bench.journal())[2].location
    if damage == "gone":
        bench.files.delete(checkpoint)
    else:
        bench.files.replace(checkpoint, b"no segment")
    async with bench.daemon("b") as daemon:
        refused, committed = await bench.gathered(daemon, rename("label"), append("beside"))
    assert isinstance(refused, Rejected)
    assert (refused.rule, refused.conflicting_writer) == ("schema-conflict", None)
    assert not isinstance(committed, Rejected)
