"""Appends that are bound together end as they do one by one, whatever is among them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed

from firn.coordinator.replay import append as module
from firn.coordinator.replay.bound_together import bind_together
from firn.model.intent import CountMap, Intent, ValueMap
from firn.model.operations.refs import CreateBranch
from firn.model.outcome import Committed, Outcome
from tests.unit.coordinator.replay.gathering import Gathering
from tests.unit.coordinator.workbench import WAREHOUSE, append, content_file, create, delete, new_id

PARTITIONED: dict[str, Any] = {
    "spec-id": 0,
    "fields": [{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}],
}


def of(name: str, **changes: Any) -> Any:
    """A data file of a partition, with metrics."""
    given = {"partition": (7,), "value_counts": CountMap((1, 2), (10, 9)), "lower_bounds": ValueMap((1,), ("00" * 8,))}
    return changed(content_file(name), **{**given, **changes})


def appended(*files: Any, **changes: Any) -> Intent:
    return append(data_files=files, **changes)


def outside(name: str) -> Any:
    return of(name, file_path=f"{WAREHOUSE}/db/others/data/{name}.parquet")


BATCHES: dict[str, list[Intent]] = {
    "all right": [appended(of("a")), appended(of("b"), of("c", partition=(None,))), appended(of("d", partition=(8,)))],
    "one named twice": [appended(of("a")), appended(of("b")), appended(of("a")), appended(of("c"))],
    "one live already": [appended(of("a")), appended(of("old")), appended(of("c"))],
    "one removed before": [delete("old"), appended(of("a")), appended(of("old")), appended(of("c"))],
    "one removed between": [appended(of("a")), appended(of("b")), delete("a"), appended(of("a")), appended(of("c"))],
    "one outside": [appended(of("a")), appended(outside("b")), appended(of("c"))],
    "one in another spelling": [
        appended(of("a")), appended(of("b", file_path=f"{WAREHOUSE}/db/events/data/b%20c.parquet")),
        appended(of("x", file_path=f"{WAREHOUSE}/db/events/data/../../x.parquet")), appended(of("c")),
    ],
    "an unknown spec": [appended(of("a")), appended(of("b", spec_id=5)), appended(of("c"))],
    "a wrong partition": [appended(of("a")), appended(of("b", partition=("x",))), appended(of("c", partition=()))],
    "no data": [appended(of("a")), appended(of("b", content="position-deletes")), appended(of("c"))],
    "no hexadecimal": [appended(of("a")), appended(of("b", lower_bounds=ValueMap((1,), ("zz",)))), appended(of("c"))],
    "no metrics": [appended(of("a")), appended(changed(content_file("b"), partition=(1,), encoded=b"\xff" * 9))],
    "another table": [appended(of("a")), appended(of("b"), table_uuid="0192d0a0-0000-7000-8000-000000000000")],
    "another branch": [appended(of("a")), appended(of("a"), branch="audit"), appended(of("a"), branch="audit")],
    "no such branch": [appended(of("a"), branch="none"), appended(of("b"), branch="none")],
    "summaries that differ": [appended(of("a"), summary={"x": "1"}), appended(of("b"), summary={"x": "2"})],
}  # fmt: skip


RIGHT = {"all right", "summaries that differ", "one removed before", "one removed between"}
"""Those with appends beside each other that are right whichever comes first."""


def as_told(outcome: Outcome) -> object:
    """What does not depend on when and where it was committed."""
    if isinstance(outcome, Committed):
        return "committed", outcome.sequence_number
    return outcome.rule, outcome.files


async def told(intents: list[Intent], version: int) -> tuple[list[object], list[str], str | None]:
    """What becomes of the intents, in one batch; the files afterwards, and the rows by the last summary."""
    bench = Gathering()
    async with bench.daemon() as daemon:
        await bench.commit(create(partition_spec=PARTITIONED, format_version=version))
        old = await bench.commit(appended(of("old")))
        assert old.snapshot_id is not None
        branch = CreateBranch(intent_id=new_id(), table=old.table, ref_name="audit", snapshot_id=old.snapshot_id)
        await bench.commit(branch)
        fresh = [changed(intent, intent_id=new_id()) for intent in intents]
        outcomes = await bench.gathered(daemon, *fresh, blocker="blocker")
        snapshot = (await bench.metadata()).current_snapshot
        assert snapshot is not None
        return [as_told(one) for one in outcomes], await bench.live(), (snapshot.summary or {})["total-records"]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", BATCHES)
async def test_a_batch_ends_as_it_does_one_by_one(name: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[bool] = []

    def spied(*arguments: Any) -> Any:
        found = bind_together(*arguments)
        bound.append(found is not None)
        return found

    monkeypatch.setattr(module, "bind_together", spied)
    together = await told(BATCHES[name], version)
    assert any(bound) == (version > 1 and name in RIGHT)
    monkeypatch.setattr(module, "bind_together", lambda *_: None)
    assert together == await told(BATCHES[name], version)
