"""Deletion vectors: which rows of one data file are deleted (Puffin specification, `deletion-vector-v1`).

The set is a 64-bit roaring bitmap. A blob frames its portable serialization as: length of magic + vector (4 bytes,
big-endian), magic, vector (little-endian), CRC-32 of magic + vector (4 bytes, big-endian).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Final

import msgspec
from pyroaring import BitMap64, FrozenBitMap64

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, InvalidInput

MAGIC: Final = b"\xd1\xd3\x39\x64"
FRAME_BYTES: Final = 12
"""Bytes around the vector: length, magic and CRC."""

KEY_MAX: Final = 2**31 - 1
"""Largest upper half of a position that is read: positions are positive 64-bit integers."""

POSITION_MAX: Final = (2**31 - 2 << 32) | 0x8000_0000
"""Largest position that is written: the Java library cannot hold a larger one, though the format could."""

BLOB_BYTES_MAX: Final = 2**31 - 1
"""Largest blob, in bytes, that is read or written: its length field is a signed 32-bit integer."""

REFERENCED_DATA_FILE: Final = "referenced-data-file"
CARDINALITY: Final = "cardinality"

_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_BIG_U32: Final = Struct(">I")

# The 32-bit roaring format: https://github.com/RoaringBitmap/RoaringFormatSpec
_COOKIE_PLAIN: Final = 12346
_COOKIE_WITH_RUNS: Final = 12347
_OFFSETS_FROM_CONTAINERS: Final = 4
_ARRAY_CARDINALITY_MAX: Final = 4096
_BITSET_BYTES: Final = 8192
_CONTAINERS_MAX: Final = 65536


class DeletionVector(msgspec.Struct, frozen=True):
    """An immutable set of 0-based row positions; compares by value."""

    bitmap: FrozenBitMap64

    @classmethod
    def of(cls, positions: Iterable[int]) -> DeletionVector:
        """The vector of `positions`, in any order, repeats allowed; InvalidInput outside 0..POSITION_MAX."""
        try:
            bitmap = FrozenBitMap64(positions)
        except (OverflowError, TypeError) as refusal:
            raise InvalidInput(f"a row position is an integer from 0 to {POSITION_MAX}: {refusal}") from refusal
        return cls._checked(bitmap)

    @classmethod
    def of_range(cls, *, start: int, stop: int) -> DeletionVector:
        """The vector of `start` up to, not including, `stop`; InvalidInput if stop comes before start."""
        if not 0 <= start <= stop <= POSITION_MAX + 1:
            raise InvalidInput(f"start position must not exceed end position, nor {POSITION_MAX}: [{start}, {stop})")
        bitmap = BitMap64()
        bitmap.add_range(start, stop)
        return cls(FrozenBitMap64(bitmap))

    @classmethod
    def _checked(cls, bitmap: FrozenBitMap64) -> DeletionVector:
        if bitmap and bitmap.max() > POSITION_MAX:
            raise InvalidInput(f"row position {bitmap.max()} is larger than {POSITION_MAX}")
        return cls(bitmap)

    @property
    def cardinality(self) -> int:
        """Number of deleted rows; the record count of a deletion vector's manifest entry."""
        return len(self.bitmap)

    def __contains__(self, position: object) -> bool:
        return isinstance(position, int) and 0 <= position <= POSITION_MAX and position in self.bitmap

    def __iter__(self) -> Iterator[int]:
        return iter(self.bitmap)

    def __bool__(self) -> bool:
        return bool(self.bitmap)

    def union(self, *others: DeletionVector) -> DeletionVector:
        """Rows deleted by this vector or by any other: how a new vector absorbs the earlier deletes of its file."""
        merged = BitMap64(self.bitmap)
        for other in others:
            merged |= other.bitmap
        return DeletionVector(FrozenBitMap64(merged))

    def added_by(self, newer: DeletionVector) -> int:
        """Number of rows that `newer` deletes and this vector does not."""
        return newer.bitmap.difference_cardinality(self.bitmap)

    def positions_in(self, *, start: int, stop: int) -> list[int]:
        """Ascending deleted positions in [start, stop), for applying a vector to one batch of rows."""
        window = BitMap64()
        window.add_range(start, stop)
        return list(self.bitmap & window)

    def to_blob(self) -> bytes:
        """The framed blob, run-length encoded where that is smaller, as the Java library writes it."""
        bitmap = BitMap64(self.bitmap)
        bitmap.run_optimize()
        checked = MAGIC + bitmap.serialize()
        if len(checked) > BLOB_BYTES_MAX - 8:
            raise InvalidInput(f"a deletion vector of {len(checked)} bytes is larger than {BLOB_BYTES_MAX - 8}")
        return _BIG_U32.pack(len(checked)) + checked + _BIG_U32.pack(zlib.crc32(checked))

    def blob_properties(self, data_file: str) -> dict[str, str]:
        """The properties that the specification requires in the blob's metadata; `data_file` is its location."""
        return {REFERENCED_DATA_FILE: data_file, CARDINALITY: str(self.cardinality)}


def from_blob(blob: bytes, *, location: str, cardinality: int | None = None) -> DeletionVector:
    """The vector in a framed blob.

    `location` names it in errors; `cardinality` is the record count that its manifest entry states, None if not
    known. Raises CorruptFile naming the check that failed: length, magic, CRC, structure or cardinality.
    """
    if not FRAME_BYTES + _U64.size <= len(blob) <= BLOB_BYTES_MAX:
        raise CorruptFile(location, f"a deletion vector of {len(blob)} bytes is too short or too long")
    (stated,) = _BIG_U32.unpack_from(blob)
    if stated != len(blob) - 8:
        raise CorruptFile(location, f"deletion vector length {stated} does not match its blob of {len(blob)} bytes")
    if blob[4:8] != MAGIC:
        raise CorruptFile(location, f"deletion vector magic {blob[4:8].hex()}, expected {MAGIC.hex()}")
    crc = zlib.crc32(memoryview(blob)[4:-4])
    (expected,) = _BIG_U32.unpack_from(blob, len(blob) - 4)
    if crc != expected:
        raise CorruptFile(location, f"deletion vector CRC 0x{crc:08x}, expected 0x{expected:08x}")
    vector = from_roaring(blob[8:-4], location=location)
    if cardinality is not None and vector.cardinality != cardinality:
        raise CorruptFile(location, f"deletion vector holds {vector.cardinality} positions, expected {cardinality}")
    return vector


def from_roaring(data: bytes, *, location: str) -> DeletionVector:
    """The vector in a bare portable 64-bit roaring serialization; CorruptFile as in `from_blob`."""
    _check_keys(data, location=location)
    try:
        return DeletionVector(FrozenBitMap64.deserialize(data))
    except ValueError as refusal:
        raise CorruptFile(location, f"deletion vector is not a roaring bitmap: {refusal}") from refusal


def _check_keys(data: bytes, *, location: str) -> None:
    """Walk the 32-bit bitmaps: keys ascending and positive, no bytes missing or left over.

    The bitmap library checks what is inside each bitmap, but reads past nothing else.
    """
    try:
        (count,) = _U64.unpack_from(data)
        if count > len(data) // 12:  # a key and an empty bitmap take 12 bytes
            raise CorruptFile(location, f"deletion vector states {count} bitmaps in {len(data)} bytes")
        at, previous = 8, -1
        for _ in range(count):
            (key,) = _U32.unpack_from(data, at)
            if key > KEY_MAX:
                raise CorruptFile(location, f"deletion vector key {key} is larger than {KEY_MAX}")
            if key <= previous:
                raise CorruptFile(location, f"deletion vector key {key} comes after {previous}")
            previous = key
            at = _bitmap32_end(data, at + 4, location=location)
    except error as short:
        raise CorruptFile(location, "deletion vector ends inside a bitmap") from short
    if at != len(data):
        raise CorruptFile(location, f"deletion vector bitmaps end at byte {at} of {len(data)}")


def _bitmap32_end(data: bytes, start: int, *, location: str) -> int:
    """Where the 32-bit roaring bitmap that starts at `start` ends; struct.error if the data ends before."""
    (cookie,) = _U32.unpack_from(data, start)
    at: int = start + 4
    runs = b""
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    elif cookie == _COOKIE_PLAIN:
        (count,) = _U32.unpack_from(data, at)
        at += 4
    else:
        raise CorruptFile(location, f"deletion vector bitmap starts with unknown cookie {cookie}")
    if count > _CONTAINERS_MAX:
        raise CorruptFile(location, f"deletion vector bitmap states {plural(count, 'container')}")
    headers = at
    at += 4 * count
    if not runs or count >= _OFFSETS_FROM_CONTAINERS:
        at += 4 * count
    if at > len(data) or len(runs) != (count + 7) // 8 * bool(runs):
        raise error
    for index in range(count):
        if runs and runs[index // 8] >> index % 8 & 1:
            (run_count,) = _U16.unpack_from(data, at)
            at += 2 + 4 * run_count
        else:
            cardinality = _U16.unpack_from(data, headers + 4 * index + 2)[0] + 1
            at += 2 * cardinality if cardinality <= _ARRAY_CARDINALITY_MAX else _BITSET_BYTES
    return at
