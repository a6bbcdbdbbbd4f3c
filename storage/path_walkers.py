"""Processes that list the live files of manifests while a large table is opened, one for each core but one.

To walk over a million entries takes one core some ten seconds, and no thread would help with it. The processes are
there only as long as that, and end with the daemon, whose end of the pipe the operating system closes. What they do not
do, whoever asks does himself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Self

import msgspec

from firn.model.manifest import ManifestFile
from firn.storage.log import get_logger
from firn.storage.manifest_paths import live_paths
from firn.storage.pipe_messages import put, take

PROGRAM: Final = "firn.storage.path_walking_program"

PROCESSES_MAX: Final = 8
"""More of them would wait for whoever puts what they find into the index."""

UNDER_WAY: Final = 2
"""Groups of manifests for each process: one that it is at, and one for it to go on with."""

FILES_MIN: Final = 50_000
"""Files to be listed from which on processes are started: fewer are listed in the time that this takes."""

GROUP_BYTES: Final = 2 * 1024 * 1024
"""Manifests are handed over by the group: the thread that does so waits for the interpreter each time."""

ANSWER_S: Final = 30.0
"""A process that has not listed a group by then is ended; one of 2 MB takes it 0.02 s."""

_in_use: Final = threading.Lock()
"""Tables that are opened at the same time, as after a takeover, do not have processes each."""

_log: Any = get_logger()

Group = list[tuple[ManifestFile, bytes]]
Paths = list[list[str] | None]
"""Of each manifest of a group; None where something is wrong with it."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_ANSWERS: Final = msgspec.msgpack.Decoder(Paths)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def listed_paths(
    contents: Iterable[tuple[ManifestFile, bytes]], *, files: int, processes: int | None = None
) -> Generator[tuple[ManifestFile, Sequence[str]], None, None]:
    """Each manifest with its live files, about in the order of `contents`, which are some `files` in all.

    `processes` None: as many as there are cores to spare. Raises what `live_paths` does, of the same manifest.
    """
    count = min(PROCESSES_MAX, cores() - 1) if processes is None else processes
    if not count or files < FILES_MIN or not _in_use.acquire(blocking=False):
        yield from ((manifest, live_paths(data, manifest=manifest)) for manifest, data in contents)
        return
    try:
        with PathWalkers(count) as walkers:
            yield from _shared_out(contents, walkers, count=count)
    finally:
        _in_use.release()


def _shared_out(
    contents: Iterable[tuple[ManifestFile, bytes]], walkers: PathWalkers, *, count: int
) -> Iterator[tuple[ManifestFile, Sequence[str]]]:
    """Each manifest with its live files: listed by `count` processes, and here while these have enough to do."""
    under_way: deque[tuple[Group, Future[Paths | None]]] = deque()
    for group in _grouped(contents):
        if len(under_way) < UNDER_WAY * count:
            under_way.append((group, walkers.ask(group)))
            continue
        for manifest, data in group:
            yield manifest, live_paths(data, manifest=manifest)
        while under_way and under_way[0][1].done():
            yield from walkers.answered(*under_way.popleft())
    while under_way:
        yield from walkers.answered(*under_way.popleft())


def _grouped(contents: Iterable[tuple[ManifestFile, bytes]]) -> Iterator[Group]:
    group: Group = []
    size = 0
    for one in contents:
        group.append(one)
        size += len(one[1])
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


class PathWalkers:
    """So many processes, which are started as they are needed and end with this. For one thread."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="firn-walkers")
        self._idle: deque[_Walker] = deque(_Walker() for _ in range(count))
        self._walkers = tuple(self._idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._threads.shutdown(cancel_futures=True)
        for walker in self._walkers:
            walker.close()

    @property
    def pids(self) -> list[int]:
        """Those that have been started."""
        return [walker.pid for walker in self._walkers if walker.pid is not None]

    def ask(self, group: Group) -> Future[Paths | None]:
        """Have manifests listed."""
        return self._threads.submit(self._list, group)

    def answered(self, group: Group, asked: Future[Paths | None]) -> Iterator[tuple[ManifestFile, Sequence[str]]]:
        """Each of the manifests with its live files; those that were not listed are listed here.

        Processes that do not answer are killed, and do nothing more.
        """
        found: Paths | None = None
        try:
            found = asked.result(ANSWER_S)
        except TimeoutError:
            _log.warning("manifests are listed by the daemon itself", reason=f"no answer within {ANSWER_S:g} s")
            self.kill()
        for (manifest, data), paths in zip(group, found or [None] * len(group), strict=True):
            yield manifest, live_paths(data, manifest=manifest) if paths is None else paths

    def kill(self) -> None:
        """End the processes; what they were asked for is None."""
        for walker in self._walkers:
            walker.kill()

    def _list(self, group: Group) -> Paths | None:
        walker = self._idle.popleft()  # there are as many as threads
        try:
            return walker.listed(group)
        finally:
            self._idle.append(walker)


class _Walker:
    """One process, for one thread at a time; `kill` for any."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._starting = threading.Lock()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def listed(self, group: Group) -> Paths | None:
        rows = [msgspec.structs.replace(row, partitions=None, key_metadata=None, extra={}) for row, _ in group]
        try:
            process = self._started()
            if process is None:
                return None
            put(process.stdin, _ENCODER.encode(rows), *(data for _, data in group))
            answer = take(process.stdout)
            found = None if answer is None else _ANSWERS.decode(answer)
            return found if found is not None and len(found) == len(group) else None
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            if not self._ended:
                _log.warning("manifests are listed by the daemon itself", reason=str(error))
            self.kill()
            return None

    def kill(self) -> None:
        with self._starting:
            self._ended = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def close(self) -> None:
        """Close the pipes of a process that was killed and that no thread asks any more."""
        for pipe in () if self._process is None else (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not take is not written any more
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes] | None:
        with self._starting:
            if self._process is None and not self._ended:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            return None if self._ended else self._process
