"""The names of an ORC file's columns, from the end of the file (ORC specification, "File Tail").

Protocol buffers are walked only as far as the root type's field names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import lz4.block
import zstandard

from firn.model.errors import InvalidInput
from firn.storage import snappy

MAGIC: Final = b"ORC"

FOOTER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest decompressed footer."""

_CHUNK_HEADER_BYTES: Final = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
_FOOTER_LENGTH, _COMPRESSION = 1, 2  # fields of PostScript
_TYPES, _FIELD_NAMES = 4, 3  # fields of Footer and Type
_NONE, _ZLIB, _SNAPPY, _LZ4, _ZSTD = 0, 1, 2, 4, 5  # CompressionKind


def column_names(tail: bytes) -> list[str]:
    """Return the names of the top-level columns; `tail` is the end of the file, footer and postscript included.

    Raises InvalidInput when the tail is damaged, cut or compressed in an unknown way.
    """
    postscript_length = tail[-1] if tail else 0
    end = len(tail) - 1 - postscript_length
    if end < 0 or not tail[:-1].endswith(MAGIC):
        raise InvalidInput("it has no postscript")
    postscript = {number: value for number, value in _fields(tail[end:-1]) if isinstance(value, int)}
    length = postscript.get(_FOOTER_LENGTH, 0)
    if length > end:
        raise InvalidInput(f"its footer has {length} bytes, and {end} were read")
    footer = _decompressed(tail[end - length : end], postscript.get(_COMPRESSION, _NONE))
    root = next((value for number, value in _fields(footer) if number == _TYPES), None)
    if not isinstance(root, bytes):
        raise InvalidInput("its footer has no types")
    return [_text(value) for number, value in _fields(root) if number == _FIELD_NAMES]


def _text(value: int | bytes) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError as error:
        raise InvalidInput("a column's name is not UTF-8") from error


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message, number and value."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            length, at = _varint(message, at)
        if length is None or at + length > len(message):
            raise InvalidInput("its tail is cut, or is no protocol buffer")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise InvalidInput("its tail is cut, or is no protocol buffer")


def _decompressed(stored: bytes, codec: int) -> bytes:
    """Return the content of the chunks that a footer is stored in."""
    if codec == _NONE:
        return stored
    content, at = bytearray(), 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + _CHUNK_HEADER_BYTES], "little")
        at += _CHUNK_HEADER_BYTES
        chunk = stored[at : at + (header >> 1)]
        at += header >> 1
        content += chunk if header & 1 else _inflated(chunk, codec, bytes_max=FOOTER_BYTES_MAX - len(content))
        if len(content) >= FOOTER_BYTES_MAX:
            raise InvalidInput(f"its footer has more than {FOOTER_BYTES_MAX} bytes decompressed")
    return bytes(content)


def _inflated(chunk: bytes, codec: int, *, bytes_max: int) -> bytes:
    """Return at most `bytes_max` bytes of a chunk's content."""
    try:
        if codec == _ZLIB:
            return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(chunk, bytes_max)
        if codec == _SNAPPY:
            return snappy.decompress(chunk, bytes_max=bytes_max)
        if codec == _LZ4:
            return bytes(lz4.block.decompress(chunk, uncompressed_size=bytes_max))
        if codec == _ZSTD:
            return zstandard.ZstdDecompressor().stream_reader(chunk).read(bytes_max)
    except (zlib.error, zstandard.ZstdError, lz4.block.LZ4BlockError) as error:
        raise InvalidInput(f"its footer does not decompress: {error}") from error
    raise InvalidInput(f"its footer is compressed by codec {codec}, which is not known")
