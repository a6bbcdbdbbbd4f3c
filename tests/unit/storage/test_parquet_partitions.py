"""Partitions of Parquet files: inferred where their metrics prove them, else given."""

from __future__ import annotations

import math

import msgspec
import pyarrow as pa
import pytest

from firn.model.errors import InvalidInput
from firn.model.types import (
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
)
from firn.storage.parquet_metrics import column_metrics, infer_partition
from tests.unit.storage.parquet_tables import (
    LOCATION,
    data_file,
    field,
    parquet,
    schema_of,
    spec_of,
)

EVENTS = schema_of(
    field(1, "id", LONG), field(2, "ts", TIMESTAMP), field(3, "name", STRING), field(4, "d", DOUBLE)
)  # fmt: skip


def events(ids, micros, names) -> pa.Table:
    return pa.table({"id": ids, "ts": pa.array(micros, pa.timestamp("us")), "name": pa.array(names, pa.string())})


def test_the_partition_is_inferred_where_all_rows_share_it():
    table = events([7, 7], [86_400_000_000, 86_400_000_001], ["abc", "abd"])
    spec = spec_of((2, "day"), (1, "identity"), (3, "truncate[2]"), (1, "bucket[16]"), (3, "void"), (4, "identity"))
    entry = data_file(table, EVENTS, spec=spec)
    assert entry.spec_id == 3
    assert entry.partition[:3] == (1, 7, "ab")
    assert entry.partition[3] == spec.fields[3].parsed_transform.apply(LONG, 7)
    assert entry.partition[4:] == (None, None)


def test_a_column_of_nulls_is_the_null_partition():
    table = events([None, None], [1, 1], ["a", "a"])
    assert data_file(table.cast(events([1], [1], ["a"]).schema), EVENTS, spec=spec_of((1, "bucket[4]"))).partition == (
        None,
    )


def test_a_missing_column_is_its_initial_default():
    schema = schema_of(field(1, "a", LONG), field(2, "b", STRING, default="x"))
    assert data_file(pa.table({"a": [1]}), schema, spec=spec_of((2, "identity"))).partition == ("x",)


@pytest.mark.parametrize(
    ("transform", "ids", "reason"),
    [
        ((1, "identity"), [1, 2], "several partitions"),
        ((1, "bucket[4]"), [1, 2], "several values"),
        ((1, "identity"), [1, None], "nulls and other values"),
        ((2, "day"), [1, 2], "several partitions"),
        ((1, "zorder[4]"), [1, 1], "not known"),
        ((9, "identity"), [1, 1], "not known"),
    ],
)
def test_a_partition_that_cannot_be_proven_must_be_given(transform, ids, reason):
    table = events(ids, [1, 86_400_000_001], ["a", "b"])
    with pytest.raises(InvalidInput, match=f"p0.*{reason}.*give the partition"):
        data_file(table, EVENTS, spec=spec_of(transform))


def test_a_partition_needs_statistics():
    table = events([1, 1], [1, 1], ["a", "a"])
    metadata = parquet(table, write_statistics=False).metadata
    columns = column_metrics(metadata, schema=EVENTS, location=LOCATION)
    spec = spec_of((1, "identity"))
    with pytest.raises(InvalidInput, match="no bounds"):
        infer_partition(columns, schema=EVENTS, spec=spec, location=LOCATION)
    uncounted = {i: msgspec.structs.replace(one, nulls=None) for i, one in columns.items()}
    with pytest.raises(InvalidInput, match="count nulls"):
        infer_partition(uncounted, schema=EVENTS, spec=spec, location=LOCATION)


@pytest.mark.parametrize("zeros", [[0.0], [-0.0], [-0.0, 0.0]])
def test_a_float_partition_of_zeros_must_be_given(zeros):
    """0.0 and -0.0 are two partitions, and the footers of both say the same."""
    table, spec = pa.table({"d": zeros}), spec_of((4, "identity"))
    with pytest.raises(InvalidInput, match="sign"):
        data_file(table, EVENTS, spec=spec, nan_counts={4: 0})


def test_a_float_partition_needs_to_know_that_there_is_no_nan():
    table = pa.table({"d": [1.0, math.nan]})
    spec = spec_of((4, "identity"))
    with pytest.raises(InvalidInput, match="NaN"):
        data_file(table, EVENTS, spec=spec)
    with pytest.raises(InvalidInput, match="NaN"):
        data_file(table, EVENTS, spec=spec, nan_counts={4: 1})
    assert data_file(pa.table({"d": [1.0, 1.0]}), EVENTS, spec=spec, nan_counts={4: 0}).partition == (1.0,)


def test_a_given_partition_must_have_the_specs_length():
    table = events([1], [1], ["a"])
    assert data_file(table, EVENTS, spec=spec_of((1, "identity")), partition=(5,)).partition == (5,)
    with pytest.raises(InvalidInput, match="2 partition values for 1"):
        data_file(table, EVENTS, spec=spec_of((1, "identity")), partition=(5, 6))
