"""The raw Snappy format, decompression only: some writers compress Avro files with it.

Written out here because a wheel for it is large and manifests in Snappy are rare. Output is bounded before a byte of
it is made.
"""

from __future__ import annotations

from firn.model.errors import InvalidInput


def decompress(data: bytes, *, bytes_max: int) -> bytes:
    """The content of one raw Snappy stream. Raises InvalidInput when it is malformed or larger than `bytes_max`."""
    size, at = _length(data)
    if size > bytes_max:
        raise InvalidInput(f"{size} bytes of Snappy content, over {bytes_max}")
    out = bytearray()
    end = len(data)
    while at < end:
        tag = data[at]
        at += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:  # 61 to 64 say how many bytes the length takes
                width = length - 60
                length = int.from_bytes(data[at : at + width], "little") + 1
                at += width
            if at + length > end:
                raise InvalidInput("a Snappy literal past the end")
            out += data[at : at + length]
            at += length
        else:
            at = _copy(data, at, tag=tag, out=out)
        if len(out) > size:
            raise InvalidInput("more Snappy content than its header says")
    if len(out) != size:
        raise InvalidInput(f"{len(out)} bytes of Snappy content instead of {size}")
    return bytes(out)


def _length(data: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, at + 1
    raise InvalidInput("a Snappy stream without a length")


def _copy(data: bytes, at: int, *, tag: int, out: bytearray) -> int:
    """Append one back reference to `out`; gives the position behind it."""
    kind = tag & 3
    width = {1: 1, 2: 2, 3: 4}[kind]
    offset = int.from_bytes(data[at : at + width], "little")
    length = (tag >> 2) + 1
    if kind == 1:
        length = ((tag >> 2) & 7) + 4
        offset |= (tag >> 5) << 8
    if at + width > len(data) or not 0 < offset <= len(out):
        raise InvalidInput("a Snappy copy from before the start")
    start = len(out) - offset
    if offset >= length:
        out += out[start : start + length]
    else:  # the copy runs into what it writes: a repeated pattern
        pattern = bytes(out[start:])
        out += (pattern * (length // offset + 1))[:length]
    return at + width
