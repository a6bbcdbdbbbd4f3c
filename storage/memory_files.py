"""The file store's in-memory twin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from firn.model.errors import AlreadyExists, CorruptFile, NotFound
from firn.storage.files import FileInfo, check_range, too_large
from firn.storage.locations import normalize


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryFiles:
    """A `FileStore` in a dictionary, safe to call from threads.

    Takes locations of every scheme. `now_ms` stamps new files.
    """

    def __init__(self, *, now_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()
        self._now_ms = now_ms

    def read(self, location: str, *, bytes_max: int) -> bytes:
        data = self._data(location)
        if len(data) > bytes_max:
            raise too_large(location, size=len(data), bytes_max=bytes_max)
        return data

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        check_range(location, offset=offset, length=length)
        part = self._data(location)[offset : offset + length]
        if len(part) != length:
            raise CorruptFile(location, f"ends before byte {offset + length}")
        return part

    def create(self, location: str, data: bytes) -> None:
        name = normalize(location)
        with self._lock:
            if name in self._files:
                raise AlreadyExists(location)
            self._files[name] = (bytes(data), self._now_ms())

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for location, data in files:
            self.create(location, data)

    def replace(self, location: str, data: bytes) -> None:
        name = normalize(location)
        with self._lock:
            self._files[name] = (bytes(data), self._now_ms())

    def size(self, location: str) -> int:
        return len(self._data(location))

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        root = normalize(prefix).rstrip("/") + "/"
        given = prefix.rstrip("/") + "/"
        with self._lock:
            found = sorted((name, *file) for name, file in self._files.items() if name.startswith(root))
        for name, data, modified_ms in found:
            if after is not None and name <= normalize(after):
                continue
            yield FileInfo(location=given + name[len(root) :], size=len(data), modified_ms=modified_ms)

    def delete(self, location: str) -> None:
        name = normalize(location)
        with self._lock:
            self._files.pop(name, None)

    def _data(self, location: str) -> bytes:
        name = normalize(location)
        with self._lock:
            file = self._files.get(name)
        if file is None:
            raise NotFound(f"there is no file {location}")
        return file[0]
