"""Reads and removals of many files at once, a bounded number ahead of whoever takes the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

from firn.model.errors import FirnError
from firn.storage.files import FileStore

THREADS: Final = 8
AHEAD: Final = 32
"""Files asked for before their turn: what they take is held in memory."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_parallel(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """What `work` makes of each item, in order; an error is raised when its turn comes, and nothing begins after it."""
    source = iter(items)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="firn-upkeep") as pool:
        waiting: deque[Future[_Result]] = deque(pool.submit(work, item) for item in islice(source, AHEAD))
        try:
            while waiting:
                yield waiting.popleft().result()
                waiting.extend(pool.submit(work, item) for item in islice(source, 1))
        finally:
            for future in waiting:
                future.cancel()


def delete_all(files: FileStore, locations: Iterable[str]) -> tuple[int, list[tuple[str, str]]]:
    """Remove files; how many went (or were gone), and those that did not, each with the reason."""
    gone, failed = 0, []
    for location, reason in in_parallel(lambda location: (location, _delete(files, location)), locations):
        if reason is None:
            gone += 1
        else:
            failed.append((location, reason))
    return gone, failed


def _delete(files: FileStore, location: str) -> str | None:
    try:
        files.delete(location)
    except FirnError as error:
        return str(error)
    return None
