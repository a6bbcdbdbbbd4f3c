"""Manifest entries as the bytes of their Avro records: written by hand, because a general encoder takes ten times as
long, and in pieces, so that what a file is need not be encoded again when its status and numbers change.

The layout is that of `firn.storage.manifest_schema` for the format version: the entry's status and numbers, then the
data file, in whose middle (v3) its first row id stands.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from firn.model.amounts import plural
from firn.model.datafile import CONTENT_CODES, DataFile
from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue, is_single
from firn.model.internal_values import check_value, decimal_width, unscaled_of
from firn.model.types import (
    BINARY,
    DATE,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    UNKNOWN,
    DecimalType,
    FixedType,
    PrimitiveType,
    StructType,
    Type,
)
from firn.storage.avro_numbers import LONGS, encode_long
from firn.storage.column_maps import EMPTY, NULL, SOME, columns_of, encode_int, encode_list
from firn.storage.encoded_metrics import with_metrics
from firn.storage.manifest_schema import BLOCK_SIZE_DEFAULT

FileBytes = tuple[bytes, bytes]
"""A data file's record before and behind its first row id; nothing is behind it before v3."""

_ENCODE_ERRORS: Final = (TypeError, ValueError, AttributeError, OverflowError, struct.error)

_CONTENTS: Final = {content: LONGS[code] for content, code in CONTENT_CODES.items()}
_FORMATS: Final = {  # as Java spells it; PyIceberg compares the text
    name: LONGS[len(name)] + name.upper().encode() for name in ("avro", "orc", "parquet", "puffin")
}
_BLOCK_SIZE: Final = encode_long(BLOCK_SIZE_DEFAULT)
_WIDER: Final[Mapping[Type, Type]] = {INT: LONG, DATE: LONG, FLOAT: DOUBLE, STRING: BINARY}
"""The type that holds the values of another where both stand beside each other (`firn.model.foreign_value`)."""

_PARTITIONS_CACHED_MAX: Final = 10_000

_long = LONGS.__getitem__


class EntryEncoder:
    """Encodes entries for one format version and partition type."""

    def __init__(self, partition_type: StructType, *, format_version: int) -> None:
        self._partition = PartitionBytes(partition_type)
        self._version = format_version

    def file(self, file: DataFile) -> FileBytes:
        """The file's part of an entry, without its first row id.

        Raises InvalidInput naming the file for a value that its Avro type does not hold.
        """
        try:
            return self._file(file)
        except InvalidInput as error:
            raise InvalidInput(str(error), where=file.file_path) from None
        except _ENCODE_ERRORS as error:
            raise InvalidInput(f"a value that its Avro type does not hold: {error}", where=file.file_path) from None

    def _file(self, file: DataFile) -> FileBytes:
        version = self._version
        if version == 1 and file.encoded is not None:
            file = with_metrics(file)
        path = file.file_path.encode()
        referenced = file.referenced_data_file
        named = NULL if referenced is None else _optional_bytes(referenced.encode())
        record = (
            b"" if version == 1 else _CONTENTS[file.content],
            _long(len(path)), path,
            _FORMATS[file.file_format],
            self._partition.encode(file.partition),
            _long(file.record_count),
            _long(file.file_size_in_bytes),
            b"" if version > 1 else _BLOCK_SIZE,
            _metrics(file, version=version) if file.encoded is None else file.encoded,
            named if version == 2 else b"",
        )  # fmt: skip
        if version < 3:
            return b"".join(record), b""
        tail = (named, _optional(file.content_offset), _optional(file.content_size_in_bytes))
        return b"".join(record), b"".join(tail)

    def numbers(
        self, status: int, *, snapshot_id: int | None, sequence_number: int | None, file_sequence_number: int | None
    ) -> bytes:
        """What stands before the file: its status, and the numbers that are not to be inherited."""
        if self._version == 1:
            if snapshot_id is None:
                raise InvalidInput("a v1 entry without a snapshot id")
            return LONGS[status] + encode_long(snapshot_id)
        return b"".join(
            (LONGS[status], _optional(snapshot_id), _optional(sequence_number), _optional(file_sequence_number))
        )

    def row_id(self, first_row_id: int | None) -> bytes:
        """What stands between the two parts of a file."""
        return b"" if self._version < 3 else _optional(first_row_id)


@lru_cache(maxsize=64)
def entry_encoder(partition_type: StructType, *, format_version: int) -> EntryEncoder:
    """The encoder, from a cache: partition tuples that were seen before are encoded already."""
    return EntryEncoder(partition_type, format_version=format_version)


class PartitionBytes:
    """Encodes partition tuples of one type.

    Files of one partition come together, so tuples are kept with their bytes. They are not kept for floats, where -0.0
    and +0.0 are equal as keys.
    """

    def __init__(self, partition_type: StructType) -> None:
        self._fields = [(field.type, f"partition.{field.name}") for field in partition_type.fields]
        floating = {"float", "double"}
        cacheable = not any(isinstance(t, PrimitiveType) and t.name in floating for t, _ in self._fields)
        self._cache: dict[tuple[tuple[type, ...], tuple[Any, ...]], bytes] | None = {} if cacheable else None

    def encode(self, values: tuple[Any, ...]) -> bytes:
        """The record of one tuple. Raises InvalidInput for values that are not of the fields' types."""
        if self._cache is None:
            return self._encode(values)
        key = tuple(map(type, values)), values  # True equals 1, and a decimal an integer
        known = self._cache.get(key)
        if known is None:
            known = self._encode(values)
            if len(self._cache) < _PARTITIONS_CACHED_MAX:
                self._cache[key] = known
        return known

    def _encode(self, values: tuple[Any, ...]) -> bytes:
        if len(values) != len(self._fields):
            raise InvalidInput(
                f"{plural(len(values), 'value')} for {plural(len(self._fields), 'field')}", where="partition"
            )
        return b"".join(
            _partition_value(type_, value, where) for (type_, where), value in zip(self._fields, values, strict=True)
        )


def _partition_value(type: Type, value: Any, where: str) -> bytes:
    """A partition value as it is stored. Raises InvalidInput for one that the field's Avro type does not hold.

    A value beyond the type's range that Avro can hold is one that another writer has stored: it is kept.
    """
    if type == UNKNOWN:  # no union: its one branch is null
        if value is not None:
            raise InvalidInput("a value of a column that is gone", where=where)
        return b""
    if value is None:
        return NULL
    if isinstance(value, ForeignValue):
        return SOME + _foreign(type, value, where)
    match type:
        case PrimitiveType(name="time" | "float"):
            return SOME + _beyond_range(type, value, where)
        case PrimitiveType(name="string") if isinstance(value, uuid.UUID):  # beside texts that are none
            return SOME + _sized(str(value).encode())
        case PrimitiveType(name=name):
            if name == "binary":
                value = _as_bytes(value)
            return SOME + _PLAIN.get(name, encode_long)(check_value(type, value, where=where))
        case DecimalType():
            unscaled = _unscaled(type, value, where)
            width = decimal_width(type.precision)
            if (unscaled if unscaled >= 0 else ~unscaled).bit_length() >= 8 * width:
                raise InvalidInput(f"{value} does not fit into {width} bytes", where=where)
            return SOME + unscaled.to_bytes(width, "big", signed=True)
        case FixedType():
            stored = value.bytes if isinstance(value, uuid.UUID) else value
            return SOME + bytes(check_value(type, stored, where=where))
    raise InvalidInput(f"a partition field of type {type}", where=where)


def _foreign(type: Type, value: ForeignValue, where: str) -> bytes:
    """A value of another type than the table's, in a field that is stored as `type`."""
    if type in (STRING, BINARY) and value.type in (type, STRING) and isinstance(value.value, bytes):
        return _sized(value.value)
    if type == value.type or type == _WIDER.get(value.type):
        return _partition_value(type, value.value, where)[len(SOME) :]
    if type == BINARY and isinstance(value.type, FixedType):
        return _sized(value.value)
    raise InvalidInput(f"a {value.type} in a field of type {type}", where=where)


def _as_bytes(value: Any) -> Any:
    """A value of another type beside bytes, as its bytes."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value.encode() if isinstance(value, str) else value


def _beyond_range(type: Type, value: Any, where: str) -> bytes:
    """A time of day or a float: any that its Avro type holds unchanged."""
    if type == TIME:
        return encode_long(check_value(LONG, value, where=where))
    if isinstance(value, float) and not is_single(value):
        raise InvalidInput(f"{value} is not a 32-bit number", where=where)
    return _PLAIN["float"](check_value(type, value, where=where))


def _unscaled(type: DecimalType, value: Any, where: str) -> int:
    """The digits of a decimal, of which there may be more than `type` has before the point, but not behind."""
    if not isinstance(value, Decimal):
        raise InvalidInput(f"{value!r:.80} is not a value of type {type}", where=where)
    return unscaled_of(DecimalType(DECIMAL_PRECISION_MAX, type.scale), value, where)


def _metrics(file: DataFile, *, version: int) -> bytes:
    """The fields of a file from its column sizes to its sort order; v1 has no equality ids among them."""
    counts = (file.column_sizes, file.value_counts, file.null_value_counts, file.nan_value_counts)
    return b"".join((
        *map(_counts, counts),
        _bounds(file.lower_bounds),
        _bounds(file.upper_bounds),
        _optional_bytes(file.key_metadata),
        encode_list(file.split_offsets),
        b"" if version == 1 else _ints(file.equality_ids),
        NULL if file.sort_order_id is None else SOME + encode_int(file.sort_order_id),
    ))  # fmt: skip


def _counts(counts: Mapping[int, int] | None) -> bytes:
    """A map of column ids to longs."""
    if not counts:
        return NULL if counts is None else EMPTY
    return columns_of(tuple(counts)).counts(counts.values())


def _bounds(bounds: Mapping[int, bytes] | None) -> bytes:
    """A map of column ids to bytes."""
    if not bounds:
        return NULL if bounds is None else EMPTY
    return columns_of(tuple(bounds)).bounds(bounds.values())


def encode_metrics(file: DataFile) -> bytes:
    """What `DataFile.encoded` is of a file that has its metrics.

    Raises InvalidInput naming the file for a value that its Avro type does not hold.
    """
    try:
        return _metrics(file, version=2)
    except InvalidInput as error:
        raise InvalidInput(str(error), where=file.file_path) from None
    except _ENCODE_ERRORS as error:
        raise InvalidInput(f"a value that its Avro type does not hold: {error}", where=file.file_path) from None


def _sized(content: bytes) -> bytes:
    return LONGS[len(content)] + content


_PLAIN: Final[Mapping[str, Callable[[Any], bytes]]] = {
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "float": struct.Struct("<f").pack,
    "double": struct.Struct("<d").pack,
    "string": lambda value: _sized(value.encode()),
    "binary": _sized,
    "uuid": lambda value: bytes(value.bytes),
}


def _optional(number: int | None) -> bytes:
    return NULL if number is None else SOME + _long(number)


def _optional_bytes(content: bytes | None) -> bytes:
    return NULL if content is None else SOME + _long(len(content)) + content


def _ints(numbers: tuple[int, ...] | None) -> bytes:
    """A list of ints."""
    for number in numbers or ():
        encode_int(number)
    return encode_list(numbers)
