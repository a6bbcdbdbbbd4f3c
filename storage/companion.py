"""A process that a daemon starts beside itself, for work that would hold its event loop up.

The two share memory, in which the bytes of a request lie, and a socket for the messages about them. The process ends
with the socket, which the operating system closes for a daemon that is killed. Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from firn.model.errors import Unavailable
from firn.storage.companion_program import MESSAGE_BYTES_MAX
from firn.storage.log import get_logger
from firn.storage.shared_arena import SharedArena

CLOSE_S: Final = 5.0
"""How long the process may take to end."""

GONE_S: Final = 1.0
"""How long one that was killed may take to be gone: where a disk hangs, the system does not let it."""

_log: Any = get_logger()


class Numbered(Protocol):
    """A message of the process."""

    @property
    def number(self) -> int:
        """Of the request that it answers."""
        ...


R = TypeVar("R", bound=Numbered)
T = TypeVar("T")


class _UnderWay(msgspec.Struct, frozen=True, eq=False):
    done: asyncio.Future[Any]
    start: int
    take: Callable[[Any, memoryview], Any]


class Companion(Generic[R]):
    """A process that runs the module `program` and answers requests, in whatever order, by messages of type `reply`.

    `does` is what it does, for people; `on_end` is called when it has ended by itself or was killed. `arena_bytes` is
    address space for what is under way; memory is taken for as much of it as is used at once. The program gets the
    descriptors of the socket and of the memory, then `arguments`.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        reply: type[R],
        does: str,
        arena_bytes: int,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self._program = program
        self._arguments = arguments
        self._does = does
        self._on_end = on_end
        self._decoder = msgspec.msgpack.Decoder(reply)
        self._arena = SharedArena(arena_bytes)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._numbers = itertools.count()
        self._under_way: dict[int, _UnderWay] = {}

    @property
    def runs(self) -> bool:
        """Whether it has been started, and has not ended as far as is known."""
        return self._socket is not None

    @property
    def pid(self) -> int | None:
        """The process that was started last."""
        return None if self._process is None else self._process.pid

    @property
    def asked(self) -> int:
        """Requests without an answer."""
        return len(self._under_way)

    async def start(self) -> None:
        """Start the process if it does not run. Raises OSError when it cannot be started."""
        if self._socket is not None:
            return
        async with self._starting:
            if self.runs:  # by now
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(0)
            with theirs, contextlib.ExitStack() as unless_started:
                unless_started.callback(ours.close)
                descriptors = (theirs.fileno(), self._arena.descriptor)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", self._program, *map(str, descriptors), *self._arguments,
                    pass_fds=descriptors, stdin=asyncio.subprocess.DEVNULL,
                )  # fmt: skip
                unless_started.pop_all()
            self._socket = ours
            asyncio.get_running_loop().add_reader(ours, self._take_replies, ours)

    def ask(
        self,
        parts: Sequence[bytes | memoryview],
        request: Callable[[int, int], msgspec.Struct],
        *,
        take: Callable[[R, memoryview], T],
    ) -> asyncio.Future[T] | None:
        """Ask for something about the bytes `parts`, which are put one after the other into the shared memory.

        `request` makes the message from its number and from where the bytes begin, `take` an answer from the
        process's message and that memory, which is free for others afterwards. What `take` raises, or Unavailable
        when the process ends before, is raised from the future. None when the process does not run, is too far
        behind, or there is no room.
        """
        if self._socket is None:
            return None
        start = self._arena.put(parts)
        if start is None:
            return None
        number = next(self._numbers)
        if not _sent(self._socket, msgspec.msgpack.encode(request(number, start))):
            self._arena.give_back(start)
            return None
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._under_way[number] = _UnderWay(done, start, take)
        return done

    def kill(self) -> None:
        """End the process at once; what it was asked for is Unavailable, and `start` starts another."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        self._end()

    async def close(self) -> None:
        """End the process, after what it is at; one that hangs is not waited for."""
        if self._process is not None:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_WR)
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._process.wait()
            except TimeoutError:
                _log.warning(f"the process that {self._does} is killed", pid=self._process.pid, seconds=CLOSE_S)
                self._process.kill()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GONE_S):
                        await self._process.wait()
            if self._socket is not None:
                self._take_replies(self._socket)  # up to its end
        self._arena.close()

    def _take_replies(self, connection: socket.socket) -> None:
        """Take replies in; nothing to read from a socket that is readable means that the process has ended."""
        while True:
            try:
                message = connection.recv(MESSAGE_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                if connection is self._socket:
                    self._end()
                return
            try:
                reply = self._decoder.decode(message)
                under_way = self._under_way.pop(reply.number)
            except (msgspec.MsgspecError, KeyError) as error:  # started from another version's files, for one
                _log.error(f"the process that {self._does} says what nobody understands", reason=repr(error))
                self.kill()
                return
            try:
                with self._arena.memory(under_way.start) as memory:
                    taken = under_way.take(reply, memory)
            except Exception as error:  # noqa: BLE001 - it is whoever asked who handles it
                if not under_way.done.done():  # else whoever asked has gone
                    under_way.done.set_exception(error)
            else:
                if not under_way.done.done():
                    under_way.done.set_result(taken)
            finally:
                self._arena.give_back(under_way.start)

    def _end(self) -> None:
        """The process has ended: say so to all who wait."""
        connection, self._socket = self._socket, None
        if connection is None:
            return
        asyncio.get_running_loop().remove_reader(connection)
        connection.close()
        if self._on_end is not None:
            self._on_end()
        if self._under_way:
            _log.warning(f"the process that {self._does} ended", requests=len(self._under_way))
        left, self._under_way = self._under_way, {}
        for under_way in left.values():
            self._arena.give_back(under_way.start)
            if not under_way.done.done():
                under_way.done.set_exception(Unavailable(f"the process that {self._does} ended"))


def _sent(connection: socket.socket, message: bytes) -> bool:
    """Whether the process will take it; not when it is too far behind, or has just ended."""
    if len(message) > MESSAGE_BYTES_MAX:
        return False
    try:
        connection.send(message)
    except OSError:
        return False
    return True
