"""What a file holds that has texts in common with the one before it, which are only appended to: they are not copied
again.

Such a text is where it was in the last file, or a whole file is written. So what stands between two of them ends with
spaces, as many as there is room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

import msgspec


class GrowingText:
    """The identity of a text that is only appended to: of two states of it, the longer continues the other."""

    __slots__ = ("__weakref__",)


class Stretch(msgspec.Struct, frozen=True, eq=False):
    """Where a growing text, as far as it went, is in a file: `size` bytes from `start` on."""

    text: GrowingText
    start: int
    size: int

    @property
    def end(self) -> int:
        """Behind its last byte."""
        return self.start + self.size

    def continues(self, older: Stretch) -> bool:
        """Whether this is the same text at the same place, and maybe more of it."""
        return self.text is older.text and self.start == older.start and self.size >= older.size


class GrownContent(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a file that begins with a growing text, and may have another behind that, after so many `spaces`.

    `stretches` are these texts, none where they are too short to be gone on from; `pieces` all of the file, both in
    order.
    """

    stretches: tuple[Stretch, ...]
    pieces: tuple[bytes, ...]
    spaces: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def continued(self, older: Sequence[Stretch]) -> tuple[Stretch, ...]:
        """Those of an older file's stretches, from the first on, that this file goes on from."""
        pairs = takewhile(lambda pair: pair[1].continues(pair[0]), zip(older, self.stretches, strict=False))
        return tuple(stretch for stretch, _ in pairs)

    def rest(self, known: Sequence[Stretch]) -> list[tuple[int, list[bytes | memoryview]]]:
        """What is to be written to a file with the stretches `known` and spaces between them: places and pieces."""
        ends = (*(stretch.start - self.spaces for stretch in self.stretches[1 : len(known)]), len(self))
        return [(old.end, list(self._between(old.end, end))) for old, end in zip(known, ends, strict=True)]

    def _between(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        at = 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, len(piece))
            if first < last:
                yield piece if last - first == len(piece) else memoryview(piece)[first:last]
            at += len(piece)


Content: TypeAlias = bytes | GrownContent
"""What is to be written to a file."""


def pieces_of(content: Content) -> tuple[bytes, ...]:
    """The content in pieces, in order."""
    return content.pieces if isinstance(content, GrownContent) else (content,)
