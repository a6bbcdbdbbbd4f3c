"""The tables that firn writes for other engines to read: every type, transform, evolution, delete and reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from firn.model.types import (
    TIMESTAMP,
    TIMESTAMP_NS,
)
from tests.interop.delete_tables import (
    deletion_vectors,
    equality_deletes,
    global_equality_deletes,
    position_deletes,
    position_deletes_with_rows,
    upgraded,
)
from tests.interop.evolved_tables import (
    compressed_metadata,
    defaults,
    empty,
    evolved_schema,
    evolved_spec,
    evolved_struct,
    nested_defaults,
    plain_paths,
    promoted_dates,
    references,
    rewritten,
    row_lineage,
    sorted_rows,
)
from tests.interop.table_builder import BuiltTable
from tests.interop.type_tables import (
    FORMATS,
    GROUPS,
    SPECIAL,
    SPECIAL_TRANSFORMS,
    TIME_UNITS,
    TIMES,
    common_types,
    every_transform,
    nested_types,
    null_collections,
    special_transform,
    special_type,
    truncated_minimum,
)

# -- all of them by name ----------------------------------------------------------------------------------------------
Build = Callable[[Path], BuiltTable]


def _catalogue() -> dict[str, Build]:
    found: dict[str, Build] = {}

    def add(name: str, build: Callable[..., BuiltTable], *args: Any) -> None:
        found[name] = lambda folder: build(folder, *args)

    for version in (1, 2, 3):
        for file_format in FORMATS:
            add(f"common-types-v{version}-{file_format}", common_types, version, file_format)
            add(f"nested-v{version}-{file_format}", nested_types, version, file_format)
            add(f"evolved-schema-v{version}-{file_format}", evolved_schema, version, file_format)
        for group, names in GROUPS.items():
            add(f"transforms-v{version}-{group}", every_transform, version, names)
        for unit in TIME_UNITS:
            add(f"transforms-v{version}-{unit}", every_transform, version, TIMES, (unit,))
        add(f"evolved-spec-v{version}", evolved_spec, version)
        add(f"rewritten-v{version}", rewritten, version)
        add(f"references-v{version}", references, version)
        add(f"sorted-v{version}", sorted_rows, version)
        add(f"empty-v{version}", empty, version)
    add("truncated-minimum", truncated_minimum)
    add("several-time-units", every_transform, 2, TIMES, TIME_UNITS)
    for name in SPECIAL_TRANSFORMS:
        add(f"transforms-{name}", special_transform, name)
    for name in SPECIAL:
        # pyarrow cannot write a variant with its annotation, which makes it one for other readers.
        for file_format in FORMATS if name != "variant" else ("avro",):
            add(f"type-{name}-{file_format}", special_type, name, file_format)
    for file_format in FORMATS:
        add(f"null-collections-{file_format}", null_collections, file_format)
        add(f"evolved-struct-{file_format}", evolved_struct, file_format)
        add(f"defaults-{file_format}", defaults, file_format)
        add(f"nested-defaults-{file_format}", nested_defaults, file_format)
        add(f"position-deletes-{file_format}", position_deletes, "parquet", file_format)
        add(f"position-deletes-of-{file_format}", position_deletes, file_format, "parquet")
        add(f"equality-deletes-{file_format}", equality_deletes, 2, "parquet", file_format)
        add(f"deletion-vectors-of-{file_format}", deletion_vectors, file_format)
    add("equality-deletes-v3", equality_deletes, 3, "parquet", "parquet")
    add("position-deletes-with-rows", position_deletes_with_rows)
    add("global-equality-deletes-v2", global_equality_deletes, 2)
    add("global-equality-deletes-v3", global_equality_deletes, 3)
    add("promoted-date-timestamp", promoted_dates, TIMESTAMP)
    add("promoted-date-timestamp_ns", promoted_dates, TIMESTAMP_NS)
    add("plain-paths", plain_paths)
    add("upgraded-v1-v2-v3", upgraded)
    add("compressed-metadata", compressed_metadata)
    add("row-lineage", row_lineage)
    return found


TABLES: Final = _catalogue()
