"""`firn status`, `top`, `lock` and `doctor`: what an operator asks first, and what they are told to do."""

from __future__ import annotations

import asyncio
import json

import pytest

from firn.coordinator.cli import doctor
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.operations import bulletin
from firn.storage.pointers import Pointers
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import TABLE, append, create


async def test_status_of_a_healthy_fleet_is_good_and_names_its_daemons() -> None:
    bench = CliBench()
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.commit(create())
        said = await bench.firn("status")
    assert said.code == EXIT_OK, said.err
    assert said.out.startswith("good: 2 daemons, 1 table or view, 0 intents")


async def test_status_says_that_nobody_reads_the_streams_and_exits_with_1() -> None:
    bench = CliBench()
    async with bench.daemon("a"):
        await bench.commit(create())
    await bench.send(append("waiting.parquet"))
    said = await bench.firn("status")
    assert said.code == EXIT_NO
    assert "no daemon reads any shard" in said.err
    assert "1 intent not settled" in said.out
    told = json.loads((await bench.firn("status", "--json")).out)
    assert told["waiting"] == 1
    assert told["troubles"]


@pytest.mark.parametrize("server", ["redis", "zookeeper"])
async def test_whoever_meets_a_server_that_is_away_is_told_what_to_do(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_REDIS_URL", "redis://somewhere:6379/0")
    bench = CliBench()
    bench.redis.down, bench.zookeeper_down = server == "redis", server == "zookeeper"
    for command in (["dead-letters", "list"] if server == "redis" else ["table", "list"], ["doctor"]):
        said = await bench.firn(*command)
        assert said.code in {EXIT_NO, EXIT_UNAVAILABLE}
        advice = f"correct {'redis.url' if server == 'redis' else 'zookeeper.hosts'}"
        assert (advice in said.err) == (command != ["doctor"]), "doctor has a column for it"
        assert advice not in said.out


async def test_status_without_redis_says_what_zookeeper_tells() -> None:
    bench = CliBench()
    async with bench.daemon("a"):
        await bench.commit(create())
        bench.redis.down = True
        said = await bench.firn("status")
        told = await bench.firn("status", "--json")
        bench.redis.down = False
    assert said.code == told.code == EXIT_UNAVAILABLE
    assert said.out.startswith("trouble: 1 daemon, 1 table or view, what waits is not known\n")
    assert "SHARD" not in said.out.partition("DAEMON")[2].partition("\n")[2], "nothing is known of a shard"
    assert said.err.startswith("firn: Redis at redis://")
    assert said.err.count("\n") == 1
    assert (told.json["waiting"], len(told.json["daemons"]), len(told.json["troubles"])) == (None, 1, 1)


async def test_top_looks_again_and_again() -> None:
    bench = CliBench()
    async with bench.daemon("a"):
        await bench.commit(create())
        said = await bench.firn("top", "--rounds", "2", "--json")
    assert [json.loads(line)["waiting"] for line in said.out.splitlines()] == [0, 0]
    async with bench.daemon("a"):
        drawn = await bench.firn("top", "--rounds", "1")
    assert "intents/s come in" in drawn.out


async def test_a_lock_is_shown_and_can_be_taken_from_its_holder() -> None:
    """The holder cannot commit under the lock that it lost; it takes it anew, and nothing is lost."""
    bench = CliBench()
    async with bench.daemon("a", lease_idle_s=60):
        await bench.commit(create())
        assert "holder         a" in (await bench.firn("lock", "show", TABLE)).out
        refused = await bench.firn("lock", "break", TABLE)
        assert refused.code != EXIT_OK, "it asks first, and nobody answers"
        broken = await bench.firn("lock", "break", TABLE, "--yes")
        assert "has lost the lock" in broken.out
        assert "nobody works" in (await bench.firn("lock", "show", TABLE)).out
        await bench.commit(append("after.parquet"))
        assert len(await bench.live()) == 1


async def test_doctor_finds_nothing_bad_in_a_healthy_fleet() -> None:
    bench = CliBench()
    async with bench.daemon("a"), bench.daemon("b"):
        said = await bench.firn("doctor", "--json")
    assert {f["check"]: f["state"] for f in json.loads(said.out) if f["state"] == "bad"} == {}, said.out
    assert said.code == EXIT_OK


async def test_doctor_hints_at_code_that_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And finds nothing bad in it."""
    bench = CliBench()
    states = {}
    async with bench.daemon("a"), bench.daemon("b"):
        for compiled in (True, False):
            monkeypatch.setattr(doctor, "IS_COMPILED", compiled)
            said = await bench.firn("doctor", "--json")
            (finding,) = [f for f in json.loads(said.out) if f["check"] == "compiled code"]
            states[compiled] = finding["state"]
            assert said.code == EXIT_OK
    assert states == {True: "good", False: "warning"}
    assert "a C compiler" in finding["do"]


async def test_doctor_says_what_to_do_about_servers_that_are_away() -> None:
    bench = CliBench()
    bench.zookeeper_down = True
    said = await bench.firn("doctor", "--json")
    assert said.code == EXIT_NO
    bad = {f["check"]: f for f in json.loads(said.out) if f["state"] == "bad"}
    assert "ZooKeeper" in bad
    assert all(f["do"] for f in bad.values())


async def test_doctor_finds_nodes_that_are_open_though_there_is_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were made before it was set; the twin lets everybody in, as such nodes do."""
    monkeypatch.setenv("FIRN_ZOOKEEPER_AUTH", "firn:secret")
    bench = CliBench()
    async with bench.daemon("a"):
        await bench.commit(create())
        findings = json.loads((await bench.firn("doctor", "--json")).out)
    (access,) = [f for f in findings if f["check"] == "ZooKeeper, access"]
    assert access["state"] == "bad"
    assert "setAcl" in access["do"]


async def test_doctor_tells_of_tables_that_a_daemon_is_stuck_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create())
    location = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer.metadata_location
    bench.files.replace(location, b"{}")
    async with bench.daemon("a"), bench.daemon("b"):
        await bench.refuse(append("x"))
        await asyncio.sleep(0.2)
        said = await bench.firn("doctor", "--json")
    assert said.code == EXIT_NO
    (stuck,) = [f for f in json.loads(said.out) if f["state"] == "bad"]
    assert stuck["check"] == "tables"
    assert location in stuck["found"]
    assert stuck["do"] == "see docs/runbooks/tables.md#firntableunreadable"


async def test_doctor_notices_clocks_that_differ() -> None:
    bench = CliBench()
    real = bench.redis.now_ms
    bench.redis.now_ms = lambda: real() - 60_000
    async with bench.daemon("a"):
        findings = json.loads((await bench.firn("doctor", "--json")).out)
    (clock,) = [f for f in findings if f["check"] == "clock against Redis"]
    assert clock["state"] == "bad"
    assert "NTP" in clock["do"]


@pytest.mark.parametrize("command", [("status",), ("doctor",), ("lock", "show", TABLE)])
async def test_output_for_people_and_for_programs(command: tuple[str, ...]) -> None:
    bench = CliBench()
    async with bench.daemon("a"):
        await bench.commit(create())
        people, programs = await bench.firn(*command), await bench.firn(*command, "--json")
    assert people.out
    json.loads(programs.out)
