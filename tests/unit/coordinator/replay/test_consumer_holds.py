"""Expiry waits for a consumer of a table's changes, for as long as it may."""

from __future__ import annotations

from typing import Any

import pytest

from firn.coordinator.replay import holds
from firn.coordinator.replay.holds import Hold, holds_of_consumers, refs_held, snapshots_held
from firn.model.consumer import DAY_MS, Consumer, TableConsumers, status_of
from firn.model.metadata_changes import remove_snapshots, with_ref
from firn.model.schema import Schema
from firn.model.snapshot import SnapshotRef
from firn.model.types import LONG, NestedField, StructType
from tests.strategies.small_tables import START_MS, UUID, SmallTable

SCHEMA = Schema(schema_id=0, struct=StructType((NestedField(field_id=1, name="id", type=LONG, required=True),)))
NOW_MS = START_MS + 10_000


def table() -> SmallTable:
    """Snapshots 1, 2, 3 of main, 4 of a branch that left it at 2, 5 of main."""
    made = SmallTable(SCHEMA)
    for number in (1, 2):
        made.commit(made.data([{1: number}]))
    made.metadata = with_ref(made.metadata, "audit", SnapshotRef(snapshot_id=2, type="branch"))
    made.commit(made.data([{1: 3}]))
    made.commit(made.data([{1: 4}]), branch="audit")
    made.commit(made.data([{1: 5}]))
    return made


def held(made: SmallTable, *, uuid: str = UUID, now_ms: int = NOW_MS, **consumer: Any) -> list[int]:
    one = Consumer(**{"name": "etl", "updated_ms": START_MS, **consumer})
    found = TableConsumers(table="db.t", table_uuid=uuid, consumers=(one,))
    kept = snapshots_held(made.metadata, holds_of_consumers(found, now_ms=now_ms))
    return sorted(number for number in kept if made.metadata.snapshot_by_id(number) is not None)


@pytest.mark.parametrize(
    ("consumer", "kept"),
    [
        ({"snapshot_id": 3}, [3, 5]),
        ({"snapshot_id": 1}, [1, 2, 3, 4, 5]),  # whatever came after it, on any branch
        ({"snapshot_id": 2, "branch": "audit"}, [2, 3, 4, 5]),
        ({"snapshot_id": 3, "branch": "audit"}, []),  # not in that branch's history
        ({"snapshot_id": 3, "branch": "gone"}, []),
        ({"snapshot_id": 99}, []),
        ({"snapshot_id": 3, "hold_days": 0.0001}, []),
        ({"snapshot_id": None}, [1, 2, 3, 5]),
        ({"snapshot_id": 3, "uuid": "of-another-table"}, []),
        ({"snapshot_id": 3, "now_ms": START_MS + 7 * DAY_MS}, [3, 5]),
        ({"snapshot_id": 3, "now_ms": START_MS + 7 * DAY_MS + 1}, []),
    ],
)
def test_what_a_consumer_has_not_read_is_kept_while_its_hold_lasts(consumer, kept):
    assert held(table(), **consumer) == kept


def test_a_consumer_whose_snapshot_has_expired_keeps_what_came_next():
    made = table()
    made.metadata = remove_snapshots(made.metadata, [1, 2], now_ms=START_MS)
    assert held(made, snapshot_id=2) == [3, 4, 5]
    assert held(made, snapshot_id=1) == held(made, snapshot_id=None) == []


def test_a_consumer_that_is_too_far_behind_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    made = table()
    for most, kept in ((1, [3, 5]), (0, [])):
        monkeypatch.setattr(holds, "HELD_SNAPSHOTS_MAX", most)
        assert held(made, snapshot_id=3) == kept
    monkeypatch.setattr(holds, "HELD_SNAPSHOTS_MAX", 2)
    assert held(made, snapshot_id=None) == []
    assert held(made, snapshot_id=1) == []


def test_the_branch_of_a_consumer_does_not_age_and_the_reason_names_it():
    made = table()
    one = Consumer(name="etl", branch="audit", snapshot_id=2, updated_ms=START_MS)
    found = holds_of_consumers(TableConsumers(table="db.t", table_uuid=UUID, consumers=(one,)), now_ms=NOW_MS)
    assert refs_held(made.metadata, found) == {"audit": "consumer 'etl' names it"}
    assert snapshots_held(made.metadata, found)[2] == "consumer 'etl' has read up to it"
    assert holds_of_consumers(None, now_ms=NOW_MS) == ()
    assert snapshots_held(made.metadata, [Hold(who="intent x", snapshot_ids=(5,))]) == {5: "intent x was planned on it"}


@pytest.mark.parametrize(
    ("consumer", "state", "behind"),
    [
        ({"snapshot_id": 5}, "current", 0),
        ({"snapshot_id": 3}, "behind", 1),
        ({"snapshot_id": None}, "behind", 4),
        ({"snapshot_id": 2, "branch": "audit"}, "behind", 1),
        ({"snapshot_id": 3, "hold_days": 0.0001}, "lapsed", 1),
        ({"snapshot_id": 5, "hold_days": 0.0001}, "current", 0),
        ({"snapshot_id": 4}, "lost", None),
        ({"snapshot_id": 99}, "lost", None),
        ({"snapshot_id": 2, "branch": "gone"}, "lost", None),
    ],
)
def test_a_consumer_is_compared_with_its_table(consumer, state, behind):
    one = Consumer(**{"name": "etl", "updated_ms": START_MS, "snapshot_ms": START_MS, **consumer})
    found = status_of(one, table().metadata, now_ms=NOW_MS)
    assert (found.state, found.behind) == (state, behind)
    assert found.lag_ms == {"current": 0, "lost": 10_000}.get(state, found.lag_ms)


def test_the_lag_is_the_age_of_the_oldest_change_that_was_not_read():
    made = table()
    one = Consumer(name="etl", snapshot_id=2, updated_ms=START_MS)
    assert status_of(one, made.metadata, now_ms=NOW_MS).lag_ms == 7_000  # snapshot 3 was made at 3 s
    made.metadata = remove_snapshots(made.metadata, [1, 2], now_ms=START_MS)
    assert status_of(one, made.metadata, now_ms=NOW_MS).behind == 2
