"""Deletes of every kind in scans, end to end."""

from __future__ import annotations

import math

import msgspec
import pytest

from firn.model.errors import CorruptFile
from firn.model.expressions.predicates import (
    eq,
)
from firn.model.schema import Schema
from firn.model.types import LONG, STRING, StructType
from tests.strategies.small_tables import SmallTable
from tests.unit.storage.scanned_tables import (
    BY_REGION,
    ID,
    SCHEMA,
    column,
    deletes,
    plan,
    row,
    spec_of,
)


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_position_deletes_reach_files_of_their_own_commit_and_no_younger_ones(format):
    table = SmallTable(SCHEMA)
    file = table.data([row(1), row(2)], file_format=format)
    table.commit(file, table.positions({file.file_path: [0]}, like=file, file_format=format))
    table.commit(removed=[file], operation="delete")
    assert table.rows() == []
    again = SmallTable(SCHEMA)
    younger = again.data([row(1), row(2)])
    again.commit(again.positions({younger.file_path: [0]}, like=younger), operation="delete")
    again.commit(younger)
    assert len(again.rows()) == 2


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_equality_deletes_reach_only_files_of_earlier_commits(format):
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1), row(2)]))
    table.commit(table.data([row(1, "new")]), table.equality([{1: 1}], (1,), file_format=format), operation="overwrite")
    assert [(one[1], one[2]) for one in table.rows(columns=["id", "region"])] == [(1, "new"), (2, "eu")]


def test_rewritten_files_keep_their_age_so_that_deletes_reach_them_as_before():
    table = SmallTable(SCHEMA)
    old, gone = table.data([row(1), row(2)]), table.data([row(5)])
    table.commit(old, gone)
    table.commit(table.equality([{1: 1}], (1,)), operation="delete")
    table.commit(table.data([row(1, "again")]))
    # The manifest with `old` is rewritten by this commit, and `old` stays as old as it is.
    table.commit(removed=[gone], operation="delete")
    assert sorted((one[1], one[2]) for one in table.rows()) == [(1, "again"), (2, "eu")]


def test_equality_deletes_of_one_partition_spare_the_others():
    table = SmallTable(SCHEMA, BY_REGION)
    europe, america = table.data_by_partition([row(1), row(2), row(1, "us")])
    table.commit(europe, america)
    table.commit(table.equality([{1: 1}], (1,), like=europe), operation="delete")
    assert sorted((one[1], one[2]) for one in table.rows()) == [(1, "us"), (2, "eu")]
    table.commit(table.equality([{1: 1}], (1,)), operation="delete")
    assert [one[1] for one in table.rows()] == [2]


@pytest.mark.parametrize(("one", "other", "deleted"), [(math.nan, math.nan, True), (0.0, -0.0, False)])
def test_deletes_find_the_partition_of_a_float(one, other, deleted):
    table = SmallTable(SCHEMA, spec_of((3, "identity")))
    file, like = table.data([row(1, score=one)]), table.data([row(2, score=other)])
    table.commit(file)
    table.commit(table.equality([{1: 1}], (1,), like=like), operation="delete")
    assert table.rows() == [] if deleted else len(table.rows()) == 1


def test_a_vector_replaces_the_position_deletes_of_an_upgraded_table():
    table = SmallTable(SCHEMA, version=2)
    file, other = table.data([row(1), row(2), row(3)]), table.data([row(4), row(5)])
    table.commit(file, other)
    table.commit(table.positions({file.file_path: [0], other.file_path: [0]}, like=file), operation="delete")
    table.metadata = msgspec.structs.replace(table.metadata, format_version=3, next_row_id=0)
    vector = table.vector(file, [0, 1])
    table.commit(vector, operation="delete")
    assert deletes(table)[file.file_path] == [vector.file_path]
    assert sorted(one[1] for one in table.rows()) == [3, 5]


def test_two_vectors_of_one_file_are_refused_naming_both():
    table = SmallTable(SCHEMA, version=3)
    file = table.data([row(1), row(2)])
    table.commit(file)
    vectors = [table.vector(file, [at]) for at in range(2)]
    table.commit(*vectors, operation="delete")
    with pytest.raises(CorruptFile) as error:
        plan(table)
    assert all(name in str(error.value) for name in [file.file_path, *(one.file_path for one in vectors)])


def test_a_column_dropped_since_still_deletes():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1), row(2, "us", x=7), row(3, "us", x=8)]))
    table.commit(table.equality([{2: "eu"}], (2,)), table.equality([{4: {5: 8}}], (5,)), operation="delete")
    table.with_schema(ID, column(4, "s", StructType((column(6, "y", STRING),))))
    assert table.rows() == [{1: 2, 4: {6: "y7"}}]


def test_a_required_column_dropped_since_is_null_in_files_without_it():
    key = column(7, "key", LONG, required=True)
    before = Schema(schema_id=0, struct=StructType((ID, key)))
    table = SmallTable(before)
    table.commit(table.data([{1: 1, 7: 10}, {1: 2, 7: 20}]))
    late = table.equality([{7: 10}], (7,))
    table.with_schema(ID)
    table.commit(table.data([{1: 3}]))
    table.commit(late, operation="delete")
    assert sorted(one[1] for one in table.rows()) == [2, 3]


def test_a_column_added_since_deletes_rows_by_its_default():
    table = SmallTable(SCHEMA, version=3)
    table.commit(table.data([row(1), row(2)]))
    plain, preset = column(7, "plain", LONG), column(8, "preset", LONG, default=5)
    table.with_schema(ID, plain, preset)
    table.commit(table.data([{1: 3, 7: 1, 8: 1}]))
    assert [one[1] for one in table.rows(filter=eq("preset", 5))] == [1, 2]
    table.commit(table.equality([{8: 5}], (8,)), operation="delete")
    assert [one[1] for one in table.rows()] == [3]
    table.commit(table.data([row(4)], schema=SCHEMA), operation="append")
    table.commit(table.equality([{7: None}], (7,)), operation="delete")
    assert [one[1] for one in table.rows()] == [3]
