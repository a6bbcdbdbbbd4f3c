"""Every error reply of Redis by its cause, as the client library reads it from a server that says it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import redis.exceptions as rx

from firn.model.errors import FirnError, Misconfigured, Unavailable, UnknownOutcome
from firn.storage.redis_faults import reply_in
from firn.storage.redis_streams import RedisStreams
from firn.storage.store_faults import Cause

READONLY: Final = "READONLY You can't write against a read only replica."
UNBLOCKED: Final = (
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"  # a replica now
)

MASTER: Final = "*3\r\n$6\r\nmaster\r\n:0\r\n*0"

REPLIES: Final[list[tuple[str, Cause | None, type[FirnError]]]] = [
    (READONLY, "read-only", Unavailable),
    (f"{READONLY} script: 5f8d, on @user_script:8.", "read-only", Unavailable),
    (f"ERR Error running script (call to f_1): @user_script:8: -{READONLY}", "read-only", Unavailable),
    (UNBLOCKED, "read-only", Unavailable),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "read-only", Unavailable),
    ("NOAUTH Authentication required.", "credentials", Misconfigured),
    ("WRONGPASS invalid username-password pair or user is disabled.", "credentials", Misconfigured),
    ("NOPERM User w has no permissions to run the 'xadd' command", "permissions", Misconfigured),
    ("DENIED Redis is running in protected mode", "permissions", Misconfigured),
    ("MOVED 3999 127.0.0.1:6381", "topology", Misconfigured),
    ("ASK 3999 127.0.0.1:6381", "topology", Misconfigured),
    ("CROSSSLOT Keys in request don't hash to the same slot", "topology", Misconfigured),
    ("CLUSTERDOWN Hash slot not served", "cluster-down", Unavailable),
    ("TRYAGAIN Multiple keys request during rehashing of slot", "cluster-down", Unavailable),
    ("LOADING Redis is loading the dataset in memory", "loading", Unavailable),
    ("MISCONF Errors writing to the AOF file: No space left on device", "persistence", Unavailable),
    ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to", "persistence", Unavailable),
    ("OOM command not allowed when used memory > 'maxmemory'.", "memory", Unavailable),
    ("NOREPLICAS Not enough good replicas to write.", "replicas", Unavailable),
    ("BUSY Redis is busy running a script.", "busy", Unavailable),
    ("ERR max number of clients reached", "connections", Unavailable),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", None, Unavailable),
    ("ERR unknown command 'XADD'", None, Unavailable),
]


class Server:
    """Speaks as much of Redis's protocol as a client needs to be refused: each command is answered by its name.

    Other `answers`, instead of others in them, are for connections that are made from then on.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.said: list[list[str]] = []
        self.url = ""
        self.tasks: list[asyncio.Task[None]] = []
        self.clients: list[RedisStreams] = []

    def connect(self, options: str = "", *, user: str = "") -> RedisStreams:
        """A client, closed with the server."""
        self.clients.append(RedisStreams(self.url.replace("redis://", f"redis://{user}") + options))
        return self.clients[-1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        answers = self.answers  # of this connection for as long as it lives
        try:
            while line := await reader.readline():
                words = []
                for _ in range(int(line[1:])):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2].decode())
                self.said.append(words)
                writer.write(answers.get(words[0], "+OK").encode() + b"\r\n")
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"redis://127.0.0.1:{listening.sockets[0].getsockname()[1]}/0"
    server.answers["ROLE"] = MASTER
    try:
        yield server
    finally:
        for client in server.clients:
            await client.close()
        listening.close()
        await asyncio.wait_for(asyncio.gather(*server.tasks), 5)


@pytest.mark.parametrize(("reply", "cause", "raised"), REPLIES)
async def test_each_reply_has_its_cause_and_its_error(reply: str, cause: Cause | None, raised: type[FirnError]) -> None:
    async with serving() as server:
        streams = server.connect()
        server.answers |= {"SET": f"-{reply}"} | ({"ROLE": f"-{reply}"} if cause == "credentials" else {})
        with pytest.raises(FirnError) as caught:
            await streams.probe()
        assert type(caught.value) is raised
        assert [one.cause for one in streams.faults.current()] == ([] if cause is None else [cause])
        server.answers |= {"SET": "$-1", "ROLE": MASTER}
        await streams.probe()
        permissions = ["permissions"] if cause == "permissions" else []  # another command may still be refused
        assert [one.cause for one in streams.faults.current()] == permissions


@pytest.mark.parametrize("reply", [READONLY, UNBLOCKED, "MASTERDOWN Link with MASTER is down"])
async def test_a_replica_is_left_and_an_intent_goes_to_the_master_at_once(reply: str) -> None:
    """One address leads to another server; every connection is made anew, those that only read, too."""
    async with serving() as server:
        streams = server.connect()
        server.answers |= {"XADD": "$3\r\n1-1", "GET": "$3\r\nold", "XREAD": "*-1"}
        assert await streams.submit(0, b"a") == "1-1"
        assert await streams.outcome("any") == b"old"
        assert await streams.replies("firn:replies:x", block_ms=1) == []
        made = len(server.tasks)
        server.answers["XADD"] = f"-{reply}"
        server.answers = {"XADD": "$3\r\n2-1", "GET": "$3\r\nnew", "ROLE": MASTER, "XREAD": "*-1"}
        assert await asyncio.gather(*(streams.submit(0, b"b") for _ in range(20))) == ["2-1"] * 20
        assert await streams.outcome("any") == b"new"
        assert await streams.replies("firn:replies:x", block_ms=1) == []
        assert len(server.tasks) == made + 3, "one for each, however many were refused"
        assert streams.faults.current() == ()


async def test_a_server_that_is_a_replica_is_not_taken() -> None:
    async with serving() as server:
        server.answers["ROLE"] = "*5\r\n$5\r\nslave\r\n$4\r\nhost\r\n:6379\r\n$9\r\nconnected\r\n:1"
        streams = server.connect()
        with pytest.raises(Unavailable, match="is a replica of host:6379"):
            await streams.outcome("any")
        assert [one.cause for one in streams.faults.current()] == ["read-only"]
        server.answers |= {"ROLE": MASTER, "GET": "$-1"}
        assert await streams.outcome("any") is None


@pytest.mark.parametrize("reply", ["NOPERM no permissions to run the 'role' command", "ERR unknown command 'ROLE'"])
async def test_a_server_that_hides_its_role_is_taken(reply: str) -> None:
    async with serving() as server:
        server.answers |= {"ROLE": f"-{reply}", "GET": "$-1"}
        streams = server.connect()
        assert await streams.outcome("any") is None
        assert streams.faults.current() == ()


async def test_a_renewed_secret_is_read_for_the_next_connection(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("first\n")
    async with serving() as server:
        server.answers |= {"GET": "$-1"}
        streams = server.connect(f"?password_file={secret}", user="firn@")
        await streams.outcome("any")
        secret.write_text("second\n")
        server.answers["GET"] = "-NOPERM no permissions"  # which is not this user's fault
        with pytest.raises(Misconfigured):
            await streams.outcome("any")
        server.answers["GET"] = "$-1"
        await streams.outcome("any")
        assert [words for words in server.said if words[0] == "AUTH"] == [
            ["AUTH", "firn", "first"],
            ["AUTH", "firn", "second"],
        ]
        secret.unlink()
        server.answers["SET"] = f"-{READONLY}"
        with pytest.raises(Unavailable):
            await streams.probe()
        await streams.outcome("any")
        assert "secret-file" in [one.cause for one in streams.faults.current()]
        assert server.said[-5:].count(["AUTH", "firn", "second"]) == 1, "the last secret is good enough"


async def test_a_refused_secret_is_waited_out_by_who_was_let_in_before() -> None:
    """A client that never got in is told; one that did goes on, because the secret may just be renewed."""
    async with serving() as server:
        server.answers |= {"GET": "$-1", "SET": "-NOAUTH Authentication required."}
        streams = server.connect()
        await streams.outcome("any")
        with pytest.raises(Unavailable):
            await streams.probe()


async def test_an_answer_that_never_came_leaves_it_open_what_happened() -> None:
    async with serving() as server:
        streams = server.connect()
        await streams.probe()
        server.answers["SET"] = ""  # no protocol at all
        with pytest.raises(UnknownOutcome):
            await streams.probe()


def test_an_error_is_looked_for_behind_those_that_hide_it() -> None:
    error = rx.ConnectionError("broken")
    error.__cause__ = rx.ReadOnlyError("no writes")
    assert reply_in(error).cause == "read-only"


def test_errors_that_stand_behind_one_another_end() -> None:
    first, second = rx.ConnectionError("broken"), OSError("gone")
    first.__cause__, second.__context__ = second, first
    assert reply_in(first).cause == "unreachable"
