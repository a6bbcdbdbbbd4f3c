"""Columns of record batches as the hashes that theta sketches are made of, most types without a loop in Python.

A value is hashed in its binary single-value form (table specification, "Binary single-value serialization"), by
MurmurHash3 with the library's seed. Values come once each, in the order of their first appearance: which values a full
sketch keeps depends on the order in which it met them.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.model.errors import Unsupported
from firn.model.types import DecimalType, FixedType, PrimitiveType, Type
from firn.model.values import to_bytes
from firn.storage.theta import SEED, hash_of

Hashes = npt.NDArray[np.uint64]

_WIDTHS: Final = {
    "int": 4, "date": 4, "float": 4, "long": 8, "time": 8, "double": 8,
    "timestamp": 8, "timestamptz": 8, "timestamp_ns": 8, "timestamptz_ns": 8,
}  # fmt: skip
"""Bytes of the types whose binary form is what stands in an Arrow array."""

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)
_F1: Final = np.uint64(0xFF51AFD7ED558CCD)
_F2: Final = np.uint64(0xC4CEB9FE1A85EC53)


def has_hashes(type: Type) -> bool:
    """Whether values of a type have a binary form that is hashed here."""
    if isinstance(type, DecimalType | FixedType):
        return True
    return isinstance(type, PrimitiveType) and type.name in {*_WIDTHS, "boolean", "string", "binary", "uuid"}


def hashes_of(column: pa.Array, type: Type) -> Hashes:
    """The hashes of a column of an Iceberg type, as Spark hands it over (uuids are text there); nulls are left out.

    Raises Unsupported for a type that `has_hashes` does not have.
    """
    present = column.drop_null()
    if isinstance(type, PrimitiveType) and type.name in _WIDTHS:
        width = _WIDTHS[type.name]
        raw = pc.unique(present.view(pa.int32() if width == 4 else pa.int64())).to_numpy(zero_copy_only=False)
        return _murmur(raw.view(np.uint32 if width == 4 else np.uint64).astype(np.uint64), width)
    values = pc.unique(present).to_pylist()
    if isinstance(type, DecimalType):
        return _each(to_bytes(type, value) for value in values)
    if isinstance(type, FixedType):
        return _each(values)
    match type:
        case PrimitiveType(name="boolean"):
            return _each(b"\x01" if value else b"\x00" for value in values)
        case PrimitiveType(name="string"):
            return _each(value.encode() for value in values)
        case PrimitiveType(name="uuid"):
            return _each(uuid.UUID(value).bytes for value in values)
        case PrimitiveType(name="binary"):
            return _each(values)
    raise Unsupported(f"values of type {type} are not counted")


def _each(values: Any) -> Hashes:
    return np.fromiter((hash_of(value) for value in values), dtype=np.uint64)


def _murmur(values: Hashes, width: int) -> Hashes:
    """MurmurHash3 x64 of values of at most eight bytes, little-endian: the first half, shifted to 63 bits."""
    with np.errstate(over="ignore"):
        key = values * _C1
        key = ((key << np.uint64(31)) | (key >> np.uint64(33))) * _C2
        first = (np.uint64(SEED) ^ key) ^ np.uint64(width)
        other = np.uint64(SEED) ^ np.uint64(width)
        first = first + other
        second = first + other
        hashed: Hashes = (_mixed(first) + _mixed(second)) >> np.uint64(1)
    return hashed


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(33))) * _F1
    values = (values ^ (values >> np.uint64(33))) * _F2
    return values ^ (values >> np.uint64(33))
