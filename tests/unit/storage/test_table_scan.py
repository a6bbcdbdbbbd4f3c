"""from __future__ import annotations"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.model.datafile import DataFile, FileFormat
from firn.model.delete_index import partition_key
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
from firn.model.partitioning import UNPARTITIONED, partition_of
from firn.model.transforms import parse_transform
from firn.storage.table_scan import plan_scan
from tests.strategies import expressions as all_types
from tests.strategies.small_tables import SmallTable, flat
from tests.unit.storage.scanned_tables import (
    BY_REGION,
    SCHEMA,
    deletes,
    partition_field,
    paths,
    plan,
    row,
    spec_of,
)

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
