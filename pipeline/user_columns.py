"""Columns that firn adds to a user's rows, under names that the user's own columns do not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from firn.model.errors import Unsupported
from firn.model.reserved import is_reserved_id
from firn.model.schema import Schema
from firn.model.types import NestedField

CASE_SENSITIVE: Final = "spark.sql.caseSensitive"


def fresh_name(wanted: str, *taken: Iterable[str]) -> str:
    """Return `wanted`, with a number behind it if one of the names `taken` is equal to it but for case."""
    names = {name.lower() for some in taken for name in some}
    found, number = wanted, 0
    while found.lower() in names:
        number += 1
        found = f"{wanted}_{number}"
    return found


def require_distinct(projection: Schema, *, case_sensitive: bool) -> None:
    """Raise Unsupported if Spark could not tell the columns of a projection apart.

    That is so for tables of other engines: with columns that differ in case only, or that are called like a metadata
    column which an operation needs beside them.
    """
    seen: dict[str, NestedField] = {}
    for field in projection.fields:
        other = seen.setdefault(field.name if case_sensitive else field.name.lower(), field)
        if other is field:
            continue
        if is_reserved_id(field.field_id) or is_reserved_id(other.field_id):
            raise Unsupported(
                f"the table's column {field.name!r} is called like a metadata column, which is needed beside it",
                where="columns",
                hint="rename the column",
            )
        raise Unsupported(
            f"the columns {other.name!r} and {field.name!r} differ in case only",
            where="columns",
            hint=f"set {CASE_SENSITIVE} to true, choose columns, or rename one of them",
        )
