"""What is remembered of long tuples is what a comparison would say."""

from __future__ import annotations

from firn.model.long_tuples import LONG, REMEMBERED_MAX, appended, continues, known_to_end_with, preceded
from firn.model.metadata_changes import add_snapshot
from firn.model.snapshot import Snapshot
from tests.strategies.metadata import table


def test_a_tuple_continues_whatever_it_was_made_of_and_nothing_else():
    first = tuple(map(str, range(LONG)))
    made = [first]
    for number in range(2 * REMEMBERED_MAX):
        made.append(appended(made[-1], f"new-{number}"))
    other = appended(first, "other")
    assert made[-1] == (*first, *(f"new-{number}" for number in range(2 * REMEMBERED_MAX)))
    for longer in made:
        assert [continues(longer, start) for start in made] == [len(longer) >= len(start) for start in made]
        assert continues(other, longer) == (longer is first)
        assert not continues(longer, other)
    assert continues(made[-1], ())
    assert continues(("a", "b"), tuple("a"))
    assert not continues(("a", "b"), tuple("b"))


def test_a_tuple_is_known_to_end_with_the_newest_that_something_was_put_before():
    made = [tuple(map(str, range(LONG)))]
    for number in range(2 * REMEMBERED_MAX):
        made.append(preceded(made[-1], (f"new-{number}", "same")))
    other = preceded(made[-2], ("other",))
    assert preceded(other, ()) is other
    assert other == ("other", *made[-2])
    assert made[-1][:3] == (f"new-{2 * REMEMBERED_MAX - 1}", "same", f"new-{2 * REMEMBERED_MAX - 2}")
    assert [known_to_end_with(made[-1], end) for end in made[-3:]] == [True, True, True]
    assert [known_to_end_with(end, made[-1]) for end in made[-3:]] == [False, False, True]
    assert not known_to_end_with(other, made[-1])
    assert known_to_end_with(other, made[-2])
    assert not known_to_end_with(made[-1], (*made[-2],))  # its own items, but nobody remembers that
    assert not known_to_end_with(made[-1], made[0])  # that is too long ago


def test_the_snapshots_of_a_history_are_its_own_however_long_it_gets_and_whatever_was_tried_meanwhile():
    metadata = table()
    for number in range(1, 3 * LONG + 3):
        lost = _with(metadata, -number)
        metadata = _with(metadata, number)
        assert metadata.snapshot_by_id(number) is metadata.snapshots[-1]
        assert lost.snapshot_by_id(-number) is lost.snapshots[-1]
        assert metadata.snapshot_by_id(-number) is None
        assert lost.snapshot_by_id(number) is None
    assert all(metadata.snapshot_by_id(one.snapshot_id) is one for one in metadata.snapshots)


def _with(metadata, number):
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=metadata.current_snapshot_id,
        sequence_number=metadata.next_sequence_number,
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list="s3://b/t/list.avro",
        summary={"operation": "append"},
    )
    return add_snapshot(metadata, snapshot, branch="main", now_ms=snapshot.timestamp_ms)
