"""An intent that cannot be replayed refuses itself, not the batch that it came with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from firn.coordinator.replay import engine
from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.model.intent import DeleteFiles
from firn.model.outcome import Committed, Rejected
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, new_id


def delete(name: str) -> DeleteFiles:
    return DeleteFiles(
        intent_id=new_id(), table=TABLE, removed_data_files=(content_file(name).file_path,), summary={"name": name}
    )


@pytest.mark.parametrize(
    "error", [CorruptFile("memory://wh/m.avro", "is cut"), InvalidInput("is wrong"), NotFound("memory://wh/m.avro")]
)
@pytest.mark.parametrize("bad", [0, 2, 5])
async def test_the_others_of_its_batch_are_decided_as_ever(
    error: Exception, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay: Callable[..., Any] = engine.OPERATIONS[DeleteFiles]

    def failing(working: Any, intent: DeleteFiles) -> Any:
        if intent.summary.get("name") == f"f{bad}":
            raise error
        return replay(working, intent)

    monkeypatch.setitem(engine.OPERATIONS, DeleteFiles, failing)
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append(*(f"f{i}" for i in range(6))))
        outcomes = await bench.settle(*(delete(f"f{i}") for i in range(6)), append("last"))
        assert await bench.live() == [f"f{bad}", "last"]
    refused = [outcome for outcome in outcomes if isinstance(outcome, Rejected)]
    assert outcomes.index(refused[0]) == bad
    assert [(outcome.rule, outcome.hint) for outcome in refused] == [("table-unreadable", "fix")]
    assert str(error) in refused[0].message
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 6


async def test_a_batch_on_a_table_that_cannot_be_read_is_refused_whole_at_once() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        metadata_location = (await bench.commit(append("a"))).metadata_location
    assert metadata_location is not None
    bench.files.replace(metadata_location, b"{")
    async with bench.daemon():
        outcomes = await bench.settle(*(append(f"b{i}") for i in range(5)))
    assert {outcome.rule for outcome in outcomes if isinstance(outcome, Rejected)} == {"table-unreadable"}
    assert len(outcomes) == 5
