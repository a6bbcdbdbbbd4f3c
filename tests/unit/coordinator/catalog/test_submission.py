"""What becomes of requests: submitted once, answered by the outcome, or by "state unknown"; on in-memory twins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firn import AsyncClient
from firn.coordinator.catalog import submission
from firn.coordinator.catalog.refusals import Subject
from firn.coordinator.catalog.statuses import CatalogError
from firn.coordinator.catalog.submission import Submission
from firn.coordinator.operations.pausing import pause_table
from firn.model.errors import Misconfigured, Unavailable
from firn.model.intent import DropTable, Intent
from firn.model.outcome import Committed
from firn.model.pause import Pause
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, new_id

NEW = Subject(table=TABLE, creates=True)
THERE = Subject(table=TABLE)


def client_of(bench: Workbench) -> AsyncClient:
    return AsyncClient(connect=bench.redis.connect, files=bench.files, resubmit_after_s=0.1)


def submission_of(bench: Workbench, client: AsyncClient, *, wait_s: float = 10.0) -> Submission:
    return Submission(client, Pointers(bench.zookeeper.connect()), wait_s=wait_s)


def made(intent: Intent) -> Callable[[], Awaitable[Intent]]:
    async def make() -> Intent:
        return intent

    return make


async def not_asked() -> Intent:
    raise AssertionError("a request that was decided makes no intent")


async def queued(bench: Workbench) -> int:
    return sum(s.added for name, s in bench.redis.streams.items() if ":intents:" in name)


async def test_a_request_is_answered_by_its_commit_and_a_repetition_by_the_same() -> None:
    bench, intent = Workbench(), create()
    async with bench.daemon(), client_of(bench) as client:
        requests = submission_of(bench, client)
        first = await requests.committed(NEW, intent.intent_id, made(intent))
        entries = await queued(bench)
        again = await requests.committed(NEW, intent.intent_id, not_asked)
        assert isinstance(first, Committed)
        assert again == first
        assert await queued(bench) == entries


async def test_a_repeated_refusal_is_the_same_and_makes_no_entry() -> None:
    bench, late = Workbench(), create()
    async with bench.daemon(), client_of(bench) as client:
        requests = submission_of(bench, client)
        await bench.commit(create())
        for _ in range(2):
            with pytest.raises(CatalogError, match=f"^Table already exists: {TABLE}$") as caught:
                await requests.committed(NEW, late.intent_id, made(late))
            assert (caught.value.status.code, caught.value.status.error) == (409, "AlreadyExistsException")


async def test_a_drop_that_is_repeated_is_answered_though_the_table_is_gone() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        requests = submission_of(bench, client)
        await bench.commit(create())
        drop = DropTable(intent_id=new_id(), table=TABLE)
        first = await requests.committed(THERE, drop.intent_id, made(drop))
        assert await requests.committed(THERE, drop.intent_id, not_asked) == first
        other = DropTable(intent_id=new_id(), table=TABLE)
        with pytest.raises(CatalogError, match="Table does not exist") as caught:
            await requests.committed(THERE, other.intent_id, made(other))
        assert caught.value.status.code == 404


async def test_the_key_of_a_request_about_another_table_is_refused() -> None:
    bench, intent = Workbench(), create()
    async with bench.daemon(), client_of(bench) as client:
        requests = submission_of(bench, client)
        await requests.committed(NEW, intent.intent_id, made(intent))
        with pytest.raises(CatalogError, match=r"is the key of a request about db\.events") as caught:
            await requests.committed(Subject(table="db.other"), intent.intent_id, not_asked)
        assert caught.value.status.code == 400


async def test_without_a_daemon_the_state_is_unknown_and_a_later_repetition_hears_of_the_commit() -> None:
    bench, intent = Workbench(), create()
    async with client_of(bench) as client:
        with pytest.raises(CatalogError, match="may still be committed") as caught:
            await submission_of(bench, client, wait_s=0.05).committed(NEW, intent.intent_id, made(intent))
        assert (caught.value.status.code, caught.value.status.error) == (504, "CommitStateUnknownException")
        async with bench.daemon():
            committed = await submission_of(bench, client).committed(NEW, intent.intent_id, made(intent))
            assert committed.intent_id == intent.intent_id


async def test_a_paused_table_sends_requests_away_before_anything_is_queued() -> None:
    bench = Workbench()
    async with bench.daemon(), client_of(bench) as client:
        await bench.commit(create())
        await pause_table(
            bench.zookeeper.connect(), TABLE, Pause(by="ops", since_ms=1, reason="moving"), lock_wait_s=0.1
        )
        entries = await queued(bench)
        for subject, others in ((THERE, ()), (Subject(table="db.a"), (TABLE,))):
            with pytest.raises(CatalogError, match="is paused by ops: moving") as caught:
                await submission_of(bench, client).committed(subject, new_id(), not_asked, others=others)
            assert caught.value.status.code == 503
            assert caught.value.retry_after_s == submission.PAUSED_RETRY_AFTER_S
        assert await queued(bench) == entries


@pytest.mark.parametrize("error", [Unavailable("no Redis"), OSError("reset"), Misconfigured("password")])
async def test_a_queue_that_does_not_answer_sends_requests_away(error, monkeypatch) -> None:
    bench = Workbench()
    async with client_of(bench) as client:

        async def outcome(_intent_id: str) -> None:
            raise error

        monkeypatch.setattr(client, "outcome", outcome)
        with pytest.raises(CatalogError, match="nothing was submitted") as caught:
            await submission_of(bench, client).committed(NEW, new_id(), not_asked)
        assert (caught.value.status.code, caught.value.retry_after_s) == (503, submission.RETRY_AFTER_S)
        assert await queued(bench) == 0


@pytest.mark.parametrize("limit", ["UNDECIDED_MAX", "UNDECIDED_BYTES_MAX"])
async def test_too_much_that_is_undecided_sends_requests_away(limit, monkeypatch) -> None:
    bench, first, second = Workbench(), create(), create("db.second")
    monkeypatch.setattr(submission, limit, 1 if limit == "UNDECIDED_MAX" else 500)
    async with client_of(bench) as client:
        requests = submission_of(bench, client)
        waiting = asyncio.create_task(requests.committed(NEW, first.intent_id, made(first)))
        while not await queued(bench):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        entries = await queued(bench)
        other = Subject(table="db.second", creates=True)
        with pytest.raises(CatalogError, match="nothing was submitted") as caught:
            await requests.committed(other, second.intent_id, made(second))
        assert (caught.value.status.code, caught.value.retry_after_s) == (429, submission.RETRY_AFTER_S)
        assert await queued(bench) == entries
        async with bench.daemon():  # room again, once the first is decided
            await waiting
            await requests.committed(other, second.intent_id, made(second))


async def test_what_no_daemon_could_answer_is_a_bad_request() -> None:
    bench = Workbench()
    async with client_of(bench) as client:
        requests = submission_of(bench, client)
        with pytest.raises(CatalogError, match="is not a table identifier") as caught:
            await requests.committed(Subject(table="db..t"), new_id(), not_asked)
        assert caught.value.status.code == 400
        unsealed = append("a", digest="0" * 32)
        with pytest.raises(CatalogError) as caught:
            await requests.committed(THERE, unsealed.intent_id, made(unsealed))
        assert caught.value.status.code == 400
        assert await queued(bench) == 0
