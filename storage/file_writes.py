"""Writing the files of a batch from an event loop: in a thread, or in a process of its own for local files.

A file costs a dozen system calls, and after each a thread waits for Python's interpreter lock, which the event loop is
busy with. A process has a lock of its own: the loop hands it bytes and goes on. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections.abc import Sequence
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
from firn.storage.files import FileStore
from firn.storage.locations import FILE_SCHEME, scheme_of

LENGTH_BYTES: Final = 4
"""Each message begins with the length of its head, big-endian."""

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


class Request(msgspec.Struct, frozen=True, array_like=True):
    """The head of a message to the process: what is to be written; the files' bytes follow it, one after the other."""

    number: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The process's whole answer: nothing, or the error's class and text."""

    number: int
    error: str | None = None
    message: str = ""


class FileWrites(Protocol):
    """`FileStore.create_all` for an event loop."""

    async def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As `FileStore.create_all`."""
        ...


class ThreadWrites:
    """In threads of their own: they wait for a store most of the time, and what else needs a thread must not wait."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._threads = ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="firn-writes")

    async def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As `FileStore.create_all`."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._files.create_all, files)


class ProcessWrites:
    """Local files in a process of their own, which is started when it is needed; others in a worker thread.

    It is for a store that takes local files: the process writes whatever local file it is asked for.
    When the process ends, what it was asked for is `Unavailable`: some of it may have been written, under names that
    nothing refers to. The next write starts another.
    """

    def __init__(self, files: FileStore) -> None:
        self._threads = ThreadWrites(files)
        self._starting = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As `FileStore.create_all`."""
        if any(scheme_of(location) != FILE_SCHEME for location, _ in files):
            await self._threads.create_all(files)
            return
        writer = self._writer or await self._start()
        number = next(self._numbers)
        request = Request(number, tuple(location for location, _ in files), tuple(len(data) for _, data in files))
        head = msgspec.msgpack.encode(request)
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            writer.writelines([len(head).to_bytes(LENGTH_BYTES, "big"), head, *(data for _, data in files)])
            await done
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the process, after what it is at; a disk that hangs is not waited for."""
        if self._writer is not None:
            self._writer.close()
        if self._process is None or self._listening is None:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            _log.warning("the process that writes files is killed", pid=self._process.pid, seconds=CLOSE_S)
            self._process.kill()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _start(self) -> asyncio.StreamWriter:
        async with self._starting:
            if self._writer is not None:
                return self._writer
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", PROGRAM, str(theirs.fileno()), pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                )  # fmt: skip
            reader, self._writer = await asyncio.open_connection(sock=ours)
            self._listening = asyncio.create_task(self._listen(reader), name="file writes")
            return self._writer

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Take replies in until the process ends."""
        decoder = msgspec.msgpack.Decoder(Reply)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                reply = decoder.decode(await reader.readexactly(length))
                done = self._waiting.get(reply.number)
                if done is None or done.done():
                    continue
                if reply.error is None:
                    done.set_result(None)
                else:
                    done.set_exception(_ERRORS.get(reply.error, Unavailable)(reply.message))
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        if self._waiting:
            _log.warning("the process that writes files ended", writes=len(self._waiting))
        for done in self._waiting.values():
            if not done.done():
                done.set_exception(Unavailable("the process that writes files ended"))
