"""What changed is told exactly, or refused with the reason."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from firn.model.ancestry import ancestors_of
from firn.model.datafile import DataFile
from firn.model.errors import ChangesUnavailableError
from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import TRUE
from firn.model.manifest import Status
from firn.model.metadata_changes import remove_snapshots, with_ref
from firn.model.partitioning import PartitionField
from firn.model.reserved import METADATA_COLUMNS, ROW_ID_ID
from firn.model.scan_plan import FileScanTask, ScanMetrics, ScanPlan
from firn.model.schema import Schema
from firn.model.snapshot import SnapshotRef
from firn.model.types import LONG, STRING, NestedField, StructType
from firn.storage.incremental_scan import SnapshotRange, plan_appends, plan_changes
from firn.storage.scan_planner import projection_of
from firn.storage.scan_rows import scan_rows
from firn.storage.snapshot_changes import SnapshotChanges, changes_of
from firn.storage.table_scan import plan_scan
from tests.strategies.small_tables import START_MS, SmallTable

ID = NestedField(field_id=1, name="id", type=LONG, required=True)
REGION = NestedField(field_id=2, name="region", type=STRING, required=False)
SCHEMA = Schema(schema_id=0, struct=StructType((ID, REGION)))
Rows = Counter[tuple[Any, ...]]


def rows(*ids: int, region: str = "eu") -> list[dict[int, Any]]:
    return [{1: id, 2: region} for id in ids]


def of_tasks(table: SmallTable, tasks: Iterable[FileScanTask], *names: str) -> Rows:
    schema = table.metadata.current_schema
    columns = [*(field.name for field in schema.fields), *names]
    projection = projection_of(schema, columns, case_sensitive=True)
    plan = ScanPlan(
        snapshot_id=None, schema=schema, projection=projection, filter=bind(TRUE, schema), tasks=tuple(tasks),
        metrics=ScanMetrics(),
    )  # fmt: skip
    found = (row for part in scan_rows(plan, table.metadata, files=table.files) for row in part)
    return Counter(tuple(row[field.field_id] for field in projection.fields) for row in found)


def told(table: SmallTable, **window: Any) -> list[SnapshotChanges]:
    metadata = table.metadata
    found = SnapshotRange(**window).resolve(metadata)
    bound = bind(TRUE, metadata.current_schema)
    return list(changes_of(metadata, found, manifests=table.reader, files=table.files, filter=bound))


def applied(table: SmallTable, base: Rows, one: SnapshotChanges, *names: str) -> Rows:
    """The rows after a change, of those before it. A row that goes has to be there."""
    result = Counter(base)
    came = of_tasks(table, one.inserted, *names) + of_tasks(table, one.after, *names)
    went = of_tasks(table, one.deleted, *names) + of_tasks(table, one.before, *names)
    assert not went - (result + came)
    result.update(came)
    result.subtract(went)
    return +result


def ids(counter: Rows) -> list[int]:
    return sorted(row[0] for row in counter.elements())


def summary(table: SmallTable, one: SnapshotChanges) -> tuple[list[int], list[int]]:
    """The ids that came, and those that went."""
    before, after = of_tasks(table, one.before), of_tasks(table, one.after)
    return ids(of_tasks(table, one.inserted) + (after - before)), ids(of_tasks(table, one.deleted) + (before - after))


def expire(table: SmallTable, *snapshot_ids: int) -> None:
    table.metadata = remove_snapshots(table.metadata, snapshot_ids, now_ms=START_MS)


def set_main(table: SmallTable, snapshot_id: int) -> None:
    table.metadata = with_ref(table.metadata, "main", SnapshotRef(snapshot_id=snapshot_id, type="branch"))
    table.metadata = msgspec.structs.replace(table.metadata, current_snapshot_id=snapshot_id)


def reason(table: SmallTable, **window: Any) -> str:
    with pytest.raises(ChangesUnavailableError) as refused:
        told(table, **window)
    return refused.value.reason


# ---------------------------------------------------------------------------------------------------------------------
# What is told where the snapshot that the window begins after expired


def copied(table: SmallTable, file: DataFile) -> None:
    table.commit(table.data(rows(2)), removed=[file], operation="overwrite")


def removed(table: SmallTable, file: DataFile) -> None:
    table.commit(removed=[file], operation="delete")


def deleted_by_position(table: SmallTable, file: DataFile) -> None:
    table.commit(table.positions({file.file_path: [0]}, like=file), operation="delete")


def deleted_by_value(table: SmallTable, file: DataFile) -> None:
    table.commit(table.equality([{1: 1}], (1,), like=file), operation="delete")


def deleted_by_vector(table: SmallTable, file: DataFile) -> None:
    table.commit(table.vector(file, [0]), operation="delete")


def appended(table: SmallTable, _: DataFile) -> None:
    table.commit(table.data(rows(7)))


KINDS: list[tuple[Callable[[SmallTable, DataFile], None], int, list[int], list[int]]] = [
    (appended, 1, [7], []),
    (appended, 2, [7], []),
    (copied, 1, [2], [1, 2]),
    (copied, 2, [2], [1, 2]),
    (removed, 1, [], [1, 2]),
    (removed, 3, [], [1, 2]),
    (deleted_by_position, 2, [], [1]),
    (deleted_by_value, 2, [], [1]),
    (deleted_by_value, 3, [], [1]),
    (deleted_by_vector, 3, [], [1]),
]


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize(("change", "version", "came", "went"), KINDS)
def test_a_change_is_told_by_its_entries_whether_or_not_its_parent_expired(change, version, came, went, expired):
    table = SmallTable(SCHEMA, version=version)
    file = table.data(rows(1, 2))
    table.commit(file, table.data(rows(3)))
    change(table, file)
    if expired:
        expire(table, 1)
    [one] = told(table, from_snapshot_id=1)
    assert (one.snapshot_id, *summary(table, one)) == (2, came, went)
    [first] = told(table, from_snapshot_id=2, from_inclusive=True)
    assert summary(table, first) == (came, went)


def test_of_a_replaced_vector_only_the_new_positions_are_told():
    table = SmallTable(SCHEMA, version=3)
    file = table.data(rows(1, 2, 3))
    table.commit(file)
    old, new = table.vector(file, [0]), table.vector(file, [0, 2])
    table.commit(old, operation="delete")
    table.commit(new, removed=[old], operation="delete")
    expire(table, 1, 2)
    [one] = told(table, from_snapshot_id=2)
    assert summary(table, one) == ([], [3])


def test_rows_that_come_back_because_their_deletes_went_are_inserted():
    table = SmallTable(SCHEMA)
    file = table.data(rows(1, 2))
    table.commit(file)
    deletes = table.positions({file.file_path: [1]}, like=file)
    table.commit(deletes, operation="delete")
    table.commit(removed=[deletes], operation="overwrite")
    assert [summary(table, one) for one in told(table, from_snapshot_id=1)] == [([], [2]), ([2], [])]


def test_rewritten_manifests_and_replaced_files_are_no_changes():
    table = SmallTable(SCHEMA)
    one, two = table.data(rows(1)), table.data(rows(2))
    table.commit(one)
    table.commit(two)
    table.rewrite_manifests()
    table.commit(table.data(rows(1, 2)), removed=[one, two], operation="replace")
    table.commit(table.data(rows(3)))
    assert [(one.snapshot_id, *summary(table, one)) for one in told(table, from_snapshot_id=2)] == [(5, [3], [])]
    expire(table, 1, 2, 3, 4)
    assert [(one.ordinal, *summary(table, one)) for one in told(table)] == [(0, [3], [])]


def test_a_row_updated_twice_is_told_twice():
    table = SmallTable(SCHEMA, version=3)
    first, second = table.data(rows(1)), table.data(rows(1, region="us"))
    table.commit(first)
    table.commit(second, removed=[first], operation="overwrite")
    table.commit(table.data(rows(1, region="fi")), removed=[second], operation="overwrite")
    base = of_tasks(table, told(table)[0].inserted)
    seen = [base]
    for one in told(table, from_snapshot_id=1):
        seen.append(applied(table, seen[-1], one))
    assert seen == [Counter({(1, region): 1}) for region in ("eu", "us", "fi")]


def test_changes_are_read_in_the_columns_and_specs_of_today():
    table = SmallTable(SCHEMA)
    file = table.data(rows(1, 2))
    table.commit(file)
    table.with_schema(ID, NestedField(field_id=3, name="extra", type=LONG, required=False))
    table.with_spec(PartitionField(source_ids=(1,), field_id=1000, name="id", transform="identity"))
    table.commit(table.data([{1: 5, 3: 9}]), removed=[file], operation="overwrite")
    expire(table, 1)
    [one] = told(table, from_snapshot_id=1)
    assert of_tasks(table, one.inserted) == Counter([(5, 9)])
    assert of_tasks(table, one.deleted) == Counter([(1, None), (2, None)])


def test_rows_keep_their_lineage_in_what_is_told():
    table = SmallTable(SCHEMA, version=3)
    first, second = table.data(rows(1)), table.data(rows(2))
    table.commit(first, second)
    table.commit(removed=[second], operation="delete")
    lineage = ("_row_id", "_last_updated_sequence_number")
    [one] = told(table, from_snapshot_id=1)
    assert of_tasks(table, one.deleted, *lineage) == Counter([(2, "eu", 1, 1)])
    expire(table, 1)
    [again] = told(table, from_snapshot_id=1)
    assert of_tasks(table, again.deleted, *lineage) == Counter([(2, "eu", 1, 1)])
    assert METADATA_COLUMNS["_row_id"].field_id == ROW_ID_ID


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def three() -> SmallTable:
    table = SmallTable(SCHEMA)
    for number in (1, 2, 3):
        table.commit(table.data(rows(number)))
    return table


def test_each_refusal_says_its_reason():
    table = three()
    assert reason(table, from_snapshot_id=3, to_snapshot_id=2) == "end-before-start"
    assert reason(table, from_snapshot_id=1, to_snapshot_id=99) == "end-unknown"
    assert reason(table, from_snapshot_id=99) == "history-rewritten"
    assert reason(table, from_snapshot_id=1, table_uuid="of-another") == "table-replaced"
    assert told(table, from_snapshot_id=3) == told(table, from_snapshot_id=2, to_snapshot_id=2) == []
    assert len(told(table, from_snapshot_id=1, table_uuid=table.metadata.table_uuid)) == 2
    assert reason(SmallTable(SCHEMA), from_snapshot_id=1) == "history-rewritten"


def test_a_window_over_an_expired_snapshot_is_refused():
    table = three()
    expire(table, 2)
    assert reason(table, from_snapshot_id=1) == "history-gap"
    assert [one.snapshot_id for one in told(table, from_snapshot_id=2)] == [3]
    expire(table, 1)
    assert reason(table, from_snapshot_id=1) == "base-expired"
    assert reason(table, from_snapshot_id=2, from_inclusive=True) == "base-expired"
    assert reason(table, from_beginning=True) == "base-expired"
    assert len(told(three(), from_beginning=True)) == 3


def test_a_base_that_a_tag_keeps_does_not_close_a_gap():
    table = three()
    table.metadata = with_ref(table.metadata, "seen", SnapshotRef(snapshot_id=1, type="tag"))
    expire(table, 2)
    assert reason(table, from_snapshot_id=1) == "history-gap"


def test_a_branch_that_was_set_back_is_a_history_that_was_rewritten():
    table = three()
    set_main(table, 1)
    assert reason(table, from_snapshot_id=3) == "history-rewritten"
    table.commit(table.data(rows(4)))
    assert reason(table, from_snapshot_id=3) == reason(table, from_snapshot_id=2) == "history-rewritten"
    assert [summary(table, one) for one in told(table, from_snapshot_id=1)] == [([4], [])]
    expire(table, 2, 3)
    assert reason(table, from_snapshot_id=3) == "history-rewritten"


def test_branches_that_parted_after_what_is_known_are_told_apart_from_a_gap():
    table = three()
    table.commit(table.data(rows(4)), branch="audit")
    table.commit(table.data(rows(5)))
    expire(table, 1, 2)
    assert reason(table, from_snapshot_id=4) == "history-rewritten"
    assert [summary(table, one) for one in told(table, from_snapshot_id=3, branch="audit")] == [([4], [])]


def test_deleted_files_that_were_removed_with_the_base_are_not_passed_over():
    table = SmallTable(SCHEMA)
    file = table.data(rows(1))
    table.commit(file)
    table.commit(removed=[file], operation="delete")
    expire(table, 1)
    table.files.delete(file.file_path)
    assert reason(table, from_snapshot_id=1) == "files-gone"


def test_metadata_that_is_gone_is_not_passed_over():
    table = three()
    location = table.metadata.snapshots[1].manifest_list
    assert location is not None
    table.files.delete(location)
    assert reason(table, from_snapshot_id=1) == "files-gone"
    for plan in (plan_appends, plan_changes):
        with pytest.raises(ChangesUnavailableError) as refused:
            plan(table.metadata, files=table.reader)
        assert refused.value.reason == "files-gone"


@pytest.mark.parametrize(
    ("operation", "counts", "refused"),
    [
        ("delete", {}, True),
        ("overwrite", {"deleted-data-files": "1", "added-data-files": "0"}, True),
        ("overwrite", {"removed-delete-files": "2"}, True),
        ("append", {"added-data-files": "3"}, True),
        ("append", {"added-data-files": "0", "total-data-files": "1"}, False),
    ],
)
def test_a_snapshot_whose_writer_left_no_entries_is_refused_once_its_parent_expired(operation, counts, refused):
    table = three()
    table.commit(operation=operation, counts=counts)
    assert len(told(table, from_snapshot_id=3)) == 1  # compared with its parent, which is there
    expire(table, 1, 2, 3)
    if refused:
        assert reason(table, from_snapshot_id=3) == "entries-unusable"
    else:
        assert [summary(table, one) for one in told(table, from_snapshot_id=3)] == [([], [])]


def test_appends_whose_files_are_not_recorded_as_added_are_refused():
    table = three()
    table.commit(operation="append", counts={"added-data-files": "1"})
    with pytest.raises(ChangesUnavailableError, match="its summary says added-data-files 1") as found:
        plan_appends(table.metadata, files=table.reader, snapshots=SnapshotRange(from_snapshot_id=3))
    assert found.value.reason == "entries-unusable"


# ---------------------------------------------------------------------------------------------------------------------
# Random histories


class History:
    """A table with a random past, and the rows at each of its snapshots."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = seed % 3 + 1
        self.table = SmallTable(SCHEMA, version=self.version)
        self.number = 0
        self.rows: dict[int, Rows] = {}
        self.files_removed = False
        self.append()

    def step(self) -> None:
        steps = [self.append, self.append, self.copy, self.drop_file, self.compact, self.rewrite, self.expire]
        steps += [self.roll_back, self.remove_files]
        steps += [self.delete_positions, self.delete_values] if self.version > 1 else []
        self.random.choice(steps)()
        head = self.table.metadata.current_snapshot_id
        assert head is not None
        self.rows.setdefault(head, Counter((row[1], row[2]) for row in self.table.rows()))

    def append(self) -> None:
        count = self.random.randint(1, 3)
        self.table.commit(self.table.data(rows(*(self.number + at for at in range(count)))))
        self.number += count

    def live(self) -> list[FileScanTask]:
        table = self.table
        return list(plan_scan(table.metadata, files=table.reader).tasks)

    def copy(self) -> None:
        """Rewrite a file without one of its rows, and with another changed."""
        live = self.live()
        if live:
            task = self.random.choice(live)
            kept = [{1: id, 2: region} for id, region in of_tasks(self.table, [task]).elements()][1:]
            kept = [{1: row[1], 2: "x"} if at == 0 else row for at, row in enumerate(kept)]
            self.table.commit(*self.file_of(kept), removed=[task.file], operation="overwrite")

    def drop_file(self) -> None:
        live = self.live()
        if live:
            self.table.commit(removed=[self.random.choice(live).file], operation="delete")

    def delete_positions(self) -> None:
        free = [task for task in self.live() if not any(one.is_deletion_vector for one in task.deletes)]
        if free:
            file = self.random.choice(free).file
            position = self.random.randrange(file.record_count)
            made = (
                self.table.vector(file, [position])
                if self.version > 2
                else self.table.positions({file.file_path: [position]}, like=file)
            )
            self.table.commit(made, operation="delete")

    def delete_values(self) -> None:
        self.table.commit(self.table.equality([{1: self.random.randrange(self.number)}], (1,)), operation="delete")

    def compact(self) -> None:
        live = self.live()
        kept = [{1: id, 2: region} for id, region in of_tasks(self.table, live).elements()]
        vectors = {one.file_path: one for task in live for one in task.deletes if one.is_deletion_vector}
        gone = [*(task.file for task in live), *vectors.values()]
        self.table.commit(*self.file_of(kept), removed=gone, operation="replace")

    def rewrite(self) -> None:
        self.table.rewrite_manifests()

    def expire(self) -> None:
        known = [one.snapshot_id for one in self.table.metadata.snapshots]
        gone = known[: self.random.randrange(len(known))]
        if self.random.random() < 0.3:
            gone = [one for one in known if self.random.random() < 0.3]
        expire(self.table, *(one for one in gone if one != self.table.metadata.current_snapshot_id))

    def roll_back(self) -> None:
        past = list(ancestors_of(self.table.metadata, self.table.metadata.current_snapshot_id))
        set_main(self.table, self.random.choice(past[:3]).snapshot_id)

    def remove_files(self) -> None:
        """Remove the data files that no snapshot has live, as maintenance does."""
        table, used = self.table, set()
        for snapshot in table.metadata.snapshots:
            for manifest in table.reader.manifests(table.metadata, snapshot):
                entries = table.reader.entries(table.metadata, manifest)
                used |= {entry.data_file.file_path for entry in entries if entry.status is not Status.DELETED}
        for file in list(table.files.list(f"{table.metadata.location}/data")):
            if file.location not in used:
                table.files.delete(file.location)
                self.files_removed = True

    def file_of(self, kept: list[dict[int, Any]]) -> list[DataFile]:
        return [self.table.data(kept)] if kept else []


def attempt(table: SmallTable, base: int) -> list[SnapshotChanges] | str:
    """What is told from there on, or the reason for which nothing is."""
    try:
        return told(table, from_snapshot_id=base)
    except ChangesUnavailableError as error:
        return error.reason


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_rows_at_the_base_and_the_changes_are_the_rows_at_the_end_or_the_window_is_refused(first: int):
    exact, refused = 0, Counter[str]()
    for seed in range(first, first + 15):
        history = History(seed)
        for _ in range(10):
            history.step()
        table, end = history.table, history.table.metadata.current_snapshot_id
        assert end is not None
        for base in history.rows:
            changes = attempt(table, base)
            if isinstance(changes, str):
                refused[changes] += 1
                path = list(ancestors_of(table.metadata, end))
                assert base not in {one.snapshot_id for one in path}, "all of the window is there"
                if base in {one.parent_snapshot_id for one in path}:
                    assert changes == "files-gone"
                    assert history.files_removed
                continue
            state = history.rows[base]
            for one in changes:
                state = applied(table, state, one)
                assert state == history.rows[one.snapshot_id], f"seed {seed}: from {base} at {one.snapshot_id}"
            assert state == history.rows[end], f"seed {seed}: from {base} to {end}"
            exact += 1
    assert exact > 20
    assert sum(refused.values()) > 5
