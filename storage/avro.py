"""Avro container files, read with every size and count checked and written the same for the same content.

Avro has no checksum and no end mark, and a few bytes can stand for gigabytes. So the container (header, blocks, sync
markers) is walked here, blocks are decompressed within limits, each must hold exactly the records that it
announces, and only then does fastavro decode them, under a schema that `firn.storage.avro_schema` has checked. A file
that ends early at the end of a block is valid Avro: whoever reads compares counts with what refers to the file.

What firn writes is sealed: the sync marker is a digest of all else, and a value in the header says so. Other readers
pass over both; here a file that says it is sealed and is not, by as little as one bit, is refused.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Literal, cast, get_args

import fastavro
import msgspec
import zstandard
from isal import igzip_lib, isal_zlib

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput
from firn.storage import snappy
from firn.storage.avro_numbers import LONGS, encode_long
from firn.storage.avro_schema import BLOCK_FIELD, AvroSchema, compile_schema

Codec = Literal["null", "deflate", "zstandard", "snappy"]

_CODECS: Final[Mapping[str, Codec]] = {name: name for name in get_args(Codec)}

TextErrors = Literal["strict", "surrogateescape"]
"""What becomes of a text that is no UTF-8: an error, or `decode_block`'s stand-ins for its bytes."""

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16

SEAL_KEY: Final = "firn.seal"
SEAL: Final = b"blake2b-128"
"""What the sync marker of a sealed file is."""

HEADER_KEYS_MAX: Final = 1000
HEADER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of keys and values in a header; a manifest's carries the table schema."""

BLOCK_BYTES_MAX: Final = 64 * 1024 * 1024
"""Decompressed size of one block."""

METERED_BYTES: Final = 1024 * 1024
"""Larger blocks are decoded with their values counted. Of smaller ones, which all writers make, no count is needed."""

BLOCK_READS_MAX: Final = 16_000_000
"""Pieces that are read of one large block; a manifest list's record is about sixty."""

DEFLATE_LEVEL: Final = 1
"""ISA-L's level 1 makes manifests 3 % larger than zlib's does, in a fifteenth of the time; 2 and 3 bring nothing."""

SMALL_BYTES: Final = 4096
"""Up to here level 0, which leaves a third more in a fifth of the time: level 1 has tables to clear first."""

DEFLATE_TRAILER_BYTES_MAX: Final = 4
"""Bytes allowed behind deflated data: Python's Avro writers leave most of zlib's checksum there."""

_DECODE_ERRORS: Final = (EOFError, ValueError, LookupError, OverflowError, TypeError, RecursionError, struct.error)
"""What fastavro raises over bytes that are not what the schema says; UnicodeDecodeError is a ValueError."""


_INFLATE_ERRORS: Final[tuple[type[Exception], ...]] = (
    InvalidInput,
    zlib.error,
    cast("type[Exception]", igzip_lib.IsalError),
    zstandard.ZstdError,
    EOFError,
)


class _Metered(io.BytesIO):
    """Bytes of which only so many pieces are read: a large block may be made of values that take a byte each.

    Because it is Python's, other threads run between two reads.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._left = BLOCK_READS_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {BLOCK_READS_MAX} numbers and texts in one block")
        return super().read(size)


class AvroLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one file may hold: its size and its decompressed size in bytes, and its records."""

    file_bytes_max: int = 256 * 1024 * 1024
    decompressed_bytes_max: int = 512 * 1024 * 1024
    records_max: int = 2_000_000
    small_bytes: int = 16 * 1024 * 1024
    ratio_max: int = 128
    """Beyond `small_bytes` a file may be so many times as large decompressed. Entries of a thousand columns without a
    value are sixty times as large, a bomb a thousand times."""

    def content_bytes_max(self, *, stored: int) -> int:
        """How large the content of a file of `stored` bytes may be, all blocks together."""
        return min(self.decompressed_bytes_max, self.small_bytes + self.ratio_max * stored)


DEFAULT_LIMITS: Final = AvroLimits()


class Block(msgspec.Struct, frozen=True):
    """One block as stored: how many records, and where its compressed bytes are."""

    count: int
    start: int
    end: int


class AvroFile(msgspec.Struct, frozen=True, kw_only=True):
    """A container whose structure has been checked; its blocks have not been decompressed yet."""

    location: str
    data: bytes
    codec: Codec
    metadata: Mapping[str, bytes]
    header_bytes: int
    """Size of the header without the sync marker behind it."""
    schema: AvroSchema
    blocks: tuple[Block, ...]
    limits: AvroLimits = DEFAULT_LIMITS

    @property
    def record_count(self) -> int:
        """Records that the blocks announce."""
        return sum(block.count for block in self.blocks)

    def text(self, key: str) -> str | None:
        """A header value as text, None when it is missing. Raises CorruptFile when it is not UTF-8."""
        value = self.metadata.get(key)
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise CorruptFile(self.location, f"header value {key} is not UTF-8") from None

    def integer(self, key: str) -> int | None:
        """A header value as an integer, None when it is missing. Raises CorruptFile when it is something else."""
        value = self.text(key)
        if value is None:
            return None
        if not value.isascii() or len(value) > 20 or not value.removeprefix("-").isdecimal():
            raise CorruptFile(self.location, f"header value {key} is not a number: {value[:40]!r}")
        return int(value)

    def read_contents(self) -> Iterator[tuple[int, bytes]]:
        """The blocks decompressed: how many records each announces, and their bytes. Raises CorruptFile."""
        budget = self.limits.content_bytes_max(stored=len(self.data))
        for index, block in enumerate(self.blocks):
            where = f"block {index}"
            try:
                content = _decompress(
                    self.codec, self.data[block.start : block.end], bytes_max=min(budget, BLOCK_BYTES_MAX)
                )
            except _INFLATE_ERRORS as exc:
                raise CorruptFile(self.location, f"{where}: {self.codec}: {exc}") from None
            budget -= len(content)
            if block.count * self.schema.root.width > len(content):
                raise CorruptFile(self.location, f"{where}: {plural(block.count, 'record')} in {len(content)} bytes")
            yield block.count, content

    def read_blocks(self, *, text_errors: TextErrors = "strict") -> Iterator[list[dict[str, Any]]]:
        """The records, a list per block, with fields called ``f<field id>``. Raises CorruptFile."""
        for index, (count, content) in enumerate(self.read_contents()):
            try:
                yield decode_block(self.schema, content, count, text_errors=text_errors)
            except _DECODE_ERRORS as exc:
                raise CorruptFile(self.location, f"block {index}: {type(exc).__name__}: {exc}") from None


def open_avro(data: bytes, *, location: str, limits: AvroLimits = DEFAULT_LIMITS) -> AvroFile:
    """Check a container file: header, schema, blocks and sync markers up to the last byte, and the seal if it has one.

    `location` is for errors. Raises CorruptFile for what is broken or over a limit.
    """
    if len(data) > limits.file_bytes_max:
        raise CorruptFile(location, f"{len(data)} bytes, over {limits.file_bytes_max}")
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFile(location, "not an Avro file")
    try:
        metadata, at = _read_header(data, len(MAGIC))
        named = metadata.get("avro.codec", b"null").decode()
        codec = _CODECS.get(named)
        if codec is None:
            raise InvalidInput(f"unknown codec {named[:40]!r}", where="avro.codec")
        schema = compile_schema(metadata.get("avro.schema", b""))
        sync = data[at : at + SYNC_BYTES]
        if len(sync) < SYNC_BYTES:
            raise InvalidInput("cut inside the header")
        blocks = tuple(_scan_blocks(data, at + SYNC_BYTES, sync=sync, records_max=limits.records_max))
    except (InvalidInput, UnicodeDecodeError) as exc:
        raise CorruptFile(location, str(exc)) from None
    file = AvroFile(
        location=location, data=data, codec=codec, metadata=metadata, header_bytes=at, schema=schema, blocks=blocks,
        limits=limits,
    )  # fmt: skip
    if metadata.get(SEAL_KEY) == SEAL and not is_sealed(file):
        raise CorruptFile(location, "its bytes are not those that firn wrote: it was damaged, or edited")
    return file


def encode_block(schema: AvroSchema, records: Sequence[Mapping[str, Any]]) -> bytes:
    """The datum bytes of `records`, whose fields are called ``f<field id>``.

    A value of an optional field is fastest as ``(kind, value)``. Raises InvalidInput for values that do not fit.
    """
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, schema.block, {BLOCK_FIELD: records})
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError, struct.error) as exc:
        raise InvalidInput(f"a value that its Avro type does not hold: {exc}") from None
    return out.getvalue()[len(encode_long(len(records))) : -1] if records else b""


def write_avro(
    schema: bytes,
    blocks: Iterable[tuple[int, bytes]],
    *,
    metadata: Mapping[str, str],
    codec: Codec = "deflate",
) -> bytes:
    """A container of `blocks`, each a record count and its content compressed with `compress`.

    `schema` is the JSON for the header. The sync marker is a digest of the content, so that the same entries give the
    same bytes and a reader that resynchronises cannot be fooled by another file's blocks.
    """
    return write_blocks(header_of(schema, metadata=metadata, codec=codec), blocks)


class Header(msgspec.Struct, frozen=True, eq=False):
    """What a container begins with, up to its sync marker, and the digest so far: many files begin alike."""

    text: bytes
    digest: Any


def header_of(schema: bytes, *, metadata: Mapping[str, str], codec: Codec = "deflate") -> Header:
    """The header of files with this schema and codec, and whatever else it is to say."""
    begun = _begun(schema, codec, len(metadata) + 3)
    values = [(key.encode(), value.encode()) for key, value in metadata.items()]
    rest = b"".join((*(_header_value(key, value) for key, value in values), _SEAL_VALUE, b"\x00"))
    digest = begun.digest.copy()
    digest.update(rest)
    return Header(begun.text + rest, digest)


@lru_cache(maxsize=64)
def _begun(schema: bytes, codec: Codec, values: int) -> Header:
    """A header as far as it depends on nothing but how many values it has, and these."""
    text = b"".join((
        MAGIC, encode_long(values), _header_value(b"avro.schema", schema), _header_value(b"avro.codec", codec.encode()),
    ))  # fmt: skip
    return Header(text, blake2b(text, digest_size=SYNC_BYTES))


def _header_value(key: bytes, value: bytes) -> bytes:
    return b"".join((LONGS[len(key)], key, LONGS[len(value)], value))


_SEAL_VALUE: Final = _header_value(SEAL_KEY.encode(), SEAL)


def write_blocks(header: Header, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """As `write_avro`, of a header that may have begun other files."""
    bodies = [(LONGS[count] + LONGS[len(content)], content) for count, content in blocks]
    sync = _sealed(header.digest.copy(), bodies)
    parts = [header.text, sync]
    for prefix, content in bodies:
        parts += (prefix, content, sync)
    return b"".join(parts)


def is_sealed(file: AvroFile) -> bool:
    """Whether the sync marker is what `write_avro` makes of the content: then firn wrote it, and it is as it was."""
    data, at = memoryview(file.data), file.header_bytes
    bodies = [
        (encode_long(block.count) + encode_long(block.end - block.start), data[block.start : block.end])
        for block in file.blocks
    ]
    return _sealed(blake2b(data[:at], digest_size=SYNC_BYTES), bodies) == data[at : at + SYNC_BYTES]


def _sealed(digest: Any, bodies: Iterable[tuple[bytes, bytes | memoryview]]) -> bytes:
    """The sync marker behind a header of this digest, which is used up."""
    for prefix, content in bodies:
        digest.update(prefix)
        digest.update(content)
    return bytes(digest.digest())


def compress(content: bytes, *, codec: Codec, level: int | None = None) -> bytes:
    """A block's stored form. `level` is the codec's own, None for its default here.

    Raises InvalidInput for codecs that firn only reads.
    """
    match codec:
        case "null":
            return content
        case "deflate" if level is None or 0 <= level <= 3:
            usual = DEFLATE_LEVEL if len(content) > SMALL_BYTES else 0
            return bytes(isal_zlib.compress(content, usual if level is None else level, -zlib.MAX_WBITS))
        case "deflate":
            return zlib.compress(content, level if level is not None else -1, -zlib.MAX_WBITS)
        case "zstandard":
            return zstandard.ZstdCompressor(level=3 if level is None else level).compress(content)
    raise InvalidInput(f"cannot write codec {codec!r}", where="codec")


def inflate(stored: bytes, *, location: str) -> bytes:
    """What a deflated block holds; `location` is for errors. Raises CorruptFile."""
    try:
        return _decompress("deflate", stored, bytes_max=BLOCK_BYTES_MAX)
    except _INFLATE_ERRORS as exc:
        raise CorruptFile(location, f"a block: deflate: {exc}") from None


def _decompress(codec: Codec, stored: bytes, *, bytes_max: int) -> bytes:
    match codec:
        case "null":
            content = stored
        case "deflate":
            inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)
            content = bytes(inflater.decompress(stored, bytes_max + 1))
            if len(content) <= bytes_max and (
                not inflater.eof or len(inflater.unused_data) > DEFLATE_TRAILER_BYTES_MAX
            ):
                raise InvalidInput("the compressed data does not end where the block does")
        case "zstandard":
            reader = zstandard.ZstdDecompressor(max_window_size=BLOCK_BYTES_MAX * 2).stream_reader(stored)
            content = reader.read(bytes_max + 1)
        case "snappy":
            if len(stored) < 4:
                raise InvalidInput("no checksum")
            content = snappy.decompress(stored[:-4], bytes_max=bytes_max)
            if zlib.crc32(content) != int.from_bytes(stored[-4:], "big"):
                raise InvalidInput("wrong checksum")
    if len(content) > bytes_max:
        raise InvalidInput(f"more than {bytes_max} bytes when decompressed")
    return content


def decode_block(
    schema: AvroSchema, content: bytes, count: int, *, text_errors: TextErrors = "strict"
) -> list[dict[str, Any]]:
    """The records of a block's decompressed content, which must hold exactly `count`.

    With ``surrogateescape`` the bytes of a text that are no UTF-8 are lone surrogates, as Python's codecs make them.
    Raises whatever fastavro raises over bytes that are not what the schema says.
    """
    if count == 0:
        if content:
            raise ValueError(f"{len(content)} bytes for no records")
        return []
    datum = b"".join((encode_long(count), content, b"\x00"))
    source = io.BytesIO(datum) if len(datum) <= METERED_BYTES else _Metered(datum)
    decoded = fastavro.schemaless_reader(source, schema.block, None, handle_unicode_errors=text_errors)
    if source.read(1):
        raise ValueError("bytes are left over behind the last record")
    if not isinstance(decoded, dict):
        raise TypeError(type(decoded).__name__)
    records: list[dict[str, Any]] = decoded[BLOCK_FIELD]
    if len(records) != count:  # a record that ended in the final zero left that for the array to go on
        raise ValueError(f"{plural(len(records), 'record')} instead of {count}")
    return records


def decode_record(schema: AvroSchema, content: bytes, *, text_errors: TextErrors = "strict") -> dict[str, Any]:
    """The one record that these bytes are, its fields called ``f<field id>``. Raises InvalidInput."""
    try:
        (record,) = decode_block(schema, content, 1, text_errors=text_errors)
    except _DECODE_ERRORS as error:
        raise InvalidInput(f"{type(error).__name__}: {error}") from None
    return record


def _read_header(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    while True:
        count, at = _read_long(data, at)
        if count == 0:
            return metadata, at
        if count < 0:  # the negative form says the block's size in bytes as well
            count = -count
            _, at = _read_long(data, at)
        if len(metadata) + count > HEADER_KEYS_MAX:
            raise InvalidInput(f"more than {HEADER_KEYS_MAX} header values")
        for _ in range(count):
            key, at = _read_bytes(data, at)
            value, at = _read_bytes(data, at)
            metadata[key.decode()] = value
        if at > HEADER_BYTES_MAX:
            raise InvalidInput(f"a header over {HEADER_BYTES_MAX} bytes")


def _scan_blocks(data: bytes, at: int, *, sync: bytes, records_max: int) -> Iterator[Block]:
    records = 0
    while at < len(data):
        count, at = _read_long(data, at)
        size, at = _read_long(data, at)
        if count < 0 or size < 0 or at + size + SYNC_BYTES > len(data):
            raise InvalidInput("cut inside a block, or a block of impossible size")
        records += count
        if records > records_max:
            raise InvalidInput(f"more than {records_max} records")
        end = at + size
        if data[end : end + SYNC_BYTES] != sync:
            raise InvalidInput("wrong sync marker behind a block")
        yield Block(count, at, end)
        at = end + SYNC_BYTES


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_long(data, at)
    if size < 0 or at + size > len(data):
        raise InvalidInput("cut inside the header")
    return data[at : at + size], at + size


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    """An Avro long (zigzag, little groups of seven bits first) and the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise InvalidInput("cut inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise InvalidInput("a number of more than ten bytes")
