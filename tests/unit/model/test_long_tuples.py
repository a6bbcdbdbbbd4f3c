"""A long sequence is what a tuple of its items would be, and what is seen of it at once is what a comparison says."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from firn.model.long_tuples import LONG, LongTuple, appended, continues, is_seen_to_end_with, preceded
from firn.model.metadata_changes import add_snapshot
from firn.model.snapshot import Snapshot
from tests.strategies.metadata import table

SOME = tuple(f"first-{number}" for number in range(LONG))
MORE = st.lists(st.tuples(st.booleans(), st.lists(st.integers(), max_size=3)), max_size=8)


@given(MORE, st.integers(-LONG - 30, LONG + 30), st.slices(LONG + 12))
def test_it_is_what_a_tuple_would_be(more, at, part):
    items: Sequence[object] = SOME
    plain: tuple[object, ...] = SOME
    for behind, several in more:
        if behind:
            for one in several:
                items, plain = appended(items, one), (*plain, one)
        else:
            items, plain = preceded(items, tuple(several)), (*several, *plain)
    assert isinstance(items, LongTuple) is (items is not SOME)
    assert items == plain
    assert plain == items
    assert (*items,) == plain
    assert tuple(reversed(items)) == plain[::-1]
    assert (len(items), hash(items), repr(items)) == (len(plain), hash(plain), repr(plain))
    assert items[part] == plain[part]
    assert pickle.loads(pickle.dumps(items)) == plain
    assert items != plain[1:]
    assert items != (*plain[1:], "other")
    assert result_of(items, at) == result_of(plain, at)


def result_of(items, at):
    try:
        return items[at]
    except IndexError:
        return IndexError


def test_a_sequence_continues_whatever_it_was_made_of_and_nothing_else():
    made: list[Sequence[str]] = [SOME]
    for number in range(2 * LONG + 2):
        made.append(appended(made[-1], f"new-{number}"))
    other = appended(SOME, "other")
    assert made[-1] == (*SOME, *(f"new-{number}" for number in range(2 * LONG + 2)))
    few = made[:: LONG // 8]
    for longer in few:
        assert [continues(longer, start) for start in few] == [len(longer) >= len(start) for start in few]
        assert continues(other, longer) == (longer is SOME)
        assert not continues(longer, other)
    assert continues(made[-1], ())
    assert continues(made[-1], (*made[-2],))
    assert not continues(preceded(SOME, ("a",)), SOME)
    assert continues(("a", "b"), tuple("a"))
    assert not continues(("a", "b"), tuple("b"))


def test_a_sequence_is_seen_to_end_with_those_that_something_was_put_before():
    made: list[Sequence[str]] = [SOME]
    for number in range(LONG):
        made.append(preceded(made[-1], (f"new-{number}", "same")))
    assert preceded(made[-1], ()) is made[-1]
    assert made[-1][:3] == (f"new-{LONG - 1}", "same", f"new-{LONG - 2}")
    for longer in made[:: LONG // 8]:
        for end in made[:: LONG // 8]:
            assert not is_seen_to_end_with(longer, end) or longer[len(longer) - len(end) :] == end
    other = preceded(made[5], ("other",))
    assert is_seen_to_end_with(other, made[5])
    assert is_seen_to_end_with(made[7], made[5])
    assert not is_seen_to_end_with(made[5], made[7])
    assert not is_seen_to_end_with(made[7], other)
    assert not is_seen_to_end_with(appended(made[7], "behind"), made[5])


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
