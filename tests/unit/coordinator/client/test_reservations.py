"""Reserving work with the clients: renewed while it goes on, told of what makes it vain, ended with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from firn import AsyncClient, ReservedError
from firn.model.errors import InvalidInput
from tests.unit.coordinator.client.test_sync_client import client_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, content_file, create, delete, path_of


def client_on(bench: Workbench, **options: Any) -> AsyncClient:
    return AsyncClient(connect=bench.redis.connect, files=bench.files, **options)


async def test_work_is_renewed_while_it_goes_on_and_others_are_told() -> None:
    bench = Workbench()
    async with client_on(bench) as client, client_on(bench) as other:
        async with client.begin(TABLE, files=[content_file("a"), path_of("b")], holder="me", lease_s=1) as mine:
            until_ms = (await client.reserved(TABLE)).reservations[0].until_ms
            with pytest.raises(ReservedError, match="me has reserved 2 files") as refused:
                async with other.begin(TABLE, files=[path_of("b")]):
                    pass
            assert refused.value.overlaps[0].reservation.until_ms == until_ms
            async with other.begin(TABLE, files=[path_of("c")]) as theirs:
                assert theirs.overlaps == ()
            await asyncio.sleep(1.2)  # longer than the lease
            (still,) = (await other.reserved(TABLE)).reservations
            assert still.reservation_id == mine.reservation_id
            assert still.until_ms > until_ms
        assert (await other.reserved(TABLE)).reservations == ()


async def test_the_holder_is_told_of_what_disturbs_and_ends_with_its_commit() -> None:
    bench = Workbench()
    async with bench.daemon(), client_on(bench) as client:
        await bench.commit(create())
        base = (await bench.commit(append("a", "b", "c"))).snapshot_id
        assert base is not None
        async with client.begin(TABLE, files=[path_of("a")], base_snapshot_id=base, lease_s=1) as mine:
            other = await bench.commit(delete("a"))
            async with asyncio.timeout(10):
                await mine.disturbed()
            assert [found.snapshot_id for found in mine.disturbances] == [other.snapshot_id]
            assert not mine.is_lost
        async with client.begin(TABLE, files=[path_of("b")], base_snapshot_id=base) as mine:
            ticket = await client.replace(
                TABLE, removed=[path_of("b")], added=[content_file("b2")], base_snapshot_id=base,
                reservation_id=mine.reservation_id,
            )  # fmt: skip
            await ticket.committed(10)
            assert mine.disturbances == ()


async def test_a_reservation_that_redis_lost_is_made_again_or_known_to_be_lost() -> None:
    bench = Workbench()
    async with client_on(bench) as client, client_on(bench) as other:
        async with client.begin(TABLE, lease_s=30) as mine:
            bench.redis.flush_all()
            assert await mine.renew() == ()
            assert (await other.reserved(TABLE)).reservations[0].reservation_id == mine.reservation_id
            bench.redis.flush_all()
            async with other.begin(TABLE):
                await mine.renew()
                assert mine.is_lost
                await mine.disturbed()
            await mine.renew()
        assert (await other.reserved(TABLE)).reservations == ()


async def test_a_begin_survives_a_lost_answer() -> None:
    bench = Workbench()
    async with client_on(bench) as client:
        for when in ("before", "after"):
            client._streams.drop_next_write(when)  # type: ignore[attr-defined]
            async with client.begin(TABLE):
                assert len((await client.reserved(TABLE)).reservations) == 1


async def test_a_script_without_an_event_loop_reserves_too() -> None:
    bench = Workbench()
    clients = client_of(bench), client_of(bench)

    def script() -> None:
        with clients[0] as client, clients[1] as other:
            with client.begin(TABLE, partitions=[(0, [1])], holder="script") as mine:
                assert client.reserved(TABLE).reservations[0].reservation_id == mine.reservation_id
                assert (mine.renew(), mine.disturbances, mine.overlaps, mine.is_lost) == ((), (), (), False)
                with pytest.raises(ReservedError, match="script"), other.begin(TABLE, partitions=[(0, [1])]):
                    pass
                with other.begin(TABLE, partitions=[(0, [1])], anyway=True) as theirs:
                    assert [overlap.reservation.holder for overlap in theirs.overlaps] == ["script"]
            assert client.reserved(TABLE).reservations == ()

    await asyncio.to_thread(script)


async def test_what_makes_no_sense_is_said_before_anything_is_sent() -> None:
    bench = Workbench()
    async with client_on(bench) as client:
        with pytest.raises(InvalidInput, match="not of several"):
            client.begin(TABLE, files=["a"], rows=True)
        with pytest.raises(InvalidInput, match="lease"):
            async with client.begin(TABLE, lease_s=100_000):
                pass
        with pytest.raises(InvalidInput):
            async with client.begin(""):
                pass
