"""Consumers of a table's changes: expiry waits for them, and says what it takes from those it does not wait for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from firn.coordinator.daemon import Daemon
from firn.model.consumer import DAY_MS, Consumer, TableConsumers
from firn.model.operations.tables import DropTable, RenameTable
from firn.model.operations.upkeep import ExpireSnapshots
from firn.storage.consumers import CONSUMERS, Consumers
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import TABLE, append, create, new_id

OTHER = "db.other"


async def with_history(bench: CliBench, count: int = 4, **members: Any) -> list[int]:
    await bench.commit(create(**members))
    made = [(await bench.commit(append(f"f{number}"))).snapshot_id for number in range(count)]
    return [number for number in made if number is not None]


async def expire(bench: CliBench) -> dict[str, Any]:
    """Expire all that may go; what the outcome says."""
    outcome = await bench.commit(ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=2**62, retain_last=1))
    return dict(outcome.details or {})


async def snapshots(bench: CliBench) -> list[int]:
    return [snapshot.snapshot_id for snapshot in (await bench.metadata()).snapshots]


def store(bench: CliBench) -> Consumers:
    return Consumers(bench.zookeeper.connect())


async def aged(bench: CliBench, days: float) -> None:
    """Have all consumers last moved so much longer ago."""

    def older(now: TableConsumers) -> TableConsumers:
        moved = [replace(one, updated_ms=one.updated_ms - round(days * DAY_MS)) for one in now.consumers]
        return replace(now, consumers=tuple(moved))

    for found in await store(bench).all():
        await store(bench).change(found.table_uuid, older)


def state_of(daemon: Daemon, state: str) -> float:
    return daemon.metrics.consumers.labels(state)._value.get()


async def events(bench: CliBench) -> list[tuple[str, dict[str, Any]]]:
    return [(e["type"], e["data"]) for e in await bench.events() if e["type"].startswith("firn.consumer.")]


async def test_expiry_waits_for_a_consumer_and_takes_what_it_has_read() -> None:
    bench = CliBench()
    async with bench.daemon():
        first, second, third, fourth = await with_history(bench)
        assert (await bench.firn("consumer", "set", TABLE, "etl", "--snapshot", str(second))).code == 0
        details = await expire(bench)
        assert details["removed"] == [first]
        assert [second, "consumer 'etl' has read up to it"] in details["kept"]
        assert await snapshots(bench) == [second, third, fourth]
        shown = await bench.firn("consumer", "show", TABLE, "etl")
        assert (shown.code, "behind by 2 snapshots" in shown.out) == (0, True)
        assert (await bench.firn("consumer", "set", TABLE, "etl")).code == 0
        assert (await expire(bench))["removed-count"] == 2
        assert await snapshots(bench) == [fourth]
    assert "has read everything" in (await bench.firn("consumer", "list", TABLE)).out


async def test_commits_that_cut_the_history_back_wait_for_a_consumer() -> None:
    bench = CliBench()
    async with bench.daemon():
        first, *_ = await with_history(bench, properties={"firn.snapshots-max": "2"})
        await bench.firn("consumer", "set", TABLE, "etl", "--snapshot", str(first))
        for number in range(24):
            await bench.commit(append(f"g{number}"))
        assert first in await snapshots(bench)
        await bench.firn("consumer", "remove", TABLE, "etl")
        for number in range(24):
            await bench.commit(append(f"h{number}"))
        assert first not in await snapshots(bench)


async def test_a_consumer_whose_hold_has_ended_is_reported_once_and_again_when_it_has_lost_changes() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        first, *_, fourth = await with_history(bench)
        await bench.firn("consumer", "set", TABLE, "etl", "--snapshot", str(first), "--hold-days", "2")
        await daemon.consumer_patrol.look()
        assert (await events(bench), state_of(daemon, "behind")) == ([], 1)
        await aged(bench, 3)
        for _ in range(2):
            await daemon.consumer_patrol.look()
        [(kind, data)] = await events(bench)
        assert (kind, data["consumer"], data["behind"], data["snapshot-id"]) == (
            "firn.consumer.lapsed",
            "etl",
            3,
            first,
        )
        listed = await bench.firn("consumer", "list")
        assert listed.code == 1
        assert "behind by 3 snapshots" in listed.out
        assert "lapsed" in listed.out
        await expire(bench)
        assert await snapshots(bench) == [fourth]
        for _ in range(2):
            await daemon.consumer_patrol.look()
        assert [kind for kind, _ in await events(bench)] == ["firn.consumer.lapsed", "firn.consumer.lost"]
        assert (state_of(daemon, "lost"), state_of(daemon, "lapsed")) == (1, 0)
        said = await bench.firn("consumer", "show", TABLE, "etl")
        assert (said.code, "lost: what it has not read has expired" in said.out) == (1, True)
        await bench.firn("consumer", "set", TABLE, "etl")
        await daemon.consumer_patrol.look()
        assert (state_of(daemon, "current"), state_of(daemon, "lost")) == (1, 0)


async def test_a_consumer_follows_its_table_to_another_name_and_does_not_pass_to_one_that_gets_the_first() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        first, second, *_ = await with_history(bench)
        await bench.firn("consumer", "set", TABLE, "etl", "--snapshot", str(second))
        await bench.commit(RenameTable(intent_id=new_id(), table=TABLE, new_name=OTHER))
        assert "behind by 2 snapshots" in (await bench.firn("consumer", "list", OTHER)).out
        await daemon.consumer_patrol.look()
        [found] = await store(bench).all()
        assert found.table == OTHER
        gone = await bench.firn("consumer", "show", TABLE, "etl")
        assert gone.code == 1
        await bench.commit(create())
        said = await bench.firn("consumer", "show", TABLE, "etl")
        assert (said.code, "has no consumer 'etl'" in said.err) == (1, True)
        assert (await bench.firn("consumer", "show", OTHER, "etl")).code == 0
        assert first


@pytest.mark.parametrize("anew", [True, False])
async def test_of_a_dropped_table_consumers_stay_until_their_holds_end(anew: bool) -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await with_history(bench, 2)
        await bench.firn("consumer", "set", TABLE, "etl")
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        if anew:
            await bench.commit(create(location="memory://wh/anew"))
            said = await bench.firn("consumer", "show", TABLE, "etl")
            assert (said.code, "it was made anew" in said.err) == (2, True)
        await daemon.consumer_patrol.look()
        listed = await bench.firn("consumer", "list")
        assert listed.code == 1
        assert ("made anew" if anew else "was dropped") in listed.out
        await aged(bench, 8)
        await daemon.consumer_patrol.look()
        assert await store(bench).all() == []
        assert (await bench.firn("consumer", "list")).out.strip() == "No table has consumers."


async def test_consumers_of_a_name_that_was_purged_go_at_once() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await with_history(bench, 1)
        await store(bench).put("db.purged", "no-such-uuid", Consumer(name="etl", updated_ms=2**40))
        await bench.firn("consumer", "set", TABLE, "etl")
        await daemon.consumer_patrol.look()
        assert [one.table for one in await store(bench).all()] == [TABLE]


async def test_an_unreadable_record_keeps_the_young_history_and_stops_nobody() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await with_history(bench, 3)
        session = bench.zookeeper.connect()
        await session.ensure_path(CONSUMERS)
        await session.create(f"{CONSUMERS}/{(await bench.metadata()).table_uuid}", b"torn")
        assert (await expire(bench))["removed-count"] == 0
        await daemon.consumer_patrol.look()
        await bench.commit(append("more"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", TABLE, "nobody"], 1, "has no consumer 'nobody'"),
        (["remove", TABLE, "nobody"], 1, "has no consumer nobody"),
        (["set", TABLE, "etl", "--snapshot", "7"], 2, "snapshot 7 is not in the known history of branch 'main'"),
        (["set", TABLE, "etl", "--branch", "nowhere"], 1, "has no branch 'nowhere'"),
        (["set", TABLE, "a b"], 2, "consumer 'a b'"),
        (["set", TABLE, "etl", "--hold-days", "31"], 2, "--hold-days"),
        (["set", "db.nowhere", "etl"], 1, "there is no table 'db.nowhere'"),
        (["list", "db.nowhere"], 1, "there is no table 'db.nowhere'"),
    ],
)
async def test_mistakes_are_named(arguments: list[str], code: int, message: str) -> None:
    bench = CliBench()
    async with bench.daemon():
        await with_history(bench, 1)
    said = await bench.firn("consumer", *arguments)
    assert (said.code, message in said.err) == (code, True), said


async def test_an_empty_table_is_read_from_its_beginning() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        assert "has read nothing yet" in (await bench.firn("consumer", "set", TABLE, "etl")).out
        first = (await bench.commit(append("a"))).snapshot_id
        await bench.commit(append("b"))
        await expire(bench)
        assert first in await snapshots(bench)
        shown = (await bench.firn("consumer", "show", TABLE, "etl", "--json")).json
        assert (shown["state"], shown["behind"]) == ("behind", 2)
