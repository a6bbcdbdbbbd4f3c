"""`firn recover`: shows first, does when told, and leaves alone what is there."""

from __future__ import annotations

import pytest

from firn.model.errors import Unavailable
from firn.model.operations.tables import DropTable, RenameTable
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.lanes.test_pauses import held_back
from tests.unit.coordinator.recovery.test_recover import lose_servers
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, append, create, new_id

HERE = ("--location", WAREHOUSE)
KEPT, GONE, OLD, NEW = TABLE, "db.gone", "db.old", "db.new"


async def with_history(bench: CliBench) -> None:
    async with bench.daemon():
        for table in (KEPT, GONE, OLD):
            await bench.commit(create(table))
        await bench.commit(append("a"))
        await bench.commit(DropTable(intent_id=new_id(), table=GONE))
        await bench.commit(RenameTable(intent_id=new_id(), table=OLD, new_name=NEW))


async def test_without_yes_nothing_is_made_and_everything_is_shown() -> None:
    bench = CliBench()
    await with_history(bench)
    lose_servers(bench)
    said = await bench.firn("recover", *HERE)
    assert said.code == 0
    assert "4 pointers would be made; nothing was changed (--yes makes them)" in said.out
    assert f"now {NEW}" in said.out
    assert (await bench.firn("table", "list", "--dropped", "--json")).json == []
    told = (await bench.firn("recover", *HERE, "--json")).json
    assert told["dry-run"] is True
    assert {one["table"]: one["finding"] for one in told["tables"]} == dict.fromkeys((KEPT, GONE, NEW, OLD), "restore")


async def test_with_yes_tables_are_there_again_and_writers_find_them() -> None:
    bench = CliBench()
    await with_history(bench)
    lose_servers(bench)
    said = await bench.firn("recover", *HERE, "--yes")
    assert said.code == 0
    assert "4 pointers made" in said.out
    states = {one["table"]: one["dropped"] for one in (await bench.firn("table", "list", "--dropped", "--json")).json}
    assert states == {KEPT: False, NEW: False, GONE: True, OLD: True}
    assert await bench.streams.table(KEPT) is not None
    assert await bench.streams.table(GONE) is None
    again = await bench.firn("recover", *HERE, "--yes")
    assert again.code == 2
    assert "--missing-only" in again.err


async def test_one_lost_pointer_is_made_and_the_others_stay() -> None:
    bench = CliBench()
    await with_history(bench)
    session = bench.zookeeper.connect()
    before = await session.get(f"/tables/{NEW}")
    await session.delete(f"/tables/{KEPT}")
    said = await bench.firn("recover", *HERE, "--missing-only", "--yes", "--json")
    assert said.code == 0
    assert said.json["restored"] == [KEPT]
    assert (await session.get(f"/tables/{NEW}"))[0] == before[0]
    assert await bench.live() == ["a"]


async def test_redis_lost_alone_needs_no_pointers_and_is_told_where_tables_are() -> None:
    bench = CliBench()
    await with_history(bench)
    zookeeper = bench.zookeeper
    lose_servers(bench)
    bench.zookeeper = zookeeper
    assert await bench.streams.table(KEPT) is None
    said = await bench.firn("recover", *HERE, "--missing-only", "--yes")
    assert (said.code, "0 pointers made" in said.out) == (0, True)
    assert await bench.streams.table(KEPT) is not None


async def test_it_is_refused_while_daemons_run() -> None:
    bench = CliBench()
    await with_history(bench)
    lose_servers(bench)
    async with bench.daemon():
        said = await bench.firn("recover", *HERE, "--yes")
        assert said.code == 2
        assert "daemons are running (a)" in said.err


async def test_what_is_damaged_is_said_with_what_to_do_and_the_rest_is_restored() -> None:
    bench = CliBench()
    await with_history(bench)
    journal = await bench.journal()
    bench.files.delete(journal[0].location)
    lose_servers(bench)
    said = await bench.firn("recover", *HERE, "--yes")
    assert said.code == 1
    assert journal[0].location in said.out
    assert "firn table register" in said.err
    assert "3 pointers made" in said.out


async def test_a_place_without_tables_says_so() -> None:
    bench = CliBench()
    said = await bench.firn("recover", "--location", f"{WAREHOUSE}/nothing")
    assert said.code == 0
    assert "no journals" in said.out


async def test_a_pause_outlives_zookeeper() -> None:
    """A note beside the table's files knows of it; a table that was resumed has none."""
    bench = CliBench()
    await with_history(bench)
    for reason in ("moving the bucket", "the bucket is moved, looking"):
        assert (await bench.firn("pause", KEPT, NEW, "--by", "ann", "--reason", reason)).code == 0
    assert (await bench.firn("resume", NEW)).code == 0
    lose_servers(bench)
    shown = await bench.firn("recover", *HERE)
    assert "paused by ann: the bucket is moved, looking" in shown.out
    assert f"1 table was paused, and stays so until firn resume: {KEPT}" in shown.out
    assert (await bench.firn("status", "--json")).json["paused"] == {}, "a dry run pauses nothing"
    assert (await bench.firn("recover", *HERE, "--yes")).code == 0
    async with bench.daemon():
        waits = append("later")
        await bench.send(waits)
        await held_back(bench, 1)
        paused = (await bench.firn("status", "--json")).json["paused"]
        assert {table: pause["reason"] for table, pause in paused.items()} == {KEPT: "the bucket is moved, looking"}
        await bench.commit(UpdateProperties(intent_id=new_id(), table=NEW, updates={"moved": "yes"}))
        assert (await bench.firn("resume", KEPT)).code == 0
        assert isinstance(await bench.outcome(waits), Committed)
    lose_servers(bench)
    assert "paused" not in (await bench.firn("recover", *HERE)).out


async def test_a_pause_of_which_no_note_can_be_left_is_a_pause_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = CliBench()
    await with_history(bench)

    def away(*_arguments: object) -> None:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(bench.files, "create", away)
        said = await bench.firn("pause", KEPT, "--reason", "r")
    assert said.code == 0
    assert "firn recover will not know of the pause: the store does not answer" in said.err
    assert KEPT in (await bench.firn("status", "--json")).json["paused"]
    assert (await bench.firn("pause", KEPT, "--reason", "r")).err == ""
    with monkeypatch.context() as patched:
        patched.setattr(bench.files, "delete", away)
        said = await bench.firn("resume", KEPT)
    assert said.code == 0
    assert "firn recover will pause it again: the store does not answer" in said.err
    assert (await bench.firn("status", "--json")).json["paused"] == {}
