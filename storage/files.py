"""The file store: immutable files under names that are written once.

`FileStore` is the port. It is synchronous, because it is called from worker threads. `RoutedFiles` sends each location
to the store of its scheme; which schemes there are is the allow-list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from firn.model.errors import InvalidInput, TooLarge
from firn.storage.locations import FILE_SCHEME, OBJECT_SCHEMES, scheme_of

STORE_SCHEMES: Final = ", ".join(sorted({FILE_SCHEME, *OBJECT_SCHEMES} - {"memory"}))
"""Those that people may use; ``memory`` is for tests."""


class FileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One stored file: `size` in bytes, `modified_ms` in Unix milliseconds by the store's clock."""

    location: str
    size: int
    modified_ms: int


class FileStore(Protocol):
    """Files by location.

    Every method raises `InvalidInput` for a location that this store does not take, `Unavailable` when the store
    does not answer and nothing was changed, and `UnknownOutcome` when a change was under way and may have happened.
    """

    def read(self, location: str, *, bytes_max: int) -> bytes:
        """The whole file.

        `NotFound`; `InvalidInput` when it is larger than `bytes_max` or no regular file; `CorruptFile` when fewer bytes
        come than the store says it has.
        """
        ...

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; `CorruptFile` when the file ends before."""
        ...

    def create(self, location: str, data: bytes) -> None:
        """Write a new file; `AlreadyExists` when the name is taken, however close the race.

        The file is durable under its name when this returns. A file that could not be written whole never appears
        under its name. `UnknownOutcome`: it may be there, whole; do not assume either, and do not delete it.
        """
        ...

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """New files under new names that nothing refers to yet, in parallel; all are durable when this returns.

        When one fails, the error is that of the first in the order given, and names it; others may have been written
        and are orphans. Where the machine dies before this returns, any of them may be there and not be whole.
        """
        ...

    def replace(self, location: str, data: bytes) -> None:
        """Overwrite or create, atomically. For version hints only: nothing else is ever overwritten."""
        ...

    def size(self, location: str) -> int:
        """The file's size in bytes; `NotFound`."""
        ...

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        """Every file below the folder `prefix`, whatever its depth, in the form that `prefix` was given in.

        A folder that does not exist is empty. Leftovers of interrupted writes are listed too: a sweep takes them. With
        `after`, a location below `prefix`, only those whose names sort after it.
        """
        ...

    def delete(self, location: str) -> None:
        """Remove a file. One that is not there is as good as removed."""
        ...


class RoutedFiles:
    """A `FileStore` that sends each location to the store of its scheme.

    The schemes of `stores` (canonical: ``file``, ``s3``, ``gs``, ``az``, ``abfs``, ``memory``) are all that is
    reachable.
    """

    def __init__(self, stores: Mapping[str, FileStore]) -> None:
        self._stores = dict(stores)

    def read(self, location: str, *, bytes_max: int) -> bytes:
        return self._store(location).read(location, bytes_max=bytes_max)

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        return self._store(location).read_range(location, offset=offset, length=length)

    def create(self, location: str, data: bytes) -> None:
        self._store(location).create(location, data)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        by_scheme: dict[str, list[tuple[str, bytes]]] = {}
        for location, data in files:
            self._store(location)
            by_scheme.setdefault(scheme_of(location), []).append((location, data))
        for scheme, part in by_scheme.items():
            self._stores[scheme].create_all(part)

    def replace(self, location: str, data: bytes) -> None:
        self._store(location).replace(location, data)

    def size(self, location: str) -> int:
        return self._store(location).size(location)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        return self._store(prefix).list(prefix, after=after)

    def delete(self, location: str) -> None:
        self._store(location).delete(location)

    def _store(self, location: str) -> FileStore:
        scheme = scheme_of(location)
        store = self._stores.get(scheme)
        if store is None:
            raise _not_enabled(location, scheme, enabled=self._stores)
        return store


def options_place(scheme: str) -> str:
    """Where somebody says how the store of a scheme is reached."""
    return f"[warehouse.options.{scheme}] in firn.toml, or in a program open_files({{'{scheme}': {{…}}}})"


def _not_enabled(location: str, scheme: str, *, enabled: Collection[str]) -> InvalidInput:
    if scheme not in OBJECT_SCHEMES and scheme != FILE_SCHEME:
        return InvalidInput(f"scheme {scheme!r} is not supported", where=location, hint=f"there are {STORE_SCHEMES}")
    only = ", ".join(sorted(enabled))
    return InvalidInput(
        f"scheme {scheme!r} is not enabled here, only {only}",
        where=location,
        hint=f"enable it: {options_place(scheme)}",
    )


def check_range(location: str, *, offset: int, length: int) -> None:
    """Refuse a byte range that no file can have."""
    if offset < 0 or length < 0:
        raise InvalidInput(f"the byte range {offset}+{length} is negative", where=location)


def too_large(location: str, *, size: int, bytes_max: int) -> TooLarge:
    """The error for a file that is larger than its reader allows."""
    return TooLarge(f"the file has {size} bytes, more than the limit of {bytes_max}", where=location)
