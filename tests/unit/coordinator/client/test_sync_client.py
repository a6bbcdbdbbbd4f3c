"""The client without an event loop: threads, forks, closing."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from firn import AsyncClient, AsyncTicket, Client, Committed, Rejected, RejectedError, Ticket, Unknown
from firn.model.errors import InvalidIntent, Misconfigured, Unavailable
from firn.model.intent import digest_of
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, append, content_file, path_of


class OnLoop:
    """Streams on another thread's event loop: the twins are no more thread-safe than what they stand for."""

    def __init__(self, bench: Workbench, loop: asyncio.AbstractEventLoop) -> None:
        self._streams = bench.redis.connect()
        self._loop = loop
        self.names = self._streams.names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._streams, name)

        async def call(*args: Any, **options: Any) -> Any:
            future = asyncio.run_coroutine_threadsafe(method(*args, **options), self._loop)
            return await asyncio.wrap_future(future)

        return call


def client_of(bench: Workbench, **options: Any) -> Client:
    loop = asyncio.get_running_loop()
    return Client(**{"connect": lambda: OnLoop(bench, loop), "files": bench.files, "resubmit_after_s": 0.1, **options})


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "firn-client"]


async def test_a_script_commits_and_is_told() -> None:
    bench = Workbench()

    def script(client: Client) -> None:
        with client:
            client.create_table(TABLE, SCHEMA).committed(10)
            ticket = client.append(TABLE, [content_file("a"), content_file("b")])
            base = ticket.committed(10)
            assert ticket.result(0) == base
            assert client.outcome(ticket.intent_id) == base
            assert client.table(TABLE).snapshot_id == base.snapshot_id
            assert base.snapshot_id is not None
            client.replace(
                TABLE,
                removed=[path_of("a")],
                added=[content_file("a2")],
                base_snapshot_id=base.snapshot_id,
            ).committed(10)
            lost = client.delete_files(TABLE, [path_of("a")])
            assert isinstance(lost.result(10), Rejected)
            with pytest.raises(RejectedError):
                lost.committed(10)

    async with bench.daemon():
        await asyncio.to_thread(script, client_of(bench))
    assert await bench.live() == ["a2", "b"]


async def test_callbacks_hear_of_outcomes_whenever_they_are_added() -> None:
    bench = Workbench()
    heard: list[tuple[Ticket, object]] = []
    called = threading.Event()

    def hear(ticket: Ticket) -> None:
        heard.append((ticket, ticket.result(0)))
        called.set()

    def script(client: Client) -> None:
        with client:
            ticket = client.create_table(TABLE, SCHEMA)
            ticket.add_done_callback(lambda _: 1 // 0)  # is logged, and keeps nobody from hearing
            ticket.add_done_callback(hear)
            base = ticket.committed(10)
            assert called.wait(10)
            assert heard == [(ticket, base)]
            ticket.add_done_callback(hear)
            assert heard == [(ticket, base)] * 2
            assert isinstance(client.append(TABLE, [content_file("a")]).result(10), Committed)

    async with bench.daemon():
        await asyncio.to_thread(script, client_of(bench))


async def test_callbacks_of_an_event_loop_are_called_by_it() -> None:
    bench = Workbench()
    heard: list[tuple[AsyncTicket, object]] = []
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:
        ticket = await client.create_table(TABLE, SCHEMA)
        thread = threading.get_ident()
        ticket.add_done_callback(lambda told: heard.append((told, threading.get_ident())))
        assert not heard
        await ticket.committed(10)
        await asyncio.sleep(0)
        assert heard == [(ticket, thread)]


async def test_many_threads_share_a_client_and_many_tickets_one_thread() -> None:
    bench = Workbench()
    client = client_of(bench)

    def write(thread: int) -> list[Ticket]:
        return [client.append(TABLE, [content_file(f"t{thread}-{i}")]) for i in range(25)]

    def script() -> None:
        client.create_table(TABLE, SCHEMA).committed(10)
        with ThreadPoolExecutor(8) as pool:
            tickets = [ticket for part in pool.map(write, range(8)) for ticket in part]
        assert len(client_threads()) == 1
        assert all(isinstance(ticket.result(20), Committed) for ticket in tickets)

    async with bench.daemon():
        await asyncio.to_thread(script)
    await asyncio.to_thread(client.close)
    assert len(await bench.live()) == 200


async def test_an_intent_that_two_threads_submit_is_one() -> None:
    bench = Workbench()
    intent, client = append("a"), client_of(bench)

    def script() -> None:
        with client, ThreadPoolExecutor(8) as pool:
            client.create_table(TABLE, SCHEMA).committed(10)
            outcomes = [ticket.committed(10) for ticket in pool.map(client.submit, [intent] * 8)]
            assert outcomes == outcomes[:1] * 8
            with pytest.raises(InvalidIntent, match="digest"):
                client.submit(append("b", digest=digest_of(intent)))

    async with bench.daemon():
        await asyncio.to_thread(script)
    assert await bench.live() == ["a"]


def test_an_interrupted_submission_is_given_up_and_the_client_works_on() -> None:
    """Redis takes the connection and says nothing, until somebody presses Ctrl-C."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        presses = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        presses.start()
        with pytest.raises(KeyboardInterrupt):
            client.append(TABLE, [content_file("a")])
        assert client._running().call(unresolved) == 0
        client.close()
    assert client_threads() == []


async def unresolved(client: AsyncClient) -> int:
    return client.unresolved


async def test_without_a_daemon_the_answer_is_unknown_and_waiting_again_helps() -> None:
    bench = Workbench()
    client = client_of(bench)
    ticket = await asyncio.to_thread(client.create_table, TABLE, SCHEMA)
    answer = await asyncio.to_thread(ticket.result, 0.05)
    assert isinstance(answer, Unknown)
    assert (answer.intent_id, answer.attempts) == (ticket.intent_id, 1)
    async with bench.daemon():
        assert isinstance(await asyncio.to_thread(ticket.result, 10), Committed)
    await asyncio.to_thread(client.close)


async def test_closing_frees_whoever_waits() -> None:
    bench = Workbench()
    client = client_of(bench, unresolved_max=1)
    ticket = await asyncio.to_thread(client.append, TABLE, [content_file("a")])
    waits = asyncio.create_task(asyncio.to_thread(ticket.result))
    blocked = asyncio.create_task(asyncio.to_thread(client.append, TABLE, [content_file("b")]))
    await asyncio.sleep(0.1)
    assert not waits.done()
    assert not blocked.done()
    await asyncio.to_thread(client.close)
    assert isinstance(await waits, Unknown)
    with pytest.raises(Unavailable, match="closed"):
        await blocked
    with pytest.raises(Unavailable, match="closed"):
        client.append(TABLE, [content_file("c")])
    client.close()
    assert client_threads() == []


async def test_a_client_that_was_never_used_starts_no_thread() -> None:
    with Client("redis://127.0.0.1:1/0"):
        assert client_threads() == []


async def test_what_is_wrong_is_raised_where_it_was_written() -> None:
    bench = Workbench()
    clients = (client_of(bench), client_of(bench, resubmit_after_s=-1))

    def script() -> None:
        with clients[0] as client, pytest.raises(InvalidIntent, match="table identifier"):
            client.append("no..table", [content_file("a")])
        with clients[1] as client, pytest.raises(Misconfigured, match="resubmit_after_s"):
            client.append(TABLE, [content_file("a")])

    await asyncio.to_thread(script)
    assert client_threads() == []


async def test_a_pickled_client_connects_anew() -> None:
    with Client("redis://127.0.0.1:1/0", resubmit_after_s=0.5, prefix="f") as client:
        copy = pickle.loads(pickle.dumps(client))
    assert (copy._url, copy._options) == ("redis://127.0.0.1:1/0", {"resubmit_after_s": 0.5, "prefix": "f"})


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_leaves_its_parents_client_alone() -> None:
    """The child forgets the thread it does not have, and the parent goes on as if nothing had happened."""
    bench = Workbench()
    client = client_of(bench)
    ticket = await asyncio.to_thread(client.create_table, TABLE, SCHEMA)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fresh = client._engine is None and isinstance(ticket.result(), Unknown)
            gc.collect()
            code = 0 if fresh else 2
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    async with bench.daemon():
        assert isinstance(await asyncio.to_thread(ticket.result, 30), Committed)
        later = await asyncio.to_thread(client.append, TABLE, [content_file("a")])
        assert isinstance(await asyncio.to_thread(later.result, 30), Committed)
    await asyncio.to_thread(client.close)
