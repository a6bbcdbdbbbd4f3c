"""`firn tables`: how all tables are, at a glance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.operations import bulletin
from firn.model.operations.tables import DropTable
from firn.storage.leases import Leases
from firn.storage.pointers import Pointers
from firn.storage.sessions import encode_name
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.lanes.test_pauses import held_back, pause
from tests.unit.coordinator.workbench import append, create, delete, new_id

A, B, GONE = "db.a", "db.b", "db.gone"


async def listed(bench: CliBench, *options: str) -> dict[str, Any]:
    said = await bench.firn("tables", *options, "--json")
    return {one["table"]: one for one in said.json}


async def test_each_table_says_what_waits_who_works_on_it_and_what_was_refused() -> None:
    bench = CliBench()
    async with bench.daemon():
        for table in (A, B, GONE):
            await bench.commit(create(table))
        await bench.commit(DropTable(intent_id=new_id(), table=GONE))
        await bench.commit(append("x", table=A))
        await bench.refuse(delete("not there", table=A))
        await pause(bench, B)
        await bench.send(append("y", table=B), append("z", table=B))
        await held_back(bench, 2)
        session = bench.zookeeper.connect()
        leases = Leases(session, member="somebody")
        assert await leases.acquire(B, timeout_s=5)

        found = await listed(bench)
        assert set(found) == {A, B}
        assert (found[A]["state"], found[A]["conflicts"], found[A]["waiting"]) == ("good", 1, 0)
        assert (found[B]["state"], found[B]["conflicts"], found[B]["waiting"]) == ("paused", 0, 2)
        assert found[B]["paused"]["reason"] == "moving the bucket"
        assert found[B]["lock"] == "somebody"
        assert found[A]["content"] is None, "nothing was read"

        assert set(await listed(bench, "--state", "dropped")) == {GONE}
        assert set(await listed(bench, "--state", "paused")) == {B}
        assert set(await listed(bench, "--contains", ".A")) == {A}
        assert set(await listed(bench, "--kind", "view")) == set()
        assert list(await listed(bench, "--sort", "waiting")) == [B, A]
        assert list(await listed(bench, "--sort", "conflicts", "--limit", "1")) == [A]
        human = (await bench.firn("tables")).out
        assert "moving the bucket" in human
        await leases.close()


async def test_a_deep_look_counts_what_is_in_a_table_and_finds_what_cannot_be_read() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create(A))
        await bench.commit(create(B, catalog="file-system"))
        await bench.commit(append("x", "y", table=A))
        await bench.commit(append("z", table=A))
        await bench.commit(append("x", table=B))
        found = await listed(bench, "--deep", "--sort", "files")
        assert list(found) == [A, B]
        content = found[A]["content"]
        assert (content["snapshots"], content["data-files"], content["records"]) == (2, 3, 30)
        assert content["manifests"] >= 1
        assert content["history"]["snapshots"] == 2
        assert content["history"]["oldest-ms"] <= content["last-snapshot-ms"]
        assert found[B]["content"]["snapshots"] == 1
        pointer = (await Pointers(bench.zookeeper.connect()).read(A)).pointer
        bench.files.replace(pointer.metadata_location, b"{}")
        said = await bench.firn("tables", "--deep")
        assert said.code == 1
        assert "unreadable" in said.out
        assert (await bench.firn("tables")).code == 0, "nothing is read without --deep"


async def test_a_pointer_that_does_not_decode_is_unreadable_and_the_others_are_shown() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create(A))
        session = bench.zookeeper.connect()
        await session.create(f"/tables/{encode_name(B)}", b"nonsense")
        said = await bench.firn("tables", "--json")
        assert said.code == 1
        assert [(one["table"], one["state"]) for one in said.json] == [(A, "good"), (B, "unreadable")]


async def test_without_redis_the_rest_is_shown() -> None:
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create(A))
    bench.redis.down = True
    said = await bench.firn("tables")
    assert said.code == 0
    assert "not shown" in said.err
    assert A in said.out


async def test_tables_that_are_not_there_and_sorts_that_need_more_are_said() -> None:
    bench = CliBench()
    assert (await bench.firn("tables", "db.none")).code == 1
    assert (await bench.firn("tables", "--sort", "bytes")).code == 2
    assert (await bench.firn("tables")).out == "no such tables\n"


async def test_commands_tell_what_a_daemon_is_stuck_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reading a file, and without a word to the daemon: it stands in its notice."""
    monkeypatch.setattr(bulletin, "LOOK_S", 0.02)
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create(A))
        await bench.commit(create(B))
    location = (await Pointers(bench.zookeeper.connect()).read(A)).pointer.metadata_location
    bench.files.replace(location, b"{}")
    async with bench.daemon():
        await bench.refuse(append("x", table=A))
        async with asyncio.timeout(10):
            while (await listed(bench))[A]["state"] != "unreadable":  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.02)
        said = await bench.firn("tables")
        assert said.code == 1
        assert location in said.out
        assert set(await listed(bench, "--state", "unreadable")) == {A}
        status = await bench.firn("status")
        assert status.code == 1
        assert f"table {A} cannot be read" in status.err


async def test_manifests_that_cannot_be_merged_are_shown_and_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "m1.avro: cannot be merged"
    monkeypatch.setattr(Lanes, "unmerged", property(lambda _: {A: why}))
    bench = CliBench()
    async with bench.daemon():
        await bench.commit(create(A))
        await bench.commit(create(B))
        status = await bench.firn("status")
        told = (await bench.firn("status", "--json")).json
        tables = await listed(bench)
        human = (await bench.firn("tables")).out
    assert (status.code, status.err) == (0, "")
    assert "MANIFESTS NOT MERGED" in status.out
    assert why in status.out
    assert (told["unmerged"], told["troubles"]) == ({A: why}, [])
    assert (tables[A]["state"], tables[A]["unmerged"], tables[B]["unmerged"]) == ("good", why, None)
    assert f"manifests are not merged: {why}" in human
