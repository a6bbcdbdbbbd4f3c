"""Manifest entries and manifest files, by hand and by hypothesis."""

import uuid
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from firn.model.datafile import DataFile
from firn.model.manifest import FieldSummary, ManifestContent, ManifestEntry, ManifestFile, Status
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.schema import Schema
from firn.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    StructType,
    Type,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    INT: INTS,
    LONG: LONGS,
    FLOAT: st.floats(width=32, allow_nan=False),
    DOUBLE: st.floats(allow_nan=False),
    DATE: INTS,
    TIME: st.integers(0, 86_399_999_999),
    TIMESTAMP: LONGS,
    TIMESTAMPTZ: LONGS,
    TIMESTAMP_NS: LONGS,
    TIMESTAMPTZ_NS: LONGS,
    STRING: TEXT,
    UUID: st.uuids(),
    BINARY: st.binary(max_size=20),
    FixedType(5): st.binary(min_size=5, max_size=5),
    DecimalType(9, 2): st.decimals(Decimal("-9999999.99"), Decimal("9999999.99"), places=2),
    DecimalType(38, 10): st.integers(-(10**38) + 1, 10**38 - 1).map(
        lambda unscaled: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -10))
    ),
}
TYPES = tuple(VALUES)
"""Every type that a partition field can have; position i is column i + 1 of `SCHEMA` and field 1000 + i of `SPEC`."""

SCHEMA = Schema(
    schema_id=3,
    struct=StructType(
        tuple(NestedField(field_id=i + 1, name=f"c{i}", type=t, required=False) for i, t in enumerate(TYPES))
    ),
)
NAMES = ("plain", "with space", "1digit", "é", "a.b", "a_x2Eb", "🧊")
SPEC = PartitionSpec(
    spec_id=7,
    fields=tuple(
        PartitionField(
            source_ids=(i + 1,),
            field_id=1000 + i,
            name=NAMES[i] if i < len(NAMES) else f"p{i}",
            transform="identity",
        )
        for i in range(len(TYPES))
    ),
)
PARTITIONS = st.tuples(*(st.none() | VALUES[type_] for type_ in TYPES))

DAY_SCHEMA = Schema(
    schema_id=0,
    struct=StructType(
        (
            NestedField(field_id=1, name="ts", type=TIMESTAMPTZ, required=False),
            NestedField(field_id=2, name="customer", type=LONG, required=False),
        )
    ),
)
DAY_SPEC = PartitionSpec(
    spec_id=0,
    fields=(
        PartitionField(source_ids=(1,), field_id=1000, name="ts_day", transform="day"),
        PartitionField(source_ids=(2,), field_id=1001, name="customer_bucket", transform="bucket[16]"),
    ),
)


def data_file(path="s3://b/t/a.parquet", **changes):
    """A plain Parquet file of 10 rows in `DAY_SPEC`."""
    members = {
        "file_path": path,
        "file_format": "parquet",
        "spec_id": 0,
        "partition": (19000, 3),
        "record_count": 10,
        "file_size_in_bytes": 1000,
    }
    return DataFile(**{**members, **changes})


def added(path="s3://b/t/a.parquet", *, snapshot_id=None, sequence_number=None, **changes):
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        data_file=data_file(path, **changes),
    )


def existing(path="s3://b/t/a.parquet", *, snapshot_id=1, sequence_number=1, **changes):
    return ManifestEntry(
        status=Status.EXISTING,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=data_file(path, **changes),
    )


def deleted(path="s3://b/t/a.parquet", *, snapshot_id=1, sequence_number=1, **changes):
    return ManifestEntry(
        status=Status.DELETED,
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        file_sequence_number=sequence_number,
        data_file=data_file(path, **changes),
    )


def manifest(path="s3://b/t/m.avro", **changes):
    """A data manifest of one added file of 10 rows."""
    members = {
        "manifest_path": path,
        "manifest_length": 1000,
        "partition_spec_id": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": 1,
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": 10,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": (),
    }
    return ManifestFile(**{**members, **changes})


def _metrics(values):
    return st.none() | st.dictionaries(st.integers(0, 2**31 - 1), values, max_size=4)


@st.composite
def data_files(draw, *, content="data", format_version=2):
    """A file of `SPEC` with whatever its content and version allow."""
    deletes = content != "data"
    vector = content == "position-deletes" and format_version > 2 and draw(st.booleans())
    return DataFile(
        content=content,
        file_path=draw(TEXT.filter(bool)),
        file_format="puffin" if vector else draw(st.sampled_from(["avro", "orc", "parquet"])),
        spec_id=SPEC.spec_id,
        partition=draw(PARTITIONS),
        record_count=draw(st.integers(0, 2**40)),
        file_size_in_bytes=draw(COUNTS),
        column_sizes=draw(_metrics(LONGS)),
        value_counts=draw(_metrics(LONGS)),
        null_value_counts=draw(_metrics(LONGS)),
        nan_value_counts=draw(_metrics(LONGS)),
        lower_bounds=draw(_metrics(st.binary(max_size=8))),
        upper_bounds=draw(_metrics(st.binary(max_size=8))),
        key_metadata=draw(st.none() | st.binary(max_size=8)),
        split_offsets=draw(st.none() | st.lists(LONGS, max_size=3).map(tuple)),
        equality_ids=draw(st.lists(INTS, min_size=1, max_size=3).map(tuple)) if content == "equality-deletes" else None,
        sort_order_id=draw(st.none() | INTS),
        first_row_id=draw(st.none() | st.integers(0, 2**40)) if format_version > 2 and not deletes else None,
        referenced_data_file=draw(TEXT) if vector or (deletes and draw(st.booleans())) else None,
        content_offset=draw(COUNTS) if vector else None,
        content_size_in_bytes=draw(COUNTS) if vector else None,
    )


@st.composite
def entries(draw, *, content="data", format_version=2):
    """An entry as `encode_manifest` takes it for snapshot 5."""
    file = draw(data_files(content=content, format_version=format_version))
    status = draw(st.sampled_from(Status))
    numbered = format_version > 1
    if status is Status.ADDED:
        number = draw(st.none() | st.integers(0, 2**40)) if numbered else None
        return ManifestEntry(status=status, sequence_number=number, data_file=file)
    number = draw(st.integers(0, 2**40)) if numbered else None
    return ManifestEntry(
        status=status,
        snapshot_id=draw(LONGS),
        sequence_number=number,
        file_sequence_number=number,
        data_file=file,
    )


@st.composite
def manifest_files(draw, *, format_version=2):
    """A row of a manifest list of this version."""
    numbered = format_version > 1
    contents: list[ManifestContent] = ["data", "deletes"]
    content = draw(st.sampled_from(contents)) if numbered else contents[0]
    counts: st.SearchStrategy[int | None] = st.integers(0, 2**31 - 1)
    rows: st.SearchStrategy[int | None] = st.integers(0, 2**40)
    if not numbered:
        counts, rows = st.none() | counts, st.none() | rows
    bounds = st.none() | st.binary(max_size=8)
    summaries = st.builds(
        FieldSummary,
        contains_null=st.booleans(),
        contains_nan=st.none() | st.booleans(),
        lower_bound=bounds,
        upper_bound=bounds,
    )
    return ManifestFile(
        manifest_path=draw(TEXT.filter(bool)),
        manifest_length=draw(COUNTS),
        partition_spec_id=draw(st.integers(0, 2**31 - 1)),
        content=content,
        sequence_number=draw(COUNTS) if numbered else 0,
        min_sequence_number=draw(COUNTS) if numbered else 0,
        added_snapshot_id=draw(LONGS),
        added_files_count=draw(counts),
        existing_files_count=draw(counts),
        deleted_files_count=draw(counts),
        added_rows_count=draw(rows),
        existing_rows_count=draw(rows),
        deleted_rows_count=draw(rows),
        partitions=draw(st.none() | st.lists(summaries, max_size=3).map(tuple)),
        key_metadata=draw(st.none() | st.binary(max_size=8)),
        first_row_id=draw(COUNTS) if format_version > 2 and content == "data" else None,
    )


EXAMPLE_PARTITION = (
    True, -1, 2**40, 1.5, -0.0, 19000, 1, 2, 3, 4, 5, "x", uuid.UUID(int=7), b"\x00\xff", b"12345",
    Decimal("-1.25"), Decimal("0.0000000001"),
)  # fmt: skip
"""One tuple of `SPEC` without nulls."""
