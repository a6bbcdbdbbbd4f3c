"""Whether the metrics of a content file can be read as those of its table's columns.

Readers decode a bound when a query filters by its column, and fail on bytes that are no value of the column's type.
What they pass over is no fault: columns that the table does not have, NaN, sort orders and split offsets that do not
exist, a lower bound above the upper one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.bounds import GeoBound
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput
from firn.model.json_members import LONG_MAX
from firn.model.reserved import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, UNKNOWN, VARIANT, GeographyType, GeometryType, Type, is_primitive
from firn.model.values import from_bytes

_COUNT_MAPS: Final = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUND_MAPS: Final = ("lower_bounds", "upper_bounds")
_RESERVED: Final[Mapping[int, Type]] = {DELETE_FILE_PATH_ID: STRING, DELETE_FILE_POS_ID: LONG}
"""Columns of position delete files: readers find the data files of their rows by the bounds of the first."""

_WITHOUT_BINARY_FORM: Final = frozenset({UNKNOWN, VARIANT})


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with one member of a content file, which is spelled as on the wire."""

    member: str
    message: str


def bound_types(schemas: Sequence[Schema], current: Schema) -> dict[int, Type]:
    """Return the types that bounds are read as, by field id: of the current schema, else of the first that has it.

    Columns whose bounds have no defined form (nested, variant, unknown) are left out.
    """
    found: dict[int, Type] = {}
    for schema in (current, *schemas):
        for field_id, field in schema.fields_by_id.items():
            if is_primitive(field.type) and field.type not in _WITHOUT_BINARY_FORM:
                found.setdefault(field_id, field.type)
    return found


def metric_faults(file: DataFile, types: Mapping[int, Type]) -> Iterator[Fault]:
    """Yield what makes metrics unreadable; `types` are those of `bound_types`."""
    for name in _COUNT_MAPS:
        for field_id, count in (getattr(file, name) or {}).items():
            if not 0 <= count <= LONG_MAX:
                yield Fault(_spelled(name), f"{count} is no count, of column {field_id}")
    for name in _BOUND_MAPS:
        for field_id, bound in (getattr(file, name) or {}).items():
            type_ = types.get(field_id) or _RESERVED.get(field_id)
            reason = None if type_ is None else _bound_fault(type_, bound)
            if reason is not None:
                yield Fault(_spelled(name), f"the bound of column {field_id} ({type_}) is no value of it: {reason}")


def _spelled(name: str) -> str:
    return name.replace("_", "-")


def _bound_fault(type_: Type, bound: bytes) -> str | None:
    try:
        if isinstance(type_, GeometryType | GeographyType):
            GeoBound.from_bytes(bound)
        else:
            from_bytes(type_, bound)
    except InvalidInput as error:
        return error.message
    return None
