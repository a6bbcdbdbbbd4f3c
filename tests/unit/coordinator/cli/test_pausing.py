"""`firn pause`, `resume` and `drain`, and every place that says why an intent waits."""

from __future__ import annotations

from firn.model.outcome import Committed
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.lanes.test_pauses import held_back, until
from tests.unit.coordinator.workbench import TABLE, append, create

WHY = ("--reason", "moving the bucket", "--by", "ann")


async def test_a_paused_table_is_seen_in_status_and_explain_until_it_is_resumed() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        said = await bench.firn("pause", TABLE, *WHY)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith(f"paused {TABLE} at ")
        await until(lambda: TABLE in daemon.paused)
        waiting = append("later")
        await bench.send(waiting)
        await held_back(bench, 1)

        status = await bench.firn("status")
        assert "1 table or view (1 paused)" in status.out
        assert "moving the bucket" in status.out
        told = (await bench.firn("status", "--json")).json["paused"][TABLE]
        assert (told["by"], told["reason"]) == ("ann", "moving the bucket")
        story = await bench.firn("explain", waiting.intent_id)
        assert f"{TABLE} is paused by ann since" in story.out
        assert story.code == 0

        said = await bench.firn("resume", TABLE)
        assert said.out.startswith(f"resumed {TABLE}, which was paused")
        assert isinstance(await bench.outcome(waiting), Committed)
        assert (await bench.firn("resume", TABLE)).out == f"{TABLE} was not paused\n"
        kinds = [event["type"] for event in await bench.events()]
        assert [kind for kind in kinds if "ause" in kind or "esume" in kind] == [
            "firn.table.paused", "firn.table.resumed",
        ]  # fmt: skip


async def test_whoever_waits_in_vain_is_told_what_holds_the_intent_up() -> None:
    bench = CliBench()
    change = ("property", "set", TABLE, "owner=me", "--timeout", "0.2")
    async with bench.daemon() as daemon:
        await bench.commit(create())
        await bench.firn("pause", TABLE, *WHY)
        await until(lambda: TABLE in daemon.paused)
        said = await bench.firn(*change)
        assert said.code == 3
        assert f"{TABLE} is paused by ann: moving the bucket (firn resume {TABLE})" in said.err
        await bench.firn("resume", TABLE)
    said = await bench.firn(*change)
    assert (said.code, "no daemon is running (firn status)" in said.err) == (3, True)
    bench.zookeeper_down = True
    said = await bench.firn(*change)
    assert (said.code, "no daemon has answered" in said.err, "is running" in said.err) == (3, True, False)


async def test_a_drain_ends_paused_with_nothing_undecided() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        sent = [append(str(n)) for n in range(3)]
        await bench.send(*sent)
        said = await bench.firn("drain", TABLE, *WHY, "--timeout", "20", "--json")
        assert said.code == 0
        assert (said.json["drained"], said.json["left"]) == (True, 0)
        assert all([await bench.streams.outcome(one.intent_id) for one in sent])
        await until(lambda: TABLE in daemon.paused)
        again = await bench.firn("drain", TABLE, *WHY)
        assert again.code == 2
        assert "firn resume" in again.err


async def test_a_drain_that_takes_too_long_says_what_is_left_and_does_not_pause() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    await bench.send(append("nobody reads this"))
    said = await bench.firn("drain", TABLE, *WHY, "--timeout", "0")
    assert said.code == 1
    assert "1 intent of db.events not decided after 0 s, so it is not paused" in said.err
    assert (await bench.firn("status", "--json")).json["paused"] == {}


async def test_what_cannot_be_paused_is_said_with_what_to_do() -> None:
    bench = CliBench()
    said = await bench.firn("pause", "db.none", *WHY)
    assert said.code == 1
    assert "there is no table or view 'db.none' (firn tables shows" in said.err
    assert (await bench.firn("pause", TABLE)).code == 2, "a reason is wanted"
    assert (await bench.firn("pause", TABLE, "--reason", " ")).code == 2


async def test_a_table_is_paused_though_redis_cannot_tell_of_it() -> None:
    bench = CliBench()
    async with bench.daemon() as daemon:
        await bench.commit(create())
        bench.redis.down = True
        said = await bench.firn("pause", TABLE, *WHY)
        bench.redis.down = False
        assert said.code == 0
        assert "no event of it" in said.err
        await until(lambda: TABLE in daemon.paused)
