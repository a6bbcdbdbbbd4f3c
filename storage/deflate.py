"""Deflate without compressing (RFC 1951, 3.2.4): making a compressor first would take longer than the copy."""

from __future__ import annotations

from typing import Final

STORED_BYTES_MAX: Final = 0xFFFF
"""Bytes of one stored block: two bytes say how many there are."""

_LAST: Final = b"\x01"
_MORE: Final = b"\x00"


def stored_blocks(content: bytes) -> bytes:
    """Content as deflate has what is not worth compressing: as it is, behind five bytes for every 64 kB."""
    if len(content) <= STORED_BYTES_MAX:
        return b"".join((_LAST, _sizes(len(content)), content))
    *starts, last = range(0, len(content), STORED_BYTES_MAX)
    parts: list[bytes] = []
    for start in starts:
        parts += (_MORE, _sizes(STORED_BYTES_MAX), content[start : start + STORED_BYTES_MAX])
    return b"".join((*parts, _LAST, _sizes(len(content) - last), content[last:]))


def behind_stored(content: bytes, deflated: bytes) -> bytes:
    """What is deflated, behind content that is stored as it is: one stream of both. Content of one block only.

    What is deflated refers back to its own content, by distances, so that anything may come before it.
    """
    return b"".join((_MORE, _sizes(len(content)), content, deflated))


def _sizes(count: int) -> bytes:
    """How many bytes there are, and the same with each bit turned over."""
    return (count | (count ^ STORED_BYTES_MAX) << 16).to_bytes(4, "little")
