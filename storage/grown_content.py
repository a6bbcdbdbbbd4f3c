"""What a file holds that begins as the one before it did, in pieces: what is only appended to is not copied again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

import msgspec


class Beginning:
    """The identity of a text that is only appended to: of two that have the same, the longer continues the other."""

    __slots__ = ("__weakref__",)


class GrownContent(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a file, whose first `begun_bytes` are of a text that is appended to.

    `pieces` are all of it, in order.
    """

    beginning: Beginning
    begun_bytes: int
    pieces: tuple[bytes, ...]

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def behind(self, start: int) -> Iterator[bytes | memoryview]:
        """All but the first `start` bytes, in pieces."""
        for piece, end in zip(self.pieces, accumulate(map(len, self.pieces)), strict=True):
            if end - len(piece) >= start:
                yield piece
            elif end > start:
                yield memoryview(piece)[len(piece) - (end - start) :]


Content: TypeAlias = bytes | GrownContent
"""What is to be written to a file."""


def pieces_of(content: Content) -> tuple[bytes, ...]:
    """The content in pieces, in order."""
    return content.pieces if isinstance(content, GrownContent) else (content,)
