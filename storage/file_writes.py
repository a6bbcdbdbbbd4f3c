"""Writing the files of a batch from an event loop: in a thread, or in a process of its own for local files.

A file costs a dozen system calls, and after each a thread waits for Python's interpreter lock, which the event loop is
busy with. A process has a lock of its own: the loop hands it bytes and goes on. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import msgspec
import structlog

from firn.model.errors import (
    AlreadyExists,
    FirnError,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.begun_files import Beginnings, BegunFile
from firn.storage.files import FileStore
from firn.storage.grown_content import Content, GrownContent, pieces_of
from firn.storage.locations import FILE_SCHEME, scheme_of
from firn.storage.shared_arena import SharedArena
from firn.storage.write_messages import FORGOTTEN, MESSAGE_BYTES_MAX, Continued, Reply, Request

ARENA_BYTES: Final = 256 * 1024 * 1024
"""Address space for what is under way; memory is taken for as much of it as is used at once."""

CLOSE_S: Final = 5.0
"""How long the process may take to end."""

PARALLEL_WRITES: Final = 32
"""Batches, each of another table, that are written at once to stores other than the local one."""

_ERRORS: Final[dict[str, type[FirnError]]] = {
    error.__name__: error
    for error in (AlreadyExists, InvalidInput, Misconfigured, NotFound, Unavailable, UnknownOutcome)
}
PROGRAM: Final = "firn.storage.file_writing_program"

_log: Any = structlog.get_logger(__name__)


class _UnderWay(msgspec.Struct, frozen=True, eq=False):
    done: asyncio.Future[bool]
    """True once all is written, False if what was to be continued is forgotten."""

    start: int
    then: tuple[BegunFile, ...]
    """What is begun afterwards."""


class FileWrites(Protocol):
    """`FileStore.create_all` for an event loop."""

    async def create_all(self, files: Sequence[tuple[str, Content]]) -> None:
        """As `FileStore.create_all`."""
        ...


class ThreadWrites:
    """In threads of their own: they wait for a store most of the time, and what else needs a thread must not wait."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._threads = ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="firn-writes")

    async def create_all(self, files: Sequence[tuple[str, Content]]) -> None:
        """As `FileStore.create_all`."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._create_all, files)

    def _create_all(self, files: Sequence[tuple[str, Content]]) -> None:
        self._files.create_all([(location, bytes(content)) for location, content in files])


class ProcessWrites:
    """Local files in a process of their own, which is started when it is needed; others in a worker thread.

    It is for a store that takes local files: the process writes whatever local file it is asked for. Bytes go through
    shared memory, and what does not fit there goes to a thread. When the process ends, what it was asked for is
    `Unavailable`: some of it may have been written, under names that nothing refers to. The next write starts another.
    Linux only.
    """

    def __init__(self, files: FileStore) -> None:
        self._threads = ThreadWrites(files)
        self._arena = SharedArena(ARENA_BYTES)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._numbers = itertools.count()
        self._under_way: dict[int, _UnderWay] = {}
        self._beginnings = Beginnings()
        self._decoder = msgspec.msgpack.Decoder(Reply)

    async def create_all(self, files: Sequence[tuple[str, Content]]) -> None:
        """As `FileStore.create_all`."""
        if any(scheme_of(location) != FILE_SCHEME for location, _ in files):
            await self._threads.create_all(files)
            return
        connection = self._socket or await self._start()
        begun = {n: self._beginnings.take(c) for n, (_, c) in enumerate(files) if isinstance(c, GrownContent)}
        written = await self._create(connection, files, begun)
        if written is None:
            self._beginnings.forgotten()
            written = await self._create(self._socket or await self._start(), files, dict.fromkeys(begun))
        if not written:
            await self._threads.create_all(files)

    async def _create(
        self, connection: socket.socket, files: Sequence[tuple[str, Content]], begun: Mapping[int, BegunFile | None]
    ) -> bool | None:
        """Whether the process has written the files: False if it cannot be asked, None if it has forgotten what it had
        `begun`, by a file's place among `files`. Those places are of files that are begun again.
        """
        pieces: list[list[bytes | memoryview]] = [list(pieces_of(content)) for _, content in files]
        continued, then = [], []
        for place, file in begun.items():
            content = files[place][1]
            assert isinstance(content, GrownContent)
            places: tuple[tuple[int, int], ...] = ()
            if file is not None:
                rest = content.rest(file.stretches)
                pieces[place] = [piece for _, some in rest for piece in some]
                places = tuple((start, sum(map(len, some))) for start, some in rest)
            another = self._beginnings.number_of_another()
            stretches = tuple((stretch.start, stretch.size) for stretch in content.stretches)
            continued.append(Continued(place, None if file is None else file.number, places, another, stretches))
            if another is not None:
                then.append(BegunFile(another, content.stretches))
        start = self._arena.put([piece for of_file in pieces for piece in of_file])
        if start is None:
            return False
        number = next(self._numbers)
        request = Request(
            number, start, tuple(location for location, _ in files), tuple(sum(map(len, some)) for some in pieces),
            tuple(continued), self._beginnings.given_up(),
        )  # fmt: skip
        if not _sent(connection, msgspec.msgpack.encode(request)):
            self._arena.give_back(start)
            self._beginnings.give_up(request.given_up)
            return False
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # Until the process has answered, whoever waits for it.
        self._under_way[number] = _UnderWay(done, start, tuple(then))
        return True if await done else None

    async def close(self) -> None:
        """End the process, after what it is at; a disk that hangs is not waited for."""
        if self._process is not None:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_WR)
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._process.wait()
            except TimeoutError:
                _log.warning("the process that writes files is killed", pid=self._process.pid, seconds=CLOSE_S)
                self._process.kill()
                await self._process.wait()
            if self._socket is not None:
                self._take_replies(self._socket)  # up to its end
        self._arena.close()

    async def _start(self) -> socket.socket:
        async with self._starting:
            if self._socket is not None:
                return self._socket
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.settimeout(0)
            with theirs:
                descriptors = (theirs.fileno(), self._arena.descriptor)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", PROGRAM, *map(str, descriptors), pass_fds=descriptors,
                    stdin=asyncio.subprocess.DEVNULL,
                )  # fmt: skip
            self._socket = ours
            asyncio.get_running_loop().add_reader(ours, self._take_replies, ours)
            return ours

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
            reply = self._decoder.decode(message)
            under_way = self._under_way.pop(reply.number)
            self._arena.give_back(under_way.start)
            if reply.error is None:
                for file in under_way.then:
                    self._beginnings.put(file)
            if under_way.done.done():
                continue  # whoever asked has gone
            if reply.error is None or reply.error == FORGOTTEN:
                under_way.done.set_result(reply.error is None)
            else:
                under_way.done.set_exception(_ERRORS.get(reply.error, Unavailable)(reply.message))

    def _end(self) -> None:
        """The process has ended: say so to all who wait, and start another for the next write."""
        connection, self._socket = self._socket, None
        if connection is None:
            return
        asyncio.get_running_loop().remove_reader(connection)
        connection.close()
        self._beginnings.clear()
        if self._under_way:
            _log.warning("the process that writes files ended", writes=len(self._under_way))
        left, self._under_way = self._under_way, {}
        for under_way in left.values():
            self._arena.give_back(under_way.start)
            if not under_way.done.done():
                under_way.done.set_exception(Unavailable("the process that writes files ended"))


def _sent(connection: socket.socket, message: bytes) -> bool:
    """Whether the process will take it; not when it is too far behind, or has just ended."""
    if len(message) > MESSAGE_BYTES_MAX:
        return False
    try:
        connection.send(message)
    except OSError:
        return False
    return True
