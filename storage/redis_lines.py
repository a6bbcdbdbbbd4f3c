"""Connections to Redis that are kept for what is done all the time: a writer adds intents and waits for outcomes, a
daemon takes intents and tells outcomes.

The client library takes a connection out of its pool for every command, looks after it, counts it and puts it back,
which takes as long as the command does. These are the library's connections, too, with its addresses, passwords and
certificates; they come out of the pool once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

import hiredis
import redis.exceptions as rx

from firn.storage.redis_dialling import made_in

SILENCE_S: Final = 1.0
"""A connection on which nothing was answered for so long is not kept when whoever asked gives up."""


LARGE_BYTES: Final = 16 * 1024
"""A last argument from which on the client library's code takes longer to pack a command than Python does."""


class _Flight:
    """One connection with the commands that were sent on it and are not answered."""

    def __init__(self, pool: Any, connection: Any) -> None:
        self._pool = pool
        self.connection = connection
        self.awaited: deque[asyncio.Future[Any]] = deque()
        self.over = False
        """Whether nothing may be sent on it any more."""
        self.reader = asyncio.create_task(self._read(), name="firn answers of Redis")

    def leave(self) -> None:
        """Send nothing more on it: it ends with the last answer."""
        self.over = True
        if not self.awaited:
            self.reader.cancel()

    async def _read(self) -> None:
        """Hand out answers, until the connection breaks or is left."""
        broken: BaseException = rx.ConnectionError("the connection was closed")
        connection = self.connection
        try:
            while self.awaited or not self.over:
                try:
                    found, error = await connection.read_response(), None
                except rx.ResponseError as refused:
                    found, error = None, made_in(connection, refused)
                answer = self.awaited.popleft()
                if answer.done():
                    continue
                if error is None:
                    answer.set_result(found)
                else:
                    answer.set_exception(error)
        except (rx.RedisError, OSError) as error:
            broken = error
        finally:
            self.over = True
            for answer in self.awaited:
                if not answer.done():
                    answer.set_exception(broken)
            await connection.disconnect(nowait=True)
            await self._pool.release(connection)


class AddingLine:
    """Commands one behind the other on one connection, answered in that order: none waits for the answer to another.

    `redis` is a client whose connections are a `Dialler`'s. `ask` raises what the library raises. When the connection
    breaks, all that were not answered fail with it, and the next command connects anew, as it does when the connection
    is stale; none is ever sent twice.
    """

    def __init__(self, redis: Any) -> None:
        self._pool: Any = redis.connection_pool
        self._flight: _Flight | None = None
        self._connecting = asyncio.Lock()

    async def ask(self, *command: Any) -> Any:
        """Send a command; its answer."""
        flight = self._flight
        if flight is None or flight.over or flight.connection.is_stale:
            flight = await self._connected()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        flight.awaited.append(answer)
        asked_at = loop.time()
        try:
            await flight.connection.send_packed_command(hiredis.pack_command(command), check_health=False)
            return await answer
        except asyncio.CancelledError:
            if loop.time() - asked_at >= SILENCE_S:
                await _ended(flight)
            raise
        finally:
            answer.cancel()  # does nothing to one that came; whoever reads passes over one that nobody waits for

    async def close(self) -> None:
        """Those who wait for an answer get none."""
        if self._flight is not None:
            await _ended(self._flight)

    async def _connected(self) -> _Flight:
        async with self._connecting:
            flight = self._flight
            if flight is not None and not flight.over:
                if not flight.connection.is_stale:
                    return flight
                flight.leave()
            self._flight = None
            self._flight = _Flight(self._pool, await self._pool.get_connection())
            return self._flight


async def _ended(flight: _Flight) -> None:
    flight.reader.cancel()
    await asyncio.wait([flight.reader])


class WaitingLine:
    """One connection for commands that may take long to be answered, one at a time.

    As `AddingLine`; who asks while somebody waits gets an answer after that one's.
    """

    def __init__(self, redis: Any) -> None:
        self._pool: Any = redis.connection_pool
        self._connection: Any = None
        self._asking = asyncio.Lock()

    @property
    def taken(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._asking.locked()

    async def ask(self, *command: Any) -> Any:
        """Send a command; its answer."""
        async with self._asking:
            connection = await self._connected()
            await connection.send_packed_command(packed(command), check_health=False)
            try:
                return await connection.read_response()  # the library disconnects when this fails or is broken off
            except rx.ResponseError as error:
                raise made_in(connection, error) from None

    async def ask_together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands at once; their answers, when the last has come. Raises the first error among them."""
        async with self._asking:
            connection = await self._connected()
            await connection.send_packed_command(b"".join(map(packed, commands)), check_health=False)
            answers: list[Any] = []
            refused: list[rx.ResponseError] = []
            for _ in commands:
                try:
                    answers.append(await connection.read_response())
                except rx.ResponseError as error:  # the others have answers, too, which the next command must not get
                    refused.append(made_in(connection, error))
            if refused:
                raise refused[0]
            return answers

    async def _connected(self) -> Any:
        if self._connection is None:
            self._connection = await self._pool.get_connection()
        else:
            await self._pool.ensure_connection(self._connection)
        return self._connection


def packed(command: tuple[Any, ...]) -> bytes:
    """A command as it is sent. One of 800 kB takes `hiredis` 0.7 ms, which makes room for it little by little."""
    last = command[-1]
    if not isinstance(last, bytes) or len(last) < LARGE_BYTES:
        packed: bytes = hiredis.pack_command(command)
        return packed
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        data = argument if isinstance(argument, bytes) else str(argument).encode()
        parts += (b"$%d\r\n" % len(data), data, b"\r\n")
    return b"".join(parts)
