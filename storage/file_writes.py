"""Writing the files of a batch from an event loop: in a thread, or in a process of its own for local files.

A file costs a dozen system calls, and after each a thread waits for Python's interpreter lock, which the event loop is
busy with. A process has a lock of its own: the loop hands it bytes and goes on. See docs/decisions/0009-speed.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import msgspec

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
from firn.storage.companion import Companion
from firn.storage.files import FileStore
from firn.storage.grown_content import Content, GrownContent, pieces_of
from firn.storage.locations import FILE_SCHEME, scheme_of
from firn.storage.marked_folders import MarkedFolders
from firn.storage.write_messages import FORGOTTEN, Continued, Reply, Request

ARENA_BYTES: Final = 256 * 1024 * 1024
"""Address space for what is under way; memory is taken for as much of it as is used at once."""

PARALLEL_WRITES: Final = 32
"""Batches, each of another table, that are written at once to stores other than the local one."""

_ERRORS: Final[dict[str, type[FirnError]]] = {
    error.__name__: error
    for error in (AlreadyExists, InvalidInput, Misconfigured, NotFound, Unavailable, UnknownOutcome)
}
PROGRAM: Final = "firn.storage.file_writing_program"


T = TypeVar("T")


class FileWrites(Protocol):
    """`FileStore.create_all` for an event loop."""

    async def create_all(self, files: Sequence[tuple[str, Content]], *, meanwhile: Callable[[], T]) -> T:
        """As `FileStore.create_all`; what `meanwhile` says, which is called when the files are on their way."""
        ...


class ThreadWrites:
    """In threads of their own: they wait for a store most of the time, and what else needs a thread must not wait."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._threads = ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="firn-writes")

    async def create_all(self, files: Sequence[tuple[str, Content]], *, meanwhile: Callable[[], T]) -> T:
        """As the port says."""
        written = asyncio.get_running_loop().run_in_executor(self._threads, self._create_all, files)
        try:
            return meanwhile()
        finally:
            await written

    def _create_all(self, files: Sequence[tuple[str, Content]]) -> None:
        self._files.create_all([(location, bytes(content)) for location, content in files])


class ProcessWrites:
    """Local files in a process of their own, which is started when it is needed; others in a worker thread.

    It is for a store that takes local files: the process writes whatever local file it is asked for. Bytes go through
    shared memory, and what does not fit there goes to a thread. When the process ends, what it was asked for is
    `Unavailable`: some of it may have been written, under names that nothing refers to. The next write starts another.
    The process does not know `files`, so it is told the marks of `folders`. Linux only.
    """

    def __init__(self, files: FileStore, folders: MarkedFolders | None = None) -> None:
        self._threads = ThreadWrites(files)
        self._beginnings = Beginnings()
        self._companion: Companion[Reply] = Companion(
            PROGRAM, msgspec.json.encode({} if folders is None else dict(folders.marks)).decode(),
            reply=Reply, does="writes files", arena_bytes=ARENA_BYTES, on_end=self._beginnings.clear,
        )  # fmt: skip

    async def create_all(self, files: Sequence[tuple[str, Content]], *, meanwhile: Callable[[], T]) -> T:
        """As the port says."""
        if any(scheme_of(location) != FILE_SCHEME for location, _ in files):
            return await self._threads.create_all(files, meanwhile=meanwhile)
        await self._companion.start()
        begun = {
            place: self._beginnings.take(content)
            for place, (_, content) in enumerate(files)
            if isinstance(content, GrownContent) and content.stretches
        }
        asked = self._asked(files, begun)
        if asked is None:
            return await self._threads.create_all(files, meanwhile=meanwhile)
        try:
            return meanwhile()
        finally:
            if not await asked:
                await self._create_anew(files, begun)

    async def _create_anew(self, files: Sequence[tuple[str, Content]], begun: Iterable[int]) -> None:
        """Write files whole of which the process had forgotten that it had begun some."""
        self._beginnings.forgotten()
        await self._companion.start()
        asked = self._asked(files, dict.fromkeys(begun))
        if asked is None or not await asked:
            await self._threads.create_all(files, meanwhile=lambda: None)

    def _asked(
        self, files: Sequence[tuple[str, Content]], begun: Mapping[int, BegunFile | None]
    ) -> asyncio.Future[bool] | None:
        """Ask the process for the files: it says whether it has them all, False if it has forgotten what it had
        `begun`, by a file's place among `files`. Those places are of files that are begun again. None if it cannot be
        asked.
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
        locations, sizes = tuple(location for location, _ in files), tuple(sum(map(len, some)) for some in pieces)
        given_up = self._beginnings.given_up()

        def request(number: int, start: int) -> Request:
            return Request(number, start, locations, sizes, tuple(continued), given_up)

        def taken(reply: Reply, _: memoryview) -> bool:
            if reply.error == FORGOTTEN:
                return False
            if reply.error is not None:
                raise _ERRORS.get(reply.error, Unavailable)(reply.message)
            for file in then:
                self._beginnings.put(file)
            return True

        asked = self._companion.ask([piece for of_file in pieces for piece in of_file], request, take=taken)
        if asked is None:
            self._beginnings.give_up(given_up)
        return asked

    async def close(self) -> None:
        """End the process, after what it is at; a disk that hangs is not waited for."""
        await self._companion.close()
