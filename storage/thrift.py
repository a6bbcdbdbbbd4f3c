"""Thrift's compact protocol, read only: what Parquet footers are written in.

The Arrow library ends the whole process over some damaged footers when it is asked for a column's statistics, so firn
looks at those itself. Footers of wide tables have many small values: reading one costs about a microsecond.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from firn.model.amounts import plural
from firn.model.errors import InvalidInput

DEPTH_MAX: Final = 32
"""Levels of structs and lists."""

_DOUBLE: Final = struct.Struct("<d")


def read_struct(data: bytes) -> dict[int, Any]:
    """The struct that `data` starts with, as field id to value: ints, floats, bools, bytes, lists and such dicts.

    Raises InvalidInput when it ends early, nests too deep or is no Thrift.
    """
    try:
        return _struct(data, 0, 0)[0]
    except (IndexError, struct.error):
        raise InvalidInput("ends early") from None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """A struct and the position behind it; IndexError past the end."""
    if depth > DEPTH_MAX:
        raise InvalidInput(f"more than {DEPTH_MAX} levels at byte {at}")
    fields: dict[int, Any] = {}
    field_id = 0
    while header := data[at]:
        at += 1
        kind = header & 0x0F
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, at = _zigzag(data, at)
        if kind in (4, 5, 6):
            byte = data[at]
            at += 1
            if byte < 0x80:  # nearly always
                fields[field_id] = (byte >> 1) ^ -(byte & 1)
            else:
                fields[field_id], at = _zigzag(data, at - 1)
        elif kind < 3:
            fields[field_id] = kind == 1
        else:
            fields[field_id], at = _value(data, at, kind, depth + 1)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 8:
            size, at = _varint(data, at)
            return _taken(data, at, size)
        case 12:
            return _struct(data, at, depth)
        case 9 | 10:
            return _list(data, at, depth)
        case 4 | 5 | 6:
            return _zigzag(data, at)
        case 7:
            return _DOUBLE.unpack_from(data, at)[0], at + 8
        case 1 | 2:  # inside a list, where a bool has a byte of its own
            return data[at] == 1, at + 1
        case 3:
            return data[at], at + 1
        case 11:
            return _map(data, at, depth)
        case 13:
            return _taken(data, at, 16)
    raise InvalidInput(f"unknown Thrift type {kind} at byte {at}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > DEPTH_MAX:
        raise InvalidInput(f"more than {DEPTH_MAX} levels at byte {at}")
    header = data[at]
    size, at = (header >> 4, at + 1) if header < 0xF0 else _varint(data, at + 1)
    kind = header & 0x0F
    if size > len(data) - at:  # every item takes a byte at least
        raise InvalidInput(f"a list of {plural(size, 'item')} at byte {at}")
    items = []
    for _ in range(size):
        item, at = _value(data, at, kind, depth + 1)
        items.append(item)
    return items, at


def _map(data: bytes, at: int, depth: int) -> tuple[list[tuple[Any, Any]], int]:
    size, at = _varint(data, at)
    if size == 0:
        return [], at
    kinds = data[at]
    at += 1
    if depth > DEPTH_MAX or size > len(data) - at:
        raise InvalidInput(f"a map of {plural(size, 'entry', 'entries')} at byte {at}")
    entries = []
    for _ in range(size):
        key, at = _value(data, at, kinds >> 4, depth + 1)
        value, at = _value(data, at, kinds & 0x0F, depth + 1)
        entries.append((key, value))
    return entries, at


def _taken(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise InvalidInput(f"{size} bytes at byte {at} of {len(data)}")
    return data[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = shift = 0
    for end in range(at, at + 10):
        byte = data[end]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, end + 1
        shift += 7
    raise InvalidInput(f"a number of more than ten bytes at byte {at}")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
