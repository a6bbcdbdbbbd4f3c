import msgspec
import pytest

from firn.model.errors import ChangesUnavailableError, InvalidInput, InvalidMetadata, NotFound
from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import with_ref
from firn.model.scan_target import scan_target, snapshots_in_range
from firn.model.schema import Schema
from firn.model.snapshot import SnapshotRef
from firn.model.types import LONG, NestedField, StructType
from tests.strategies.metadata import START_MS, appended, table

NEWER = Schema(schema_id=1, struct=StructType((NestedField(field_id=3, name="only", type=LONG, required=False),)))


@pytest.fixture
def history() -> TableMetadata:
    """Snapshots 1, 2, 3 of schema 0 on main, 20 on a branch from 2; the current schema is 1."""
    metadata = appended(table(), 1, 2)
    metadata = appended(metadata, 20, branch="audit", step=100)
    metadata = appended(metadata, 3)
    metadata = with_ref(metadata, "v1", SnapshotRef(snapshot_id=1, type="tag"))
    return msgspec.structs.replace(metadata, schemas=(*metadata.schemas, NEWER), current_schema_id=1)


def ids(target) -> tuple[int | None, int]:
    return None if target.snapshot is None else target.snapshot.snapshot_id, target.schema.schema_id


@pytest.mark.parametrize(
    ("named", "snapshot_and_schema"),
    [
        ({}, (3, 1)),
        ({"ref": "main"}, (3, 1)),
        ({"ref": "audit"}, (20, 1)),
        ({"ref": "v1"}, (1, 0)),
        ({"snapshot_id": 3}, (3, 0)),
        ({"snapshot_id": 20}, (20, 0)),
        ({"as_of_ms": START_MS + 1000}, (1, 0)),
        ({"as_of_ms": START_MS + 1999}, (1, 0)),
        ({"as_of_ms": START_MS + 2500}, (2, 0)),  # what happened on a branch at 2000 is not main's
        ({"as_of_ms": 2**60}, (3, 0)),
    ],
)
def test_branches_are_read_with_the_tables_schema_and_snapshots_with_their_own(history, named, snapshot_and_schema):
    assert ids(scan_target(history, **named)) == snapshot_and_schema


def test_an_empty_table_has_a_schema_but_no_snapshot():
    assert ids(scan_target(table())) == (None, 0)
    assert ids(scan_target(table(), ref="main")) == (None, 0)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"ref": "nowhere"}, "branch or tag 'nowhere'"),
        ({"snapshot_id": 99}, "no snapshot 99: it expired"),
        ({"as_of_ms": START_MS + 999}, "history begins later"),
    ],
)
def test_what_does_not_exist_is_named(history, named, message):
    with pytest.raises(NotFound, match=message):
        scan_target(history, **named)


def test_a_time_whose_snapshot_expired_is_not_answered_with_another(history):
    expired = msgspec.structs.replace(history, snapshots=history.snapshots[1:])
    with pytest.raises(NotFound, match="snapshot 1 of"):
        scan_target(expired, as_of_ms=START_MS + 1500)


@pytest.mark.parametrize("named", [{"ref": "main", "snapshot_id": 1}, {"snapshot_id": 1, "as_of_ms": 1}])
def test_a_scan_names_its_snapshot_in_one_way(history, named):
    with pytest.raises(InvalidInput, match="one of"):
        scan_target(history, **named)


def test_a_snapshot_that_does_not_say_its_schema_is_read_with_the_current_one(history):
    first = msgspec.structs.replace(history.snapshots[0], schema_id=None)
    old = msgspec.structs.replace(history, snapshots=(first, *history.snapshots[1:]))
    assert ids(scan_target(old, snapshot_id=1)) == (1, 1)


def test_a_snapshot_whose_schema_is_gone_is_an_error(history):
    broken = msgspec.structs.replace(history, schemas=(NEWER,))
    with pytest.raises(InvalidMetadata, match="schema 0"):
        scan_target(broken, snapshot_id=1)
    assert ids(scan_target(broken)) == (3, 1)


# ---------------------------------------------------------------------------------------------------------------------
# Ranges


def between(metadata, first, last, *, inclusive=False) -> list[int]:
    found = snapshots_in_range(metadata, from_snapshot_id=first, from_inclusive=inclusive, to_snapshot_id=last)
    return [snapshot.snapshot_id for snapshot in found]


def test_a_range_is_oldest_first_and_begins_after_or_with_its_first(history):
    assert between(history, 1, 3) == [2, 3]
    assert between(history, 1, 3, inclusive=True) == [1, 2, 3]
    assert between(history, None, 3) == [1, 2, 3]
    assert between(history, 3, 3) == []
    assert between(history, 3, 3, inclusive=True) == [3]
    assert between(history, 1, 20) == [2, 20]


def test_a_range_may_begin_after_an_expired_snapshot_but_not_with_it(history):
    expired = msgspec.structs.replace(history, snapshots=history.snapshots[1:])
    assert between(expired, 1, 3) == [2, 3]
    assert between(expired, None, 3) == [2, 3]
    with pytest.raises(InvalidInput, match="snapshot 1 is not an ancestor of 3"):
        between(expired, 1, 3, inclusive=True)


@pytest.mark.parametrize("first", [20, 99])
def test_a_range_that_does_not_begin_in_the_history_of_its_end_is_refused(history, first):
    with pytest.raises(InvalidInput, match=f"snapshot {first} is not an ancestor of 3"):
        between(history, first, 3)


def test_a_range_ends_at_a_snapshot_that_exists(history):
    with pytest.raises(ChangesUnavailableError, match="snapshot 99") as refused:
        between(history, 1, 99)
    assert refused.value.reason == "end-unknown"


def test_snapshots_that_are_each_others_parents_do_not_go_on_for_ever(history):
    ring = msgspec.structs.replace(history.snapshots[0], parent_snapshot_id=3)
    looped = msgspec.structs.replace(history, snapshots=(ring, *history.snapshots[1:]))
    with pytest.raises(InvalidInput, match="not an ancestor"):
        between(looped, 99, 3)
