"""What a daemon and the process that writes its local files say to each other (see `firn.storage.file_writes`)."""

from __future__ import annotations

from typing import Final

import msgspec

MESSAGE_BYTES_MAX: Final = 64 * 1024
"""A message, which is sent whole or not at all."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """What the process is asked for: files, whose bytes are in the shared memory from `start`, one after the other."""

    number: int
    start: int
    locations: tuple[str, ...]
    sizes: tuple[int, ...]


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The process's whole answer: nothing, or the error's class and text."""

    number: int
    error: str | None = None
    message: str = ""
