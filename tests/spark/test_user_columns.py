"""Columns may have any name: every function reads and changes them, and none of firn's own gets in their way."""

from __future__ import annotations

from typing import Any

import pytest

from firn.pipeline.change_feed import read_changes
from firn.pipeline.compaction import compact
from firn.pipeline.compaction_rules import CompactionRules
from firn.pipeline.merge import Clauses, Insert, Update, merge
from firn.pipeline.ndv_statistics import compute_statistics
from firn.pipeline.reads import read
from firn.pipeline.row_changes import Mode
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.writes import append, replace_partitions
from tests.spark.lake import Lake, committed

NAMES = (
    "a.b",
    "a`b",
    "a b",
    "__firn_action",
    "__firn_clause",
    "__firn_in_table",
    "__firn_in_source",
    "__firn_z",
    "a/b",
)
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": at, "name": name, "type": "long" if at == 1 else "string", "required": False}
        for at, name in enumerate(NAMES, start=1)
    ],
}
PARTITION = [{"source-id": 1, "field-id": 1000, "name": "a.b_bucket", "transform": "bucket[2]"}]


def rows_of(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in read(lake.spark, table).collect())


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_columns_of_any_name_are_written_changed_and_read(lake: Lake, mode: Mode) -> None:
    table = lake.create_as(SCHEMA, version=3, partition=PARTITION)
    kinds = ", ".join(f"`{name.replace('`', '``')}` {'long' if at == 0 else 'string'}" for at, name in enumerate(NAMES))

    def frame(*keys: int) -> Any:
        return lake.spark.createDataFrame([(i, *(f"{name}{i}" for name in NAMES[1:])) for i in keys], kinds)

    committed(append(frame(1, 2, 3, 4), table))
    committed(update(lake.spark, table, {"__firn_action": "concat(`a.b`, '!')"}, "`a.b` = 2", mode=mode))
    committed(delete_where(lake.spark, table, "`a.b` = 3", mode=mode))
    clauses = Clauses(matched=(Update(),), not_matched=(Insert(),))
    committed(merge(frame(4, 5), table, on="t.`a.b` = s.`a.b`", clauses=clauses, mode=mode))
    rows = rows_of(lake, table)
    assert [row[0] for row in rows] == [1, 2, 4, 5]
    assert [row[3] for row in rows] == ["__firn_action1", "2!", "__firn_action4", "__firn_action5"]
    assert [row[7] for row in rows] == [f"__firn_z{i}" for i in (1, 2, 4, 5)]
    assert read(lake.spark, table, columns=["a.b"], filter="`a.b` > 2").count() == 2
    assert read_changes(lake.spark, table).count() >= len(rows)
    rules = CompactionRules(min_input_files=1, rewrite_all=True)
    done = compact(lake.spark, table, strategy="z-order", by=["a.b", "__firn_z"], rules=rules)
    assert done.ok
    assert done.groups
    assert rows_of(lake, table) == rows
    committed(replace_partitions(frame(*range(10, 20)), table))
    compute_statistics(lake.spark, table, columns=["a.b"])
