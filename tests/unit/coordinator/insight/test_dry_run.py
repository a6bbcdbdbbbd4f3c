"""A dry run says what would happen, which is what then happens; and nothing is changed by asking."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from firn import AsyncClient, Forecast, Intents
from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.replay.attempt import Placement
from firn.model.errors import NotFound
from firn.model.intent import Intent
from firn.model.operations.files import DeleteWhere
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Rejected
from firn.storage.memory_files import MemoryFiles
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import (
    SCHEMA,
    TABLE,
    WAREHOUSE,
    Workbench,
    append,
    create,
    decision,
    delete,
    new_id,
    path_of,
    replace,
)


async def dry(bench: Workbench, *intents: Intent) -> list[Forecast]:
    pointers = Pointers(bench.zookeeper.connect())
    placement = Placement(warehouse=WAREHOUSE, allowed=(WAREHOUSE,))
    runs = DryRuns(streams=bench.redis.connect(), files=bench.files, pointers=pointers, placement=placement)
    before = state_of(bench)
    found = await runs.of(intents)
    assert state_of(bench) == before, "a dry run changed something"
    return found


def state_of(bench: Workbench) -> tuple[Any, ...]:
    """All files, keys and stream entries; who is connected to ZooKeeper does not count."""
    assert isinstance(bench.files, MemoryFiles)
    streams = {name: (dict(stream.entries), stream.last) for name, stream in bench.redis.streams.items()}
    return sorted(info.location for info in bench.files.list(WAREHOUSE)), dict(bench.redis.keys), streams


async def one(bench: Workbench, intent: Intent) -> Forecast:
    (found,) = await dry(bench, intent)
    return found


@pytest.fixture(params=["metastore", "file-system"])
def catalog(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_would_be_committed_is_then_committed_as_it_was_said(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        made = create(catalog=catalog)
        assert (await one(bench, made)).status == "would-commit"
        await bench.commit(made)
        base = (await bench.commit(append("a", "b", "c", writer="first"))).snapshot_id
        late = (await bench.commit(append("d", writer="came-between"))).snapshot_id
        assert base is not None
        intent = replace(["a", "b"], ["ab"], base=base, rows=20, writer="compactor")
        told = await one(bench, intent)
        done = await bench.commit(intent)
        metadata = await bench.metadata()
    assert (told.status, told.is_yes, told.outcome) == ("would-commit", True, None)
    assert told.snapshot is not None
    assert (told.snapshot.snapshot_id, told.snapshot.sequence_number) == (done.snapshot_id, done.sequence_number)
    assert told.snapshot.added_files == (path_of("ab"),)
    assert sorted(told.snapshot.removed_files) == [path_of("a"), path_of("b")]
    assert (told.snapshot.branch, told.snapshot.operation) == ("main", "replace")
    assert metadata.current_snapshot is not None
    real = {k: v for k, v in (metadata.current_snapshot.summary or {}).items() if k != "firn.batch-id"}
    assert told.snapshot.summary == real
    assert (told.base_snapshot_id, told.head_snapshot_id) == (base, late)
    assert [(one.snapshot_id, one.writer, one.by) for one in told.rebased_over or ()] == [
        (late, "came-between", "came-between")
    ]


async def test_what_would_be_rejected_is_then_rejected_for_the_same_reason(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(catalog=catalog))
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        await bench.commit(delete("a", writer="deleter"))
        intent = replace(["a", "b"], ["ab"], base=base)
        told = await one(bench, intent)
        real = await bench.refuse(intent)
    assert (told.status, told.is_yes) == ("would-reject", False)
    assert isinstance(told.outcome, Rejected)
    assert msgspec.structs.replace(decision(told.outcome), batch=real.batch) == decision(real)
    assert real.conflicting_writer == "deleter"
    assert [snapshot.writer for snapshot in told.rebased_over or ()] == ["deleter"]


async def test_an_intent_that_was_decided_is_told_its_outcome() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first, second = append("a"), append("a")
        done, refused = await bench.commit(first), await bench.refuse(second)
        for intent, outcome in ((first, done), (second, refused)):
            known = (await one(bench, intent)).outcome
            assert known is not None
            assert decision(known) == decision(outcome)
        assert {(await one(bench, intent)).status for intent in (first, second)} == {"decided"}
        other = append("b", intent_id=first.intent_id)
        reused = await one(bench, other)
    assert isinstance(reused.outcome, Rejected)
    assert (reused.status, reused.outcome.rule) == ("would-reject", "intent-id-reuse")


async def test_intents_of_one_table_are_judged_one_after_the_other() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        intents: list[Intent] = [append("a"), append("a"), delete("a"), delete("a")]
        told = await dry(bench, *intents, append("a", table="db.nowhere"))
    assert [forecast.status for forecast in told] == [
        "would-commit", "would-reject", "would-commit", "would-reject", "would-reject"
    ]  # fmt: skip
    rules = [forecast.outcome.rule for forecast in told if isinstance(forecast.outcome, Rejected)]
    assert rules == ["duplicate-file", "missing-file", "unknown-table"]


async def test_of_several_intents_each_is_told_what_came_after_its_own_base() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        base = (await bench.commit(append("a", "b"))).snapshot_id
        assert base is not None
        await bench.commit(append("c", writer="etl"))
        first, second, lost = await dry(
            bench,
            replace(["a"], ["aa"], base=base, writer="one"),
            replace(["b"], ["bb"], base=base),
            replace(["a"], ["x"], base=7),
        )
    assert [one.writer for one in first.rebased_over or ()] == ["etl"]
    assert [one.writer for one in second.rebased_over or ()] == ["one", "etl"]
    assert (lost.status, lost.rebased_over) == ("would-reject", None)


async def test_intents_that_wait_are_counted_because_they_may_change_the_answer() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(create("db.other"))
        assert (await one(bench, append("a"))).waiting == 0
    await bench.send(append("x"), append("y"), *(append("z", table="db.other") for _ in range(3)))
    assert (await one(bench, append("a"))).waiting == 2
    bench.redis.down = True
    assert (await one(bench, append("a"))).waiting is None


async def test_what_is_wrong_before_the_table_is_looked_at_is_said_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        late = await one(bench, append("a", deadline_ms=1))
        old = await one(bench, append("a", intent_id=new_id(now_ms=1_000)))
        where = await one(bench, DeleteWhere(intent_id=new_id(), table=TABLE, row_filter={"type": "nonsense"}))
        outside = await one(bench, create("db.b", location="memory://elsewhere/b"))
        taken = await one(bench, create("db.b", location=f"{WAREHOUSE}/db/events"))
    rules = [told.outcome.rule for told in (late, old, where, outside, taken) if isinstance(told.outcome, Rejected)]
    assert rules == ["deadline-passed", "intent-too-old", "invalid-filter", "location-not-allowed", "location-taken"]


async def test_a_staged_snapshot_would_be_on_no_branch() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        told = await one(bench, append("a", stage=True, wap_id="w"))
    assert told.snapshot is not None
    assert told.snapshot.branch is None


async def test_a_client_with_redis_alone_is_told_what_that_leaves_open() -> None:
    bench = Workbench()
    make = Intents()
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:
        told = await client.dry_run(make.create_table(TABLE, SCHEMA))
        assert told[0].status == "would-commit"
        assert any("name is free" in caveat for caveat in told[0].caveats)
        with pytest.raises(NotFound, match="Redis does not say where table"):
            await client.dry_run(append("a"))
        assert isinstance(await (await client.create_table(TABLE, SCHEMA)).result(10), Committed)
        yes, no = await client.dry_run(append("a"), delete("nothing"))
        assert (yes.status, no.status) == ("would-commit", "would-reject")
        assert len(yes.caveats) == 1
        intent = append("a")
        done = await (await client.submit(intent)).committed(10)
        (again,) = await client.dry_run(intent)
        assert (again.status, again.outcome) == ("decided", done)
        ages = dt.datetime.now(dt.UTC)
        (expiry,) = await client.dry_run(make.expire_snapshots(TABLE, older_than=ages))
        assert expiry.details == {"removed-count": 0}


async def test_a_transaction_and_a_rename_are_judged_on_all_their_tables() -> None:
    bench = Workbench()
    make = Intents()
    async with bench.daemon():
        for table in ("db.a", "db.b", "db.taken"):
            await bench.commit(create(table))
        members = [append("x", table="db.a"), append("y", table="db.b")]
        yes = await one(bench, make.transaction(members))
        no = await one(bench, make.transaction([append("x", table="db.a"), delete("nope", table="db.b")]))
        renamed = await one(bench, make.rename_table("db.a", "db.c"))
        taken = await one(bench, make.rename_table("db.a", "db.taken"))
        assert await bench.live("db.a") == await bench.live("db.b") == []
    assert (yes.status, yes.operation) == ("would-commit", "transaction")
    assert yes.snapshot is not None
    assert {yes.snapshot.table, *(other.table for other in yes.other_snapshots)} == {"db.a", "db.b"}
    assert (no.status, no.other_snapshots) == ("would-reject", ())
    assert isinstance(no.outcome, Rejected)
    assert (no.outcome.rule, no.outcome.details["table"]) == ("missing-file", "db.b")
    assert (renamed.status, renamed.details) == ("would-commit", {"renamed-to": "db.c"})
    assert isinstance(taken.outcome, Rejected)
    assert taken.outcome.rule == "table-exists"


async def test_a_dry_run_of_an_append_that_would_be_followed_by_a_merge_writes_nothing() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create(properties={"commit.manifest.min-count-to-merge": "1000"}))
        for number in range(24):
            await bench.commit(append(f"f{number}"))
        few = {"commit.manifest.min-count-to-merge": "2"}
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates=few))
        assert (await one(bench, append("new"))).is_yes
        assert (await one(bench, delete("f3"))).is_yes
