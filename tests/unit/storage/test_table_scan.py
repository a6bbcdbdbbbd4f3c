from __future__ import annotations

import io
import math
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.datafile import DataFile, FileFormat
from firn.model.delete_index import partition_key
from firn.model.errors import CorruptFile, InvalidInput, InvalidSchema, NotFound
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import (
    FALSE,
    TRUE,
    Expression,
    Not,
    eq,
    gt,
    is_in,
    is_nan,
    is_null,
    lt,
    not_eq,
    or_,
    starts_with,
)
from firn.model.expressions.row_filter import matches
from firn.model.metadata_changes import with_ref
from firn.model.name_mapping import NAME_MAPPING_PROPERTY
from firn.model.partitioning import UNPARTITIONED, PartitionField, PartitionSpec, partition_of
from firn.model.scan_plan import ScanPlan
from firn.model.schema import Schema
from firn.model.snapshot import Snapshot, SnapshotRef
from firn.model.transforms import parse_transform
from firn.model.types import DOUBLE, INT, LONG, STRING, ListType, NestedField, StructType, Type
from firn.storage.table_scan import plan_scan
from tests.strategies import expressions as all_types
from tests.strategies.small_tables import START_MS, SmallTable, flat


def column(field_id: int, name: str, type: Type, *, required: bool = False, default: Any = None) -> NestedField:
    return NestedField(field_id=field_id, name=name, type=type, required=required, initial_default=default)


ID, REGION, SCORE = column(1, "id", LONG, required=True), column(2, "region", STRING), column(3, "score", DOUBLE)
NESTED = column(4, "s", StructType((column(5, "x", INT), column(6, "y", STRING))))
SCHEMA = Schema(schema_id=0, struct=StructType((ID, REGION, SCORE, NESTED)))


def partition_field(source_id: int, transform: str, at: int = 0) -> PartitionField:
    return PartitionField(source_ids=(source_id,), field_id=1000 + at, name=f"part{at}", transform=transform)


def spec_of(*fields: tuple[int, str]) -> PartitionSpec:
    return PartitionSpec(
        spec_id=0, fields=tuple(partition_field(source, text, at) for at, (source, text) in enumerate(fields))
    )


BY_REGION = spec_of((2, "identity"))


def row(id: int, region: str | None = "eu", score: float | None = 0.5, x: int | None = None) -> dict[int, Any]:
    return {1: id, 2: region, 3: score, 4: None if x is None else {5: x, 6: f"y{x}"}}


def plan(table: SmallTable, **scan: Any) -> ScanPlan:
    return plan_scan(table.metadata, files=table.reader, **scan)


def paths(table: SmallTable, **scan: Any) -> list[str]:
    return [task.file.file_path for task in plan(table, **scan).tasks]


def deletes(table: SmallTable, **scan: Any) -> dict[str, list[str]]:
    """Paths of the deletes by that of their data file, for files that have any."""
    tasks = plan(table, **scan).tasks
    return {task.file.file_path: [delete.file_path for delete in task.deletes] for task in tasks if task.deletes}


# ---------------------------------------------------------------------------------------------------------------------
# No row is lost, none comes that should not


@st.composite
def filtered_tables(draw: st.DrawFn) -> tuple[SmallTable, list[dict[int, Any]], Expression]:
    """A table of every type in up to two specs, its rows, and a filter, often on columns that it is partitioned by."""
    sources = st.sampled_from(sorted(all_types.LEAVES))
    table = SmallTable(all_types.SCHEMA, UNPARTITIONED, version=3)
    content: list[dict[int, Any]] = []
    used: list[int] = []
    for _ in range(draw(st.integers(1, 2))):
        fields = []
        for at, source_id in enumerate(draw(st.lists(sources, max_size=2, unique=True))):
            type = all_types.LEAVES[source_id].type
            known = [text for text in all_types.TRANSFORMS[:-1] if parse_transform(text).can_transform(type)]
            fields.append(partition_field(source_id, draw(st.sampled_from(known)), len(used) + at))
        used += [field.source_id for field in fields]
        table.with_spec(*fields)
        rows = [unflattened(one) for one in draw(st.lists(all_types.rows(), min_size=1, max_size=3))]
        files = table.data_by_partition(rows, file_format=draw(st.sampled_from(["parquet", "avro"])))
        table.commit(*files)
        content += rows
    leaves = all_types.predicates() | all_types.predicates(tuple(used)) if used else all_types.predicates()
    return table, content, draw(all_types.expressions(leaves))


def unflattened(row: dict[int, Any]) -> dict[int, Any]:
    optional = None if row[60] is None else {61: row[61], 62: row[62]}
    top = {i: value for i, value in row.items() if i not in (61, 62, 71, 72)}
    return {**top, 60: optional, 70: {71: row[71], 72: row[72]}}


def in_any_order(rows: list[dict[int, Any]]) -> list[str]:
    return sorted(repr(sorted(flat(row, all_types.SCHEMA.struct).items())) for row in rows)


@given(filtered_tables())
def test_a_scan_finds_exactly_the_rows_that_match_its_filter(case):
    table, content, filter = case
    bound = bind(filter, all_types.SCHEMA)
    expected = [one for one in content if matches(bound, flat(one, all_types.SCHEMA.struct))]
    assert in_any_order(table.rows(filter=filter)) == in_any_order(expected)


FORMATS: st.SearchStrategy[FileFormat] = st.sampled_from(["parquet", "avro", "orc"])


class History:
    """A table under random appends and deletes, and beside it the rows that must be left, by the rules of time alone.

    Each commit's deletes are carried out at once on the rows that are there, by partition where the specification says.
    """

    def __init__(self, table: SmallTable, draw: st.DrawFn) -> None:
        self.table = table
        self.draw = draw
        self.live: dict[str, dict[int, dict[int, Any]]] = {}
        self.files: dict[str, DataFile] = {}
        self.vectors: dict[str, tuple[DataFile, set[int]]] = {}
        self.next_id = 0

    def append(self) -> None:
        regions, scores = st.sampled_from([None, "eu", "us"]), st.sampled_from([None, -0.0, 0.0, math.nan, 1.5])
        size = self.draw(st.integers(1, 5))
        rows = [row(self.next_id + at, self.draw(regions), self.draw(scores), x=at or None) for at in range(size)]
        self.next_id += size
        self.table.commit(*self.added(rows))

    def added(self, rows: list[dict[int, Any]]) -> list[DataFile]:
        format = self.draw(FORMATS)
        files = self.table.data_by_partition(rows, file_format=format)
        for file in files:
            mine = [one for one in rows if self.partition_of(one) == partition_key(file.spec_id, file.partition)]
            self.files[file.file_path] = file
            self.live[file.file_path] = dict(enumerate(mine))
        return files

    def partition_of(self, row: dict[int, Any]) -> Any:
        spec = self.table.metadata.default_spec
        return partition_key(spec.spec_id, partition_of(spec, SCHEMA, flat(row, SCHEMA.struct)))

    def delete_positions(self) -> None:
        """Position deletes for files of one partition, or in v3 a new vector for one file."""
        path = self.draw(st.sampled_from(sorted(self.files)))
        file = self.files[path]
        positions = set(self.draw(st.lists(st.integers(0, file.record_count - 1), min_size=1, max_size=3)))
        if self.table.metadata.format_version > 2:
            old, before = self.vectors.get(path, (None, set()))
            vector = self.table.vector(file, positions | before)
            self.vectors[path] = (vector, positions | before)
            self.table.commit(vector, removed=[] if old is None else [old], operation="delete")
            self.kill({path: positions})
            return
        key = partition_key(file.spec_id, file.partition)
        neighbours = [p for p, one in self.files.items() if partition_key(one.spec_id, one.partition) == key]
        named = {path: positions, self.draw(st.sampled_from(sorted(neighbours))): {0}}
        format = self.draw(FORMATS)
        self.table.commit(self.table.positions(named, like=file, file_format=format), operation="delete")
        self.kill(named)

    def delete_keys(self) -> None:
        """Equality deletes, of the whole table or of one partition, sometimes beside rows with those keys."""
        like = self.draw(st.none() | st.sampled_from(sorted(self.files)))
        file = None if like is None else self.files[like]
        ids = self.draw(st.sampled_from([(1,), (2,), (5,), (2, 6)]))
        keys = [
            {1: self.draw(st.integers(0, self.next_id)), 2: self.draw(st.sampled_from([None, "eu"])),
             4: self.draw(st.sampled_from([None, {5: 1, 6: "y1"}, {5: 2, 6: "y2"}]))}
            for _ in range(self.draw(st.integers(1, 2)))
        ]  # fmt: skip
        written = self.table.equality(keys, ids, like=file)
        values = [[flat(one, SCHEMA.struct).get(i) for i in ids] for one in keys]
        doomed = {
            path: {
                at for at, one in rows.items() if [flat(one, SCHEMA.struct).get(i) for i in ids] in values
            }
            for path, rows in self.live.items()
            if written.partition == ()
            or partition_key(written.spec_id, written.partition)
            == partition_key(self.files[path].spec_id, self.files[path].partition)
        }  # fmt: skip
        self.kill(doomed)
        upserted = self.added([row(self.next_id, "eu", x=1)]) if self.draw(st.booleans()) else []
        self.next_id += len(upserted)
        self.table.commit(written, *upserted, operation="overwrite")

    def kill(self, doomed: dict[str, set[int]]) -> None:
        for path, positions in doomed.items():
            for position in positions:
                self.live[path].pop(position, None)

    def remove(self) -> None:
        path = self.draw(st.sampled_from(sorted(self.files)))
        if path in self.vectors:
            return
        self.table.commit(removed=[self.files.pop(path)], operation="delete")
        self.live.pop(path)


FILTERS = st.recursive(
    st.sampled_from([
        TRUE, eq("region", "eu"), not_eq("region", "eu"), is_null("region"), lt("id", 4), gt("id", 7), eq("id", 3),
        is_nan("score"), lt("score", 1.0), gt("s.x", 1), is_null("s"), is_in("s.y", ["y1", "y3"]),
        starts_with("s.y", "y"),
    ]),
    lambda inner: st.builds(Not, inner) | st.builds(or_, inner, inner) | st.builds(lambda a, b: a & b, inner, inner),
    max_leaves=3,
)  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "spec", [UNPARTITIONED, BY_REGION, spec_of((3, "identity")), spec_of((2, "truncate[1]"), (1, "bucket[2]"))]
)
@settings(max_examples=20)
@given(data=st.data())
def test_rows_are_those_left_by_every_commit_in_turn(version, spec, data):
    history = History(SmallTable(SCHEMA, spec, version=version), data.draw)
    history.append()
    for _ in range(data.draw(st.integers(1, 6))):
        steps = [history.append, history.delete_positions, history.delete_keys, history.delete_keys, history.remove]
        data.draw(st.sampled_from(steps if history.files else steps[:1]))()
    filter = data.draw(st.just(TRUE) | FILTERS)
    bound = bind(filter, SCHEMA)
    left = [one for rows in history.live.values() for one in rows.values() if matches(bound, flat(one, SCHEMA.struct))]
    found = history.table.rows(filter=filter)
    assert sorted(map(repr, found)) == sorted(map(repr, left))
    ids = [one[1] for one in history.table.rows(filter=filter, columns=["id"])]
    assert sorted(ids) == sorted(one[1] for one in left)


# ---------------------------------------------------------------------------------------------------------------------
# What is left out, and what is not


def test_manifests_files_and_deletes_that_cannot_matter_are_counted_and_not_read():
    table = SmallTable(SCHEMA, BY_REGION)
    europe, america = table.data_by_partition([row(1), row(2), row(3, "us"), row(9, "us")])
    table.commit(europe)
    table.commit(america, table.data([row(20, "us")]))
    table.commit(table.positions({europe.file_path: [0]}, like=europe), operation="delete")
    table.commit(table.positions({america.file_path: [0]}, like=america), operation="delete")
    table.commit(table.equality([{1: 3}], (1,)), table.equality([{1: 20}], (1,)), operation="delete")
    found = plan(table, filter=eq("region", "us") & lt("id", 10))
    assert [task.file for task in found.tasks] == [america]
    assert [one.content for one in found.tasks[0].deletes] == ["equality-deletes", "position-deletes"]
    metrics = found.metrics
    assert (metrics.total_data_manifests, metrics.scanned_data_manifests, metrics.skipped_data_manifests) == (2, 1, 1)
    assert (metrics.total_delete_manifests, metrics.scanned_delete_manifests) == (3, 2)
    assert metrics.skipped_delete_manifests == 1
    assert (metrics.result_data_files, metrics.skipped_data_files) == (1, 1)
    assert (metrics.indexed_delete_files, metrics.skipped_delete_files) == (2, 1)
    assert (metrics.equality_delete_files, metrics.positional_delete_files, metrics.dvs) == (1, 1, 0)
    assert metrics.result_delete_files == 2
    assert metrics.total_file_size_in_bytes == america.file_size_in_bytes
    assert metrics.total_delete_file_size_in_bytes == found.tasks[0].size_bytes - america.file_size_in_bytes
    assert found.rows_max == 2


def test_files_without_metrics_and_their_deletes_are_left_out_by_their_partition():
    table = SmallTable(SCHEMA, BY_REGION)
    names = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    files = [
        msgspec.structs.replace(file, **dict.fromkeys(names))
        for file in table.data_by_partition([row(1), row(2, "us"), row(3, None)])
    ]
    table.commit(*files)
    table.commit(*(table.positions({file.file_path: [0]}, like=file) for file in files), operation="delete")
    found = plan(table, filter=eq("region", "us"))
    assert [task.file for task in found.tasks] == [files[1]]
    assert (found.metrics.skipped_data_files, found.metrics.skipped_delete_files) == (2, 2)


def test_a_deletion_vector_weighs_as_much_as_its_blob():
    table = SmallTable(SCHEMA, version=3)
    file = table.data([row(1), row(2)])
    vector = table.vector(file, [0])
    table.commit(file, vector)
    task = plan(table).tasks[0]
    assert vector.content_size_in_bytes is not None
    assert vector.content_size_in_bytes < vector.file_size_in_bytes
    assert task.size_bytes == file.file_size_in_bytes + vector.content_size_in_bytes


class Watched:
    """A reader that says which manifests were opened."""

    def __init__(self, reader) -> None:
        self.reader = reader
        self.opened: list[str] = []

    def manifests(self, metadata, snapshot):
        return self.reader.manifests(metadata, snapshot)

    def entries(self, metadata, manifest):
        self.opened.append(manifest.content)
        return self.reader.entries(metadata, manifest)


@pytest.mark.parametrize(
    ("filter", "opened"),
    [
        (TRUE, ["data", "data", "deletes"]),
        (eq("id", 2), ["data", "data"]),  # the file is younger than the deletes
        (eq("id", 1), ["data", "data", "deletes"]),
        (eq("id", 3), ["data", "data"]),  # no file is left that deletes could be for
        (FALSE, []),
    ],
)
def test_delete_manifests_older_than_all_files_are_not_opened(filter, opened):
    table = SmallTable(SCHEMA)
    file = table.data([row(1)])
    table.commit(file)
    table.commit(table.positions({file.file_path: [0]}, like=file), operation="delete")
    table.commit(table.data([row(2)]))
    watched = Watched(table.reader)
    plan_scan(table.metadata, files=watched, filter=filter)
    assert watched.opened == opened


def test_tombstones_and_manifests_of_nothing_else_are_left_out():
    table = SmallTable(SCHEMA)
    one, two = table.data([row(1)]), table.data([row(2)])
    table.commit(one, two)
    table.commit(removed=[one], operation="delete")
    assert paths(table) == [two.file_path]
    table.commit(removed=[two], operation="delete")
    found = plan(table)
    assert found.tasks == ()
    assert found.metrics.scanned_data_manifests == 0


def test_columns_that_equality_deletes_do_not_compare_do_not_rule_them_out():
    table = SmallTable(SCHEMA)
    file = table.data([row(1, "us", x=3), row(2, "us", x=4)])
    table.commit(file)
    # The delete file holds whole rows, of which only the id is compared; its region is that of an older version.
    whole = table.equality([row(1, "eu"), row(7, "eu")], (1,))
    stale = msgspec.structs.replace(
        whole,
        lower_bounds={**(whole.lower_bounds or {}), 2: b"eu"},
        upper_bounds={**(whole.upper_bounds or {}), 2: b"eu"},
        value_counts={**(whole.value_counts or {}), 2: 2},
        null_value_counts={**(whole.null_value_counts or {}), 2: 0},
    )
    table.commit(stale, operation="delete")
    assert deletes(table, filter=eq("region", "us")) == {file.file_path: [whole.file_path]}
    assert [one[1] for one in table.rows(filter=eq("region", "us"))] == [2]


def test_equality_deletes_of_rows_that_the_filter_leaves_out_are_left_out():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(id) for id in range(1, 11)]))
    table.commit(table.equality([{1: id} for id in range(1, 5)], (1,)), operation="delete")
    assert deletes(table, filter=eq("id", 9)) == {}
    assert deletes(table, filter=eq("id", 3)) != {}


def test_the_residual_is_what_the_partition_leaves_open():
    table = SmallTable(SCHEMA, BY_REGION)
    table.commit(*table.data_by_partition([row(1), row(2, "us"), row(3, None)]))
    filter = or_(eq("region", "eu"), gt("id", 1))
    found = plan(table, filter=filter)
    residuals = {task.file.partition: str(task.residual) for task in found.tasks}
    assert found.filter == bind(filter, SCHEMA)
    assert residuals == {("eu",): "true", ("us",): "id > 1", (None,): "id > 1"}


def test_each_spec_is_pruned_by_its_own_projection():
    table = SmallTable(SCHEMA, BY_REGION)
    by_region = table.data_by_partition([row(1), row(2, "us")])
    table.commit(*by_region)
    table.with_spec(partition_field(1, "bucket[8]", 1))
    by_bucket = table.data_by_partition([row(id) for id in range(10, 20)])
    table.commit(*by_bucket)
    found = plan(table, filter=eq("region", "eu") & eq("id", 10))
    assert [task.spec.spec_id for task in found.tasks] == [1]
    assert [task.spec.spec_id for task in plan(table, filter=eq("region", "us")).tasks] == [0]


# ---------------------------------------------------------------------------------------------------------------------
# Deletes of every kind, end to end


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


# ---------------------------------------------------------------------------------------------------------------------
# Columns


def test_rows_come_in_the_columns_asked_for_whatever_the_filter_needs():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1, x=1), row(2, x=2), row(3)]))
    assert table.rows(columns=["id"], filter=gt("s.x", 1)) == [{1: 2}]
    assert table.rows(columns=["s.y"], filter=gt("s.x", 1)) == [{4: {6: "y2"}}]
    assert table.rows(columns=["s.y"], filter=is_null("s")) == [{4: None}]
    assert table.rows(columns=["s"], filter=eq("region", "eu") & gt("s.x", 1)) == [{4: {5: 2, 6: "y2"}}]
    assert table.rows(columns=[], filter=eq("id", 1)) == [{}]
    assert table.rows(columns=["*"], filter=eq("id", 1)) == table.rows(filter=eq("id", 1))


def test_lists_are_cut_to_the_fields_asked_for():
    inner = StructType((column(11, "a", INT), column(12, "b", INT)))
    items = column(9, "items", ListType(element_id=10, element=inner, element_required=False))
    outer = column(8, "outer", StructType((items, column(13, "c", INT))))
    table = SmallTable(Schema(schema_id=0, struct=StructType((ID, outer))))
    table.commit(table.data([{1: 1, 8: {9: ({11: 1, 12: 2}, None), 13: 3}}, {1: 2, 8: None}]))
    wanted = ["outer.items.element.a"]
    assert table.rows(columns=wanted) == [{8: {9: ({11: 1}, None)}}, {8: None}]
    assert table.rows(columns=wanted, filter=Not(is_null("outer"))) == [{8: {9: ({11: 1}, None)}}]


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_columns_tell_where_rows_are_and_what_they_descend_from(version):
    table = SmallTable(SCHEMA, version=version)
    first, second = table.data([row(1), row(2)]), table.data([row(3)])
    table.commit(first)
    table.commit(second)
    names = ["id", "_file", "_pos", "_spec_id", "_row_id", "_last_updated_sequence_number"]
    found = plan(table, columns=names, filter=gt("id", 1))
    ids = {found.projection.column_name(i): i for i in found.projection.fields_by_id}
    rows = {one[1]: {name: one[i] for name, i in ids.items()} for one in table.rows(columns=names, filter=gt("id", 1))}
    lineage = [(0, 1, 1), (2, 0, 2)]
    for id, file, (start, position, number) in zip((2, 3), (first, second), lineage, strict=True):
        assert rows[id] == {
            "id": id,
            "_file": file.file_path,
            "_pos": position,
            "_spec_id": 0,
            "_row_id": start + position if version > 2 else None,
            "_last_updated_sequence_number": number if version > 2 else None,
        }


def test_a_column_called_like_a_metadata_column_is_the_tables():
    table = SmallTable(Schema(schema_id=0, struct=StructType((ID, column(2, "_pos", STRING)))))
    table.commit(table.data([{1: 1, 2: "mine"}]))
    assert table.rows(columns=["_pos"]) == [{2: "mine"}]


def test_names_may_differ_in_case_when_asked():
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1), row(2)]))
    assert table.rows(columns=["ID"], filter=eq("Id", 1), case_sensitive=False) == [{1: 1}]
    with pytest.raises(InvalidInput, match="Id"):
        plan(table, filter=eq("Id", 1))
    with pytest.raises(InvalidSchema, match="ID"):
        plan(table, columns=["ID"])


def test_files_without_ids_are_read_through_the_name_mapping():
    table = SmallTable(SCHEMA)
    sink = io.BytesIO()
    pq.write_table(pa.table({"number": [1, 2], "where": ["eu", "us"], "id": [8, 9]}), sink)
    foreign = DataFile(
        file_path="memory://wh/t/data/foreign.parquet",
        file_format="parquet",
        spec_id=0,
        record_count=2,
        file_size_in_bytes=sink.tell(),
    )
    table.files.create(foreign.file_path, sink.getvalue())
    table.commit(foreign, table.data([row(3)]))
    mapping = '[{"names": ["number"], "field-id": 1}, {"names": ["where"], "field-id": 2}]'
    table.metadata = msgspec.structs.replace(table.metadata, properties={NAME_MAPPING_PROPERTY: mapping})
    assert [(one[1], one[2]) for one in table.rows(filter=lt("id", 4))] == [(1, "eu"), (2, "us"), (3, "eu")]


# ---------------------------------------------------------------------------------------------------------------------
# Which snapshot, and which schema


@pytest.fixture
def evolved() -> SmallTable:
    """Two snapshots on main, with a column renamed between them and another added after both."""
    table = SmallTable(SCHEMA)
    table.commit(table.data([row(1)]))
    renamed = column(2, "area", STRING)
    table.with_schema(ID, renamed, SCORE, NESTED)
    table.commit(table.data([row(2)]))
    table.with_schema(ID, renamed, column(7, "extra", LONG))
    return table


def names(found: ScanPlan) -> list[str]:
    return [field.name for field in found.schema.fields]


def test_main_is_read_with_the_current_schema(evolved):
    for scan in ({}, {"ref": "main"}):
        found = plan(evolved, **scan)
        assert (found.snapshot_id, names(found)) == (2, ["id", "area", "extra"])
    assert sorted(map(repr, evolved.rows())) == ["{1: 1, 2: 'eu', 7: None}", "{1: 2, 2: 'eu', 7: None}"]


@pytest.mark.parametrize("scan", [{"snapshot_id": 1}, {"as_of_ms": START_MS + 1999}, {"ref": "first"}])
def test_a_snapshot_a_time_and_a_tag_are_read_with_the_schema_of_their_time(evolved, scan):
    evolved.metadata = with_ref(evolved.metadata, "first", SnapshotRef(snapshot_id=1, type="tag"))
    found = plan(evolved, filter=eq("region", "eu"), **scan)
    assert (found.snapshot_id, names(found)) == (1, ["id", "region", "score", "s"])
    assert [one[1] for one in evolved.rows(filter=eq("region", "eu"), **scan)] == [1]


def test_a_branch_is_read_with_the_current_schema(evolved):
    evolved.metadata = with_ref(evolved.metadata, "audit", SnapshotRef(snapshot_id=1, type="branch"))
    found = plan(evolved, ref="audit")
    assert (found.snapshot_id, names(found)) == (1, ["id", "area", "extra"])
    assert evolved.rows(ref="audit") == [{1: 1, 2: "eu", 7: None}]


def test_an_empty_table_has_nothing_to_read():
    found = plan(SmallTable(SCHEMA), filter=eq("id", 1), columns=["id"])
    assert (found.snapshot_id, found.tasks, found.rows_max) == (None, (), 0)


@pytest.mark.parametrize("scan", [{"snapshot_id": 9}, {"ref": "nowhere"}, {"as_of_ms": START_MS}])
def test_what_is_not_there_cannot_be_read(evolved, scan):
    with pytest.raises(NotFound):
        plan(evolved, **scan)


# ---------------------------------------------------------------------------------------------------------------------
# v1 tables that name their manifests


def embedded(table: SmallTable, **changes: Any) -> Snapshot:
    """The head of a v1 table as an old writer would have left it: with the manifests themselves, without a list."""
    head = table.metadata.current_snapshot
    assert head is not None
    paths = tuple(one.manifest_path for one in table.reader.manifests(table.metadata, head))
    given = {"manifest_list": None, "manifests": paths, **changes}
    table.metadata = msgspec.structs.replace(
        table.metadata, snapshots=(*table.metadata.snapshots[:-1], msgspec.structs.replace(head, **given))
    )
    return table.metadata.snapshots[-1]


def test_manifests_that_a_v1_snapshot_names_itself_are_read():
    table = SmallTable(SCHEMA, BY_REGION, version=1)
    gone, *rest = table.data_by_partition([row(1), row(2, "us"), row(3, None)])
    table.commit(gone, *rest)
    table.commit(table.data([row(4)]))
    table.commit(removed=[gone], operation="delete")
    embedded(table)
    assert sorted(one[1] for one in table.rows()) == [2, 3, 4]
    assert sorted(one[1] for one in table.rows(filter=eq("region", "eu"))) == [4]
    found = plan(table, filter=eq("region", "eu"))
    assert [task.sequence_number for task in found.tasks] == [0]


def test_a_manifest_named_twice_is_corrupt():
    table = SmallTable(SCHEMA, version=1)
    table.commit(table.data([row(1)]))
    named = embedded(table).manifests
    assert named is not None
    embedded_twice = (*named, *named)
    table.metadata = msgspec.structs.replace(
        table.metadata,
        snapshots=(msgspec.structs.replace(table.metadata.snapshots[0], manifests=embedded_twice),),
    )
    with pytest.raises(CorruptFile, match="twice"):
        plan(table)
