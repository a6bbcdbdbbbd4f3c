"""What was read of checkpoints for a writer whose clock is behind is kept, as far as there is room."""

from __future__ import annotations

from firn.coordinator.journal.decided_ids import ListedIds, TimedIds
from firn.coordinator.journal.looked_back import LookedBack
from firn.model.limits import Limits
from tests.unit.coordinator.journal.journals import Journal, id_at


def listed(sequence: int, *, count: int = 100) -> ListedIds:
    """What a checkpoint lists, one of many."""
    segment = Journal(limits=Limits()).segment([])
    timed = TimedIds([id_at(number, sequence) for number in range(count)])
    ids = ListedIds(segment, timed, queued_ms=count, older_ms=-1)
    ids.location = f"/journal/{sequence:010d}.jsonl.gz"
    return ids


def test_what_was_asked_for_last_stays_and_memory_is_bounded():
    some = [listed(sequence) for sequence in range(10)]
    room = 3 * some[0].memory + 50
    kept = LookedBack(bytes_max=room)
    for ids in some[:3]:
        kept.keep(ids)
    assert kept.find(some[0].location) is some[0]
    kept.keep(some[3])
    assert [kept.find(ids.location) is ids for ids in some[:4]] == [True, False, True, True]
    for ids in some[4:]:
        kept.keep(ids)
    assert kept.memory == sum(ids.memory for ids in some[7:]) <= room
    kept.clear()
    assert kept.memory == 0
    assert kept.find(some[9].location) is None


def test_what_alone_takes_more_than_there_is_room_for_is_not_kept():
    kept = LookedBack(bytes_max=100)
    kept.keep(listed(1))
    assert kept.memory == 0
