"""What a job reads stays while it runs, without a claim on anything, and no job fails for it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from firn import Client
from firn.coordinator.client import kept_bases
from firn.coordinator.outcomes.reservations import KEPT_BASES_MAX
from firn.model.errors import Misconfigured, Unavailable
from tests.unit.coordinator.client.test_reservations import client_on
from tests.unit.coordinator.client.test_sync_client import client_of
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete


@pytest.fixture(autouse=True)
def _nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_bases, "_failed", set())


async def ids(bench: Workbench) -> set[int]:
    return {snapshot.snapshot_id for snapshot in (await bench.metadata()).snapshots}


async def grown(bench: Workbench, name: str, count: int = 25) -> None:
    for number in range(count):
        await bench.commit(append(f"{name}{number:02d}"))


async def test_a_base_stays_alone_while_the_job_runs() -> None:
    bench = Workbench()
    async with bench.daemon(), client_on(bench) as client:
        await bench.commit(create(properties={"firn.snapshots-max": "4"}))
        base = (await bench.commit(append("base"))).snapshot_id
        async with client.planning(TABLE, purpose="a long job") as view:
            assert view.snapshot_id == base
            await grown(bench, "f")
            during = await ids(bench)
            (one,) = (await client.reserved(TABLE)).reservations
            assert (one.base_snapshot_id, one.purpose) == (base, "a long job")
        assert base in during
        assert len(during) <= 4 + 1 + 9, "what came after it does not stay for it"
        assert (await client.reserved(TABLE)).reservations == ()
        await grown(bench, "g")
        assert base not in await ids(bench)


async def test_it_is_in_nobodys_way_and_hears_of_nothing() -> None:
    bench = Workbench()
    async with bench.daemon(), client_on(bench) as client, client_on(bench) as other:
        await bench.commit(create())
        base = (await bench.commit(append("a"))).snapshot_id
        async with client.keeping(TABLE, base) as kept, other.keeping(TABLE, base):
            assert kept.is_kept
            async with other.begin(TABLE, holder="compactor", lease_s=1) as mine:
                assert mine.overlaps == ()
                await bench.commit(delete("a"))
                async with asyncio.timeout(10):
                    await mine.disturbed()
            board = await client.reserved(TABLE)
            assert [str(one.scope) for one in board.reservations] == ["nothing of branch main, its base is kept"] * 2
            assert [one.disturbances for one in board.standings] == [(), ()]


async def test_an_empty_branch_needs_nothing() -> None:
    bench = Workbench()
    async with bench.daemon(), client_on(bench) as client:
        await bench.commit(create())
        async with client.planning(TABLE):
            assert (await client.reserved(TABLE)).reservations == ()


async def test_there_is_room_left_for_those_who_ask() -> None:
    bench = Workbench()
    async with client_on(bench) as client:
        jobs = [client.keeping(TABLE, 1) for _ in range(KEPT_BASES_MAX + 1)]
        for job in jobs:
            await job.__aenter__()
        assert [job.is_kept for job in jobs] == [True] * KEPT_BASES_MAX + [False]
        async with client.begin(TABLE) as mine:
            assert mine.overlaps == ()
        for job in jobs:
            await job.__aexit__(None, None, None)
        assert (await client.reserved(TABLE)).reservations == ()


@pytest.mark.parametrize(
    "error", [Unavailable("Redis does not answer"), Misconfigured("NOPERM firn:book:db.events"), OSError("reset")]
)
async def test_a_base_that_cannot_be_kept_fails_no_job_and_is_logged_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused(*_: Any, **__: Any) -> Any:
        raise error

    bench = Workbench()
    monkeypatch.setattr("firn.coordinator.client.reservations.RETRY_S", 0)
    async with client_on(bench) as client:
        monkeypatch.setattr(client._reservations, "begin", refused)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                async with client.keeping(TABLE, 1) as kept:
                    assert not kept.is_kept
    assert [record.message for record in caplog.records] == [
        f"the snapshots that jobs read are not kept from expiry: {error}"
    ]


async def test_a_job_whose_error_ends_it_keeps_nothing_and_has_its_own_error() -> None:
    bench = Workbench()

    def fail(client: Client) -> None:
        with client.keeping(TABLE, 1, branch="dev", purpose="p"):
            (one,) = client.reserved(TABLE).reservations
            assert (one.scope.branch, one.base_snapshot_id) == ("dev", 1)
            raise ZeroDivisionError

    connected = client_of(bench)

    def job() -> None:
        with connected as client:
            with pytest.raises(ZeroDivisionError):
                fail(client)
            assert client.reserved(TABLE).reservations == ()

    await asyncio.to_thread(job)
