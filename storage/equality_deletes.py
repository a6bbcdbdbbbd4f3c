"""Equality delete files: rows deleted by the values of some columns (v2 and later)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from firn.model.datafile import DataFile, FileFormat
from firn.model.errors import CorruptFile, InvalidInput
from firn.model.name_mapping import NameMapping
from firn.model.schema import Schema
from firn.model.schema_projection import project
from firn.model.types import DOUBLE, FLOAT, UNKNOWN, GeographyType, GeometryType, is_primitive
from firn.storage.data_files import NewFile, decode_rows, encode_rows

EQUALITY_DELETES_MAX: Final = 50_000_000
"""Most deletes that one file may hold."""


class EqualityDeletes(msgspec.Struct, frozen=True):
    """The deletes of some files with the same delete columns: `keys` are the values of `paths` in their order.

    `paths` lead to each delete column by field ids, through structs.
    """

    equality_ids: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    keys: frozenset[tuple[Any, ...]]

    def deletes(self, row: Mapping[int, Any]) -> bool:
        """Whether the row, which must have all delete columns, is deleted. Null equals null here."""
        return _key(row, self.paths) in self.keys

    def union(self, other: EqualityDeletes) -> EqualityDeletes:
        """What either deletes; both must have the same delete columns."""
        assert self.equality_ids == other.equality_ids
        return msgspec.structs.replace(self, keys=self.keys | other.keys)


def check_equality_ids(schema: Schema, equality_ids: Iterable[int], *, where: str = "equality-ids") -> None:
    """Raise InvalidInput unless every id is a column that rows can be told apart by.

    Such columns are primitive, neither float nor double, and in no list or map.
    """
    ids = tuple(equality_ids)
    if not ids or len(set(ids)) != len(ids):
        raise InvalidInput("must name each delete column once", where=where)
    for field_id in ids:
        field = schema.field_by_id(field_id)
        if field is None:
            raise InvalidInput(f"no column has id {field_id}", where=where)
        name = schema.column_name(field_id)
        bare = field.type in (FLOAT, DOUBLE, UNKNOWN) or isinstance(field.type, GeometryType | GeographyType)
        if bare or not is_primitive(field.type):
            raise InvalidInput(f"column {name!r} is a {field.type}, which rows are not deleted by", where=where)
        if schema.position(field_id) is None:
            raise InvalidInput(f"column {name!r} is inside a list or map", where=where)


def encode_equality_deletes(
    rows: Iterable[Mapping[int, Any]], schema: Schema, new: NewFile, *, equality_ids: tuple[int, ...]
) -> tuple[bytes, DataFile]:
    """A delete file with these rows, and its manifest entry.

    `schema` has the columns to store: at least the delete columns, with the table's field ids. Raises InvalidInput
    for ids that cannot be delete columns or values that do not fit.
    """
    check_equality_ids(schema, equality_ids, where=new.location)
    data, entry = encode_rows(rows, schema, new)
    if entry.record_count == 0:
        raise InvalidInput("an equality delete file needs deletes", where=new.location)
    return data, msgspec.structs.replace(entry, content="equality-deletes", equality_ids=equality_ids)


def decode_equality_deletes(
    data: bytes,
    *,
    file_format: FileFormat,
    location: str,
    schema: Schema,
    equality_ids: tuple[int, ...],
    name_mapping: NameMapping | None = None,
) -> EqualityDeletes:
    """The deletes of a file whose manifest entry names `equality_ids`.

    `schema` gives the columns' types; a column that the table has dropped must be in it all the same. Raises
    CorruptFile for a damaged file, InvalidInput for ids that `schema` does not have.
    """
    for field_id in equality_ids:
        if schema.field_by_id(field_id) is None:
            raise InvalidInput(f"no column has id {field_id}", where=location)
    wanted = project(schema, equality_ids)
    paths = delete_paths(schema, equality_ids)
    keys: set[tuple[Any, ...]] = set()
    total = 0
    for rows in decode_rows(data, file_format=file_format, location=location, schema=wanted, name_mapping=name_mapping):
        total += len(rows)
        if total > EQUALITY_DELETES_MAX:
            raise CorruptFile(location, f"more than {EQUALITY_DELETES_MAX} equality deletes")
        keys.update(_key(row, paths) for row in rows)
    return EqualityDeletes(equality_ids, paths, frozenset(keys))


def delete_paths(schema: Schema, equality_ids: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The way to each delete column, by field ids from the top."""
    paths = []
    for field_id in equality_ids:
        path = [field_id]
        while (parent := schema.parent_id(path[0])) is not None:
            path.insert(0, parent)
        paths.append(tuple(path))
    return tuple(paths)


def _key(row: Mapping[int, Any], paths: tuple[tuple[int, ...], ...]) -> tuple[Any, ...]:
    return tuple([_comparable(_at(row, path)) for path in paths])


def _at(row: Mapping[int, Any], path: tuple[int, ...]) -> Any:
    value: Any = row
    for field_id in path:
        if value is None:
            return None
        value = value.get(field_id)
    return value


def _comparable(value: Any) -> Any:
    """Floats by their bits: other writers do delete by them, and mean NaN by NaN and zero by that zero."""
    if isinstance(value, float):
        return ("float", b"nan" if value != value else struct.pack("<d", value))  # noqa: PLR0124 - the test for NaN
    return value
