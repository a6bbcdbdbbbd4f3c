"""A text that is only appended to, compressed once: files that begin with it take over what is compressed already.

A file is one gzip member, because some readers stop after the first: the deflate blocks of the text, then those of what
follows it, then length and checksum of both. What is compressed of the text ends at a byte that no later text changes,
so the next file begins with the very bytes of the last one (`firn.storage.grown_content`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

from isal import isal_zlib

from firn.storage.content_digests import begun_digest, digest_of_parts
from firn.storage.grown_content import GrowingText, GrownContent, Stretch

HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""Of a gzip member: deflate, no time, no name."""

FAST_LEVEL: Final = 1
"""ISA-L's, for what is compressed anew with each file: a fraction of zlib's time, a tenth more bytes."""

LEVEL: Final = 4
"""zlib's, for what is appended: a kilobyte at a time, against the window of what is before it."""

WINDOW_BYTES: Final = 32 * 1024
"""How far back a match may reach."""

PENDING_BYTES_MAX: Final = 16 * 1024
"""Text that zlib may hold back before its block is ended: until then each file ends the block on a copy."""

STATE_BYTES: Final = 300 * 1024
"""What zlib's state takes in memory."""

STRETCH_BYTES_MIN: Final = 32 * 1024
"""Compressed bytes from which on the next file goes on from the last one; fewer are written anew as fast."""

PIECE_BYTES_MAX: Final = 64 * 1024
"""Bytes of a piece up to which what follows is joined to it."""


class DeflatedText:
    """The text of `items`, compressed; more may be appended. For one thread at a time."""

    def __init__(self, items: Sequence[Any], text: bytes) -> None:
        self.items = items
        self._identity = GrowingText()
        first = isal_zlib.compressobj(level=FAST_LEVEL, wbits=-zlib.MAX_WBITS)
        begun = HEADER + first.compress(text) + first.flush(isal_zlib.Z_SYNC_FLUSH)
        self._pieces: list[bytes] = [begun]
        self._digest = begun_digest(begun)
        self._stable = len(begun)
        self._crc, self._length = isal_zlib.crc32(text), len(text)
        self._deflate = zlib.compressobj(
            LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_DEFAULT_STRATEGY, text[-WINDOW_BYTES:]
        )
        self._pending = 0

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about."""
        return self._stable + STATE_BYTES

    def append(self, items: Sequence[Any], more: bytes) -> None:
        """Go on with `more` text, with which it is the text of `items`."""
        self.items = items
        if not more:
            return
        self._crc, self._length = isal_zlib.crc32(more, self._crc), self._length + len(more)
        self._pending += len(more)
        made = self._deflate.compress(more)
        if self._pending > PENDING_BYTES_MAX:
            made += self._deflate.flush(zlib.Z_SYNC_FLUSH)
            self._pending = 0
        self._put(made)

    def _put(self, made: bytes) -> None:
        if not made:
            return
        last = self._pieces[-1]
        if len(last) + len(made) <= PIECE_BYTES_MAX:
            self._pieces[-1] = last + made
        else:
            self._pieces.append(made)
        self._digest.update(made)
        self._stable += len(made)

    def followed_by(self, end: bytes) -> tuple[GrownContent, str]:
        """Return the content of a file of this text and `end`, with its digest."""
        tail = self._deflate.copy().flush(zlib.Z_SYNC_FLUSH) if self._pending else b""
        last = isal_zlib.compressobj(level=FAST_LEVEL, wbits=-zlib.MAX_WBITS)
        length = (self._length + len(end)) & 0xFFFFFFFF
        trailer = isal_zlib.crc32(end, self._crc).to_bytes(4, "little") + length.to_bytes(4, "little")
        rest = tail + last.compress(end) + last.flush() + trailer
        digest = digest_of_parts([(self._stable, self._digest), (len(rest), begun_digest(rest))])
        is_long = self._stable >= STRETCH_BYTES_MIN
        stretches = (Stretch(self._identity, 0, self._stable),) if is_long else ()
        return GrownContent(stretches, (*self._pieces, rest)), digest
