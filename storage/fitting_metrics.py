"""Whether encoded metrics fit the columns of a table: each column once in a map, bounds that are values of it.

All files of an append are asked this when they are replayed, so most are answered without decoding anything: by
compiled code where there is some, by the same steps in Python where there is none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from firn.model.by_identity import ByIdentity
from firn.model.content_file import with_bytes
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import ContentFile
from firn.model.metadata import TableMetadata
from firn.model.metric_faults import bound_types, metric_faults
from firn.model.schema import Schema
from firn.model.types import BINARY, STRING, DecimalType, FixedType, PrimitiveType, Type
from firn.storage.encoded_metrics import with_metrics
from firn.storage.wire_files import compiled_fits

_TABLES_KEPT_MAX: Final = 1_000
_FIELD_ID_MAX: Final = 20_000
"""Field ids up to which forms are looked up; files of tables with greater ones are decoded."""

_PARAMETER_MAX: Final = 255
_EXACT_DIGITS_MAX: Final = 18
"""Digits of a decimal that always fit 64 bits."""

_MAPS: Final = 6
_COUNT_MAPS: Final = 4


class Form(IntEnum):
    """What the bounds of a column look like; each has a parameter. The compiled code has the same numbers."""

    ANYTHING = 0
    ONE_OF_WIDTHS = 1
    EXACT_WIDTH = 2
    UTF8 = 3
    DECIMAL = 4
    UNDECIDED = 5


_WIDTH_BITS: Final = {1: 1, 4: 2, 8: 4, 16: 8}
_WIDTHS: Final = {
    "boolean": (1,), "int": (4,), "date": (4,), "float": (4,), "uuid": (16,), "time": (8,), "timestamptz": (8,),
    "timestamptz_ns": (8,), "long": (4, 8), "double": (4, 8), "timestamp": (8,), "timestamp_ns": (8,),
}  # fmt: skip
"""Bytes of a bound by type; four of them were written before a number was promoted.

A date that was promoted to a timestamp is decoded: as microseconds it may not fit 64 bits.
"""


class Forms(msgspec.Struct, frozen=True, eq=False):
    """What the bounds of a table's columns look like. `by_id` has a form and its parameter for each field id from 0 on,
    and is None for a table with field ids too great for that.
    """

    types: dict[int, Type]
    by_id: bytes | None


def forms_of(metadata: TableMetadata) -> Forms:
    """Return what the bounds of new files look like; made once as long as the table's schemas stay."""
    return _forms(metadata.schemas, metadata.current_schema)


def _forms_of(schemas: tuple[Schema, ...], current: Schema) -> Forms:
    types = bound_types(schemas, current)
    highest = max(types, default=0)
    if highest > _FIELD_ID_MAX:
        return Forms(types, None)
    by_id = bytearray(2 * (highest + 1))
    for field_id, type_ in types.items():
        by_id[2 * field_id : 2 * field_id + 2] = bytes(_form(type_))
    return Forms(types, bytes(by_id))


_forms: Final = ByIdentity(_forms_of, kept_max=_TABLES_KEPT_MAX)


def _form(type_: Type) -> tuple[int, int]:
    match type_:
        case DecimalType(precision=precision):
            return Form.DECIMAL, precision
        case FixedType(length=length) if length <= _PARAMETER_MAX:
            return Form.EXACT_WIDTH, length
        case PrimitiveType(name=name) if name in _WIDTHS:
            return Form.ONE_OF_WIDTHS, sum(_WIDTH_BITS[width] for width in _WIDTHS[name])
    if type_ == STRING:
        return Form.UTF8, 0
    return (Form.ANYTHING if type_ == BINARY else Form.UNDECIDED), 0


def require_fitting(encoded: bytes, forms: Forms, *, where: str) -> None:
    """Refuse metrics that some reader fails on. Raises InvalidIntent (``invalid-field``) naming the member."""
    if forms.by_id is not None and _fits(encoded, forms.by_id):
        return
    try:
        file = with_metrics(with_bytes(DataFile, _NO_FILE, encoded, ()))
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-field", where=where) from error
    require_readable(file, forms, where=where)


def require_readable(file: DataFile, forms: Forms, *, where: str) -> None:
    """As `require_fitting`, of a file whose metrics are decoded."""
    fault = next(metric_faults(file, forms.types), None)
    if fault is not None:
        raise InvalidIntent(fault.message, rule="invalid-field", where=f"{where}.{fault.member}")


_NO_FILE: Final = ContentFile(file_path="-", file_format="parquet", spec_id=0, record_count=0, file_size_in_bytes=0)


def fits_by_python(encoded: bytes, by_id: bytes) -> bool:
    """As the compiled `fits`, step by step."""
    try:
        at = 0
        for which in range(_MAPS):
            at = _after_map(encoded, at, by_id, bounds=which >= _COUNT_MAPS)
    except (IndexError, ValueError):
        return False
    return True


_fits: Final = fits_by_python if compiled_fits is None else compiled_fits


def _after_map(encoded: bytes, at: int, by_id: bytes, *, bounds: bool) -> int:
    """Return where a map ends. Raises ValueError or IndexError for one that does not fit or has to be decoded."""
    mark, at = encoded[at], at + 1
    if mark == 0:
        return at
    if mark != 2:
        raise ValueError("no optional map")
    count, at = _natural(encoded, at)
    if count == 0:
        return at
    last = -1
    for _ in range(count):
        field_id, at = _natural(encoded, at)
        value, at = _natural(encoded, at)
        if not last < field_id < 2**31:
            raise ValueError("columns do not rise")
        last = field_id
        if bounds:
            end = at + value
            if end > len(encoded):
                raise ValueError("a bound ends behind its file")
            if 2 * field_id < len(by_id) and not _is_bound(encoded[at:end], *by_id[2 * field_id : 2 * field_id + 2]):
                raise ValueError("a bound that may be wrong")
            at = end
    if encoded[at] != 0:
        raise ValueError("more than one block")
    return at + 1


def _natural(encoded: bytes, at: int) -> tuple[int, int]:
    """Return a number that is not negative, in its shortest form, and where it ends."""
    byte = encoded[at]
    if byte < 0x80:
        if byte & 1:
            raise ValueError("negative")
        return byte >> 1, at + 1
    raw, shift = 0, 0
    while True:
        byte = encoded[at]
        raw |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if raw & 1 or byte == 0 or raw >= 2**64:
        raise ValueError("negative, not the shortest, or too great")
    return raw >> 1, at


def _is_bound(bound: bytes, form: int, parameter: int) -> bool:
    """Whether a bound is certainly a value of its column."""
    match form:
        case Form.ANYTHING:
            return True
        case Form.ONE_OF_WIDTHS:
            return bool(_WIDTH_BITS.get(len(bound), 0) & parameter)
        case Form.EXACT_WIDTH:
            return len(bound) == parameter
        case Form.UTF8:
            try:
                bound.decode()
            except UnicodeDecodeError:
                return False
            return True
        case Form.DECIMAL if 1 <= len(bound) <= 8:
            return parameter > _EXACT_DIGITS_MAX or abs(int.from_bytes(bound, signed=True)) < 10**parameter
    return False
