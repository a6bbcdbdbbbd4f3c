"""What each reader cannot do, table by table: the tests hold it to it, and docs/interop.md shows it.

A limit is asserted like anything else. When a new version of a reader has learnt something, its test fails, and the
limit goes from here and from the page.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Final, Literal

import msgspec

Reader = Literal["PyIceberg", "DuckDB", "iceberg-rust", "Spark"]
READERS: Final[tuple[Reader, ...]] = ("PyIceberg", "DuckDB", "iceberg-rust", "Spark")
ICEBERG_JAVA: Final = "1.11.0"
VERSIONS: Final[dict[Reader, str]] = {
    "PyIceberg": version("pyiceberg"),
    "DuckDB": version("duckdb"),
    "iceberg-rust": f"(pyiceberg-core {version('pyiceberg-core')})",
    "Spark": f"4.1 with Iceberg {ICEBERG_JAVA}",
}


class Limit(msgspec.Struct, frozen=True):
    """Tables (by a pattern of their names) that a reader refuses with an error that `says` this, or reads otherwise."""

    reader: Reader
    tables: str
    says: str | None
    note: str


def refuses(reader: Reader, tables: str, says: str, note: str = "no") -> Limit:
    return Limit(reader, tables, says, note)


def misreads(reader: Reader, tables: str, note: str) -> Limit:
    return Limit(reader, tables, None, f"**wrong**: {note}")


LIMITS: Final = (
    # PyIceberg
    refuses("PyIceberg", "equality-deletes-.*|global-equality-deletes-.*", "does not yet support equality deletes"),
    refuses("PyIceberg", "type-variant-.*", "Unsupported field type: 'variant'"),
    refuses("PyIceberg", "position-deletes-avro", "Delete file format not supported: FileFormat.AVRO"),
    refuses("PyIceberg", ".*-avro", "Unsupported file format: FileFormat.AVRO"),
    refuses("PyIceberg", "common-types-v3-orc", "Unsupported schema projection", "no timestamps in v3"),
    refuses("PyIceberg", "type-far-timestamp.*-orc", "out of range for nanosecond", "timestamps of 1677–2262 only"),
    refuses("PyIceberg", "type-time-orc", "Cannot promote long to time", "no time"),
    refuses("PyIceberg", "type-uuid-orc", "Cannot promote an binary to uuid", "no uuid"),
    refuses("PyIceberg", "type-fixed-orc", "Cannot promote an binary to fixed", "no fixed"),
    refuses("PyIceberg", "type-geo.*-(parquet|orc)", "Cannot promote an binary to geo", "no geospatial types"),
    refuses("PyIceberg", "transforms-timestamp(tz)?_ns", "timestamp-nanos", "not as partition values"),
    refuses("PyIceberg", "defaults-orc", "Unsupported schema projection", "no timestamps in v3"),
    misreads("PyIceberg", "null-collections-(parquet|orc)", "null reads as empty"),
    refuses("PyIceberg", "promoted-date-timestamp", "no attribute 'tz'"),
    refuses("PyIceberg", "promoted-date-timestamp_ns", "Cannot promote date"),
    # DuckDB
    refuses("DuckDB", "type-timestamptz_ns-.*|transforms-timestamptz_ns", "primitive type: timestamptz_ns"),
    refuses("DuckDB", "type-unknown-.*", "Unrecognized primitive type: unknown"),
    refuses("DuckDB", "type-geography-.*", "Geography support"),
    refuses("DuckDB", "(position|equality)-deletes-(avro|orc)", "not supported for deletes"),
    refuses("DuckDB", ".*-(avro|orc)", "only supports 'parquet'"),
    misreads("DuckDB", "equality-deletes-(parquet|v3)", "deletes in all partitions"),
    # iceberg-rust
    refuses("iceberg-rust", "type-(unknown|geometry|geography)-.*", "Failed to parse json"),
    refuses("iceberg-rust", "plain-paths", "relative URL without a base"),
    refuses("iceberg-rust", "several-time-units", "Cannot add redundant partition"),
    refuses(  # whichever of its two manifests it comes to first
        "iceberg-rust",
        "transforms-uuid",
        "Cannot convert i64 to usize|Failed to convert &str to UUID",
        "not as partition values",
    ),
    refuses("iceberg-rust", "transforms-timestamp(tz)?_ns", "fail convert to type", "not as partition values"),
    refuses("iceberg-rust", "(evolved-struct|nested-defaults)-parquet", "Incorrect number of arrays for StructArray"),
    refuses("iceberg-rust", ".*-(avro|orc)", "Failed to load Parquet metadata|Invalid Parquet file"),
    misreads("iceberg-rust", "promoted-date-timestamp(_ns)?", "older values read as null"),
    # Spark
    refuses("Spark", "type-time-.*|transforms-time", "Spark does not support time fields", "no time"),
    refuses(
        "Spark",
        "type-timestamp(tz)?_ns-.*|transforms-timestamp(tz)?_ns",
        "unsupported type to Spark: timestamp",
        "no nanoseconds",
    ),
    refuses("Spark", "type-geo.*", "unsupported type to Spark: geo", "no geospatial types"),
    refuses("Spark", "promoted-date-timestamp_ns", "unsupported type to Spark: timestamp_ns"),
    refuses("Spark", "promoted-date-timestamp", "UnsupportedOperationException|VectorizedArrowReader"),
    refuses(  # it takes the value's bytes for lengths; where it stumbles depends on the sizes that follow
        "Spark",
        "transforms-fixed",
        "out of bounds|Invalid (int|long) encoding",
        "not as partition values",
    ),
    refuses("Spark", "(nested-)?defaults-orc", "ORC cannot read default value", "no defaults"),
)

FEATURES: Final = {
    "common types, Parquet, v1–v3": "common-types-v.-parquet",
    "common types, Avro, v1–v3": "common-types-v.-avro",
    "common types, ORC, v1–v3": "common-types-v.-orc",
    "struct, list, map, Parquet, v1–v3": "nested-v.-parquet",
    "struct, list, map, Avro, v1–v3": "nested-v.-avro",
    "struct, list, map, ORC, v1–v3": "nested-v.-orc",
    "null lists and maps of structs, Parquet": "null-collections-parquet",
    "null lists and maps of structs, Avro": "null-collections-avro",
    "null lists and maps of structs, ORC": "null-collections-orc",
    "time": "(type|transforms)-time(-parquet)?",
    "uuid": "(type|transforms)-uuid(-parquet)?",
    "fixed": "(type|transforms)-fixed(-parquet)?",
    "timestamps of the years 1 and 9999": "type-far-timestamp(tz)?-parquet",
    "timestamp_ns (v3)": "(type|transforms)-timestamp_ns(-parquet)?",
    "timestamptz_ns (v3)": "(type|transforms)-timestamptz_ns(-parquet)?",
    "unknown (v3)": "type-unknown-parquet",
    "geometry (v3)": "type-geometry-parquet",
    "geography (v3)": "type-geography-parquet",
    "these types, Avro": "type-(?!variant).*-avro",
    "these types, ORC": "type-.*-orc",
    "variant (v3), Avro": "type-variant-avro",
    "every transform, v1–v3": "transforms-v.-.*",
    "smallest int and long, truncated": "truncated-minimum",
    "several time units of one column in a spec": "several-time-units",
    "evolved partition spec, v1–v3": "evolved-spec-v.",
    "evolved schema, Parquet, v1–v3": "evolved-schema-v.-parquet",
    "evolved struct, Parquet": "evolved-struct-parquet",
    "evolved schema and struct, Avro": "evolved-(schema-v.|struct)-avro",
    "evolved schema and struct, ORC": "evolved-(schema-v.|struct)-orc",
    "default values (v3), Parquet": "defaults-parquet",
    "default values in a struct (v3), Parquet": "nested-defaults-parquet",
    "default values (v3), Avro": "(nested-)?defaults-avro",
    "default values (v3), ORC": "(nested-)?defaults-orc",
    "date promoted to timestamp (v3)": "promoted-date-timestamp",
    "date promoted to timestamp_ns (v3)": "promoted-date-timestamp_ns",
    "position deletes (v2)": "position-deletes-(of-parquet|parquet|with-rows)",
    "position deletes in Avro": "position-deletes-avro",
    "position deletes in ORC": "position-deletes-orc",
    "position deletes of Avro data": "position-deletes-of-avro",
    "position deletes of ORC data": "position-deletes-of-orc",
    "equality deletes of a partition, v2 and v3": "equality-deletes-(parquet|v3)",
    "equality deletes in Avro": "equality-deletes-avro",
    "equality deletes in ORC": "equality-deletes-orc",
    "equality deletes of a whole table, v2 and v3": "global-equality-deletes-v.",
    "deletion vectors (v3)": "deletion-vectors-of-parquet|row-lineage",
    "deletion vectors of Avro data": "deletion-vectors-of-avro",
    "deletion vectors of ORC data": "deletion-vectors-of-orc",
    "tables upgraded from v1 over v2 to v3": "upgraded-v1-v2-v3",
    "copy on write, tombstones, v1–v3": "rewritten-v.",
    "branches, tags, sort orders, empty tables, v1–v3": "(references|sorted|empty)-v.",
    "compressed metadata": "compressed-metadata",
    "absolute paths without a scheme": "plain-paths",
}
"""What is read, as the page says it, and the tables that show it: each table shows one thing."""


def cell(reader: Reader, tables: list[str]) -> str:
    """What the page says of a reader and some tables."""
    notes = [limit.note if limit else "yes" for limit in (limit_of(reader, table) for table in tables)]
    return ", ".join(note for note in dict.fromkeys(notes) if note != "yes" or len(set(notes)) == 1)


def page_table(tables: list[str]) -> str:
    """The table reader × feature of docs/interop.md."""
    lines = [
        "| | " + " | ".join(f"{reader} {VERSIONS[reader]}" for reader in READERS) + " |",
        "|---" * (len(READERS) + 1) + "|",
    ]
    for feature, pattern in FEATURES.items():
        shown = [table for table in tables if re.fullmatch(pattern, table)]
        lines.append(f"| {feature} | " + " | ".join(cell(reader, shown) for reader in READERS) + " |")
    return "\n".join(lines) + "\n"


def limit_of(reader: Reader, table: str) -> Limit | None:
    """The first limit of the reader that the table meets."""
    found = (one for one in LIMITS if one.reader == reader and re.fullmatch(one.tables, table))
    return next(found, None)
