"""`firn begin`, `renew`, `end`, `reservations`: what a script sees of others at work."""

from __future__ import annotations

import asyncio

import pytest

from firn.coordinator.client.intents import new_intent_id
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import TABLE, append, create, delete, path_of


async def with_table() -> CliBench:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    return bench


@pytest.mark.parametrize(
    "command", [["reservations"], ["begin"], ["renew", new_intent_id()], ["end", new_intent_id()]], ids=lambda c: c[0]
)
async def test_a_table_that_does_not_exist_is_said_and_nothing_is_reserved(command: list[str]) -> None:
    """Redis keeps reservations for any name: a misspelt one would warn nobody, and look as if nobody were at work."""
    bench = await with_table()
    name = TABLE[:-1]
    said = await bench.firn(command[0], name, *command[1:])
    assert (said.code, said.out) == (1, "")
    assert f"there is no table {name!r}: did you mean {TABLE!r}?" in said.err
    assert said.err.count("\n") == 1
    assert (await bench.redis.connect().book(name)).notes == {}


async def test_whoever_reaches_redis_alone_can_reserve() -> None:
    bench = await with_table()
    bench.zookeeper_down = True
    begun = await bench.firn("begin", TABLE, "--file", path_of("a"))
    assert begun.code == 0
    assert f"whether there is a table {TABLE!r} is not known" in begun.err
    listed = await bench.firn("reservations", TABLE)
    assert (listed.code, listed.err) == (0, ""), "what is reserved need not be looked up"
    assert begun.out.strip() in listed.out


async def test_a_script_reserves_is_told_of_others_and_ends() -> None:
    bench = await with_table()
    begun = await bench.firn("begin", TABLE, "--file", path_of("a"), "--holder", "one", "--purpose", "nightly \x1b[31m")
    assert begun.code == 0
    mine = begun.out.strip()
    other = await bench.firn("begin", TABLE, "--file", path_of("a"), "--holder", "two")
    assert (other.code, other.out) == (1, "")
    assert "one has reserved 1 file of branch main" in other.err
    listed = await bench.firn("reservations", TABLE)
    assert mine in listed.out
    assert "\x1b" not in listed.out
    (standing,) = (await bench.firn("reservations", TABLE, "--json")).json["standings"]
    assert standing["reservation"]["holder"] == "one"
    assert standing["reservation"]["scope"] == {"files": [path_of("a")]}
    renewed = await bench.firn("renew", TABLE, mine, "--minutes", "30")
    assert (renewed.code, renewed.out[:5]) == (0, "until")
    assert (await bench.firn("end", TABLE, mine)).code == 0
    again = await bench.firn("end", TABLE, mine)
    assert (again.code, again.out) == (1, "")
    assert f"{TABLE} has no reservation {mine}" in again.err
    gone = await bench.firn("renew", TABLE, mine)
    assert gone.code == 1
    assert "begin again" in gone.err
    assert "Nobody" in (await bench.firn("reservations", TABLE)).out


async def test_a_renewal_says_what_disturbed() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
        base = await bench.commit(append("a", "b"))
        begun = await bench.firn("begin", TABLE, "--where", "id > 3", "--base", str(base.snapshot_id))
        mine = begun.out.strip()
        outcome = await bench.commit(delete("a", writer="gdpr"))
        for _ in range(200):
            renewed = await bench.firn("renew", TABLE, mine)
            if renewed.code:
                break
            await asyncio.sleep(0.01)
    assert f"by gdpr in snapshot {outcome.snapshot_id}" in renewed.err


async def test_partitions_are_json_and_one_kind_is_reserved_at_a_time() -> None:
    bench = await with_table()
    begun = await bench.firn("begin", TABLE, "--partition", "[20454]", "--spec-id", "2", "--json")
    scope = begun.json["reservation"]["scope"]
    assert scope["partitions"] == [{"spec-id": 2, "partition": [20454]}]
    for wrong in ("{", "5"):
        refused = await bench.firn("begin", TABLE, "--partition", wrong)
        assert refused.code == 2
        assert "--partition" in refused.err
    both = await bench.firn("begin", TABLE, "--partition", "[1]", "--file", "x")
    assert both.code == 2
    assert "not of several" in both.err
    apart = await bench.firn("begin", TABLE, "--partition", "[20455]", "--spec-id", "2", "--json")
    assert (apart.code, apart.json["overlaps"]) == (0, [])
    perhaps = await bench.firn("begin", TABLE, "--where", "day = 3")
    assert perhaps.code == 0
    assert "may have reserved" in perhaps.err
