"""What a daemon and the process that writes its local files say to each other (see `firn.storage.file_writes`)."""

from __future__ import annotations

from typing import Final

import msgspec

FORGOTTEN: Final = "forgotten"
"""The error of a reply: the process has not begun what a file was to continue, and has written nothing."""


class Continued(msgspec.Struct, frozen=True, array_like=True):
    """A file of a request that has much of the last one (see `firn.storage.begun_files`).

    `file` is its place in the request, `begun` the number of the file that holds what it has: only the rest is in the
    shared memory, for the `places` (start and size, in order), behind the last of which the begun file has nothing.
    Afterwards another is begun as `then`, with these `stretches` of this (start and size).
    """

    file: int
    begun: int | None
    places: tuple[tuple[int, int], ...]
    then: int | None
    stretches: tuple[tuple[int, int], ...]


class Request(msgspec.Struct, frozen=True, array_like=True):
    """What the process is asked for: files, whose bytes are in the shared memory from `start`, one after the other.

    `given_up` are begun files that are not needed any more.
    """

    number: int
    start: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]
    continued: tuple[Continued, ...] = ()
    given_up: tuple[int, ...] = ()


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The process's whole answer: nothing, or the error's class and text."""

    number: int
    error: str | None = None
    message: str = ""
