"""Table properties that name a column: they follow it when it is renamed, and go when it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from firn.model.schema import Schema
from firn.model.table_properties import METRICS_COLUMN_PREFIX

PREFIXES: Final = (
    METRICS_COLUMN_PREFIX,
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
)


def follow_columns(properties: Mapping[str, str], *, before: Schema, after: Schema) -> dict[str, str]:
    """The properties for a schema that evolved.

    One whose column was dropped is gone, one whose column has another name is about that name. Those that name no
    column of `before` stay as they are. Should two come to the same name, the one that was set for it wins.
    """
    moved: dict[str, str] = {}
    kept: dict[str, str] = {}
    for name, value in properties.items():
        prefix = next((p for p in PREFIXES if name.startswith(p)), None)
        column = None if prefix is None else before.find_field(name[len(prefix) :])
        if prefix is None or column is None:
            kept[name] = value
            continue
        new_name = after.column_name(column.field_id)
        if new_name is not None:
            (kept if prefix + new_name == name else moved)[prefix + new_name] = value
    return {**moved, **kept}
