"""`firn recover`: shows first, does when told, and leaves alone what is there."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.cli.doctor import POINTERS
from firn.coordinator.daemon import Daemon
from firn.model.errors import Unavailable
from firn.model.operations.tables import DropTable, RenameTable
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed
from firn.storage.pointers import PointerChange, Pointers
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.lanes.test_pauses import held_back, until
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
    assert (again.code, "0 pointers made" in again.out) == (0, True)


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


async def test_beside_a_daemon_what_was_held_is_committed_afterwards() -> None:
    bench = CliBench()
    await with_history(bench)
    lose_servers(bench, redis=False)
    held = append("held")
    async with bench.daemon() as daemon:
        await bench.send(held)
        await until(lambda: TABLE in daemon.lanes.stalled)
        assert "firn recover" in daemon.lanes.stalled[TABLE]
        assert (await bench.firn("recover", *HERE, "--yes")).code == 0
        assert isinstance(await bench.outcome(held), Committed)
    assert sorted(await bench.live()) == ["a", "held"]


async def test_a_stale_pointer_is_shown_and_set_and_a_good_one_stays() -> None:
    bench = CliBench()
    await with_history(bench)
    reading = Pointers(bench.zookeeper.connect())
    older = (await reading.read(KEPT)).pointer
    async with bench.daemon():
        for name in ("b", "c"):
            await bench.commit(append(name))
    newest = await reading.read(KEPT)
    other = (await reading.read(NEW)).version
    await reading.swap([PointerChange(table=KEPT, pointer=older, expected=newest.version)], leases=())
    shown = await bench.firn("recover", *HERE)
    assert "1 stale one set" in shown.out
    checked = await bench.firn("fsck", KEPT)
    assert checked.code == 1
    assert "the pointer is older than the journal" in checked.out
    (doctored,) = [one for one in (await bench.firn("doctor", "--json")).json if one["check"] == POINTERS]
    assert (doctored["state"], KEPT in doctored["found"]) == ("bad", True)
    assert (await reading.read(KEPT)).pointer == older
    assert (await bench.firn("recover", *HERE, "--missing-only", "--yes", "--json")).json["restored"] == []
    assert (await bench.firn("recover", *HERE, "--yes", "--json")).json["restored"] == [KEPT]
    restored = (await reading.read(KEPT)).pointer
    assert (restored.journal_head, restored.metadata_location) == (
        newest.pointer.journal_head, newest.pointer.metadata_location,
    )  # fmt: skip
    assert (await reading.read(NEW)).version == other
    assert "the pointer is older" not in (await bench.firn("fsck", KEPT)).out
    (doctored,) = [one for one in (await bench.firn("doctor", "--json")).json if one["check"] == POINTERS]
    assert doctored["state"] == "good"
    assert sorted(await bench.live()) == ["a", "b", "c"]


async def test_of_two_tables_of_one_name_the_operator_chooses() -> None:
    """An older version, which knew nothing of marks, made a table over one that its ZooKeeper had lost."""
    bench = CliBench()
    await with_history(bench)
    lost = (await Pointers(bench.zookeeper.connect()).read(KEPT)).pointer
    lose_servers(bench)
    async with bench.daemon() as daemon:
        no_ages(daemon)
        await bench.commit(create(KEPT))
        await bench.commit(append("other"))
    shown = await bench.firn("recover", *HERE, "--json")
    found = {one["table"]: one for one in shown.json["tables"]}
    assert (shown.code, found[KEPT]["finding"]) == (1, "split")
    assert lost.uuid in found[KEPT]["trouble"]
    said = await bench.firn("recover", KEPT, "--uuid", lost.uuid, *HERE, "--yes")
    assert said.code == 0, said
    assert (await Pointers(bench.zookeeper.connect()).read(KEPT)).pointer.journal_head == lost.journal_head
    async with bench.daemon():
        await bench.commit(append("b"))
    assert sorted(await bench.live()) == ["a", "b"]


@pytest.mark.parametrize("arguments", [("--uuid", "u"), (KEPT, NEW, "--uuid", "u"), ("db.none",), ("bad name",)])
async def test_what_cannot_be_meant_is_refused(arguments: tuple[str, ...]) -> None:
    bench = CliBench()
    await with_history(bench)
    said = await bench.firn("recover", *arguments, *HERE, "--yes")
    assert said.code != 0
    assert said.err
    assert "Traceback" not in said.err


def no_ages(daemon: Daemon) -> None:
    """Have a daemon that compares no pointer with its journal, as older versions did."""

    async def fine(*_arguments: object, **_named: object) -> None:
        return

    async def none(_location: str) -> list[str]:
        return []

    ages: Any = daemon.lanes._shop.ages
    ages.check = ages.check_absent = fine
    ages.unknown_in = none


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
