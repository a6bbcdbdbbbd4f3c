"""Ids of writers whose clocks are ahead: found in little time and memory, and read again where there is no room."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from, tuples

from firn.coordinator.journal import ids_ahead
from firn.coordinator.journal.decided_ids import TimedId
from firn.coordinator.journal.ids_ahead import MINUTE_MS, RUN_IDS_MAX, IdsAhead
from firn.model.identifiers import uuid7
from tests.strategies.examples import examples

ROOM = 1_000_000
_NUMBERS = itertools.count()


class Checkpoints:
    """Checkpoints that list ids ahead, what is kept of them, and how often each was read again."""

    def __init__(self, *, bytes_max: int = ROOM) -> None:
        self.listed: dict[str, list[TimedId]] = {}
        self.reads: Counter[str] = Counter()
        self.kept = IdsAhead(bytes_max=bytes_max, read=self._read)

    def _read(self, location: str) -> list[TimedId]:
        self.reads[location] += 1
        return self.listed[location]

    def add(self, times: list[int]) -> list[TimedId]:
        """One more, with an id of each of these times."""
        location = f"/warehouse/db/events/metadata/journal/{len(self.listed) + 1:010d}-token.jsonl.gz"
        self.listed[location] = [timed(made_ms) for made_ms in times]
        self.kept.add(location, self.listed[location])
        return self.listed[location]

    def add_minutes(self, *minutes: int, ids: int = 200, checkpoints: int = 3) -> list[TimedId]:
        """Some that list ids of each of these minutes in turn."""
        return [
            one for minute in minutes for _ in range(checkpoints) for one in self.add([minute * MINUTE_MS] * ids)
        ]  # fmt: skip

    def all(self) -> Iterator[tuple[str, TimedId]]:
        """Every id, with the checkpoint that lists it."""
        return ((location, one) for location, ids in self.listed.items() for one in ids)

    def assert_finds_all(self, *, after_ms: int = -1) -> None:
        """Nothing that is listed after then is taken for new, and each place is told where memory covers it."""
        for location, (made_ms, one) in self.all():
            if made_ms <= after_ms:
                continue
            assert not self.kept.is_new(one, made_ms)
            assert location in self.kept.places_of(one, made_ms) or not self.kept.covers(made_ms)


def timed(made_ms: int) -> TimedId:
    """An id that no other test has."""
    return made_ms, uuid7(now_ms=made_ms, entropy=next(_NUMBERS).to_bytes(10, "big"))


def new_at(kept: IdsAhead, made_ms: int) -> bool:
    """Whether an id that nobody knows is known to be new."""
    return kept.is_new(timed(made_ms)[1], made_ms)


def test_an_id_leads_to_the_checkpoint_that_lists_it_and_no_other_is_found():
    checkpoints = Checkpoints()
    checkpoints.add_minutes(3, 5, 4, 3)
    for location, (made_ms, one) in checkpoints.all():
        assert list(checkpoints.kept.places_of(one, made_ms)) == [location]
        assert not checkpoints.kept.is_new(one, made_ms)
    for minute in (2, 3, 4, 5, 6):
        made_ms, other = timed(minute * MINUTE_MS)
        assert checkpoints.kept.is_new(other, made_ms)
        assert not list(checkpoints.kept.places_of(other, made_ms))
    assert not checkpoints.reads


def test_an_id_takes_eight_bytes():
    checkpoints = Checkpoints(bytes_max=2**30)
    for second in range(0, 180, 2):
        checkpoints.add([second * 1_000 + at % 2_000 for at in range(4_000)])
    assert len(checkpoints.kept) == 360_000
    assert checkpoints.kept.memory < 8.2 * 360_000


def test_many_small_checkpoints_are_few_sorted_arrays(monkeypatch):
    """A look goes through all of them, and joining two moves all their ids."""
    moved = 0

    def counted(ids: Iterable[int]) -> list[int]:
        nonlocal moved
        result = sorted(ids)
        moved += len(result)
        return result

    monkeypatch.setattr(ids_ahead, "sorted", counted, raising=False)
    checkpoints = Checkpoints(bytes_max=2**30)
    checkpoints.add_minutes(1, ids=17, checkpoints=6_000)
    runs = checkpoints.kept._minutes[1].runs
    assert runs is not None
    assert sum(map(len, runs)) == 102_000
    assert max(map(len, runs)) <= RUN_IDS_MAX
    assert len(runs) <= 4 + 11  # those of 17 408 ids at least, then each at most half of the one before
    assert moved < 102_000 * 13


def test_checkpoints_share_numbers_where_there_are_more_of_them(monkeypatch):
    monkeypatch.setattr(ids_ahead, "_NUMBERS", 4)
    monkeypatch.setattr(ids_ahead, "_HASH", (1 << 64) - 4)
    checkpoints = Checkpoints()
    checkpoints.add_minutes(1, ids=3, checkpoints=11)
    locations = list(checkpoints.listed)
    for location, (made_ms, one) in checkpoints.all():
        sharing = locations[locations.index(location) % 4 :: 4]
        assert list(checkpoints.kept.places_of(one, made_ms)) == sharing[::-1]


def test_ids_go_when_their_minute_is_over():
    checkpoints = Checkpoints()
    checkpoints.add_minutes(1, 2, 3)
    checkpoints.kept.let_go(3 * MINUTE_MS - 2)
    assert len(checkpoints.kept) == 1_200
    checkpoints.kept.let_go(3 * MINUTE_MS - 1)
    assert len(checkpoints.kept) == 600
    checkpoints.kept.let_go(4 * MINUTE_MS)
    assert len(checkpoints.kept) == checkpoints.kept.memory == 0


def test_past_the_bound_a_minute_is_read_again_once_and_only_from_its_own_checkpoints():
    checkpoints = Checkpoints(bytes_max=20_000)
    checkpoints.add_minutes(*range(10), ids=200)  # 4 800 bytes each
    assert checkpoints.kept.memory <= 20_000
    assert not new_at(checkpoints.kept, 2 * MINUTE_MS)
    assert not checkpoints.reads  # whoever asks must not be made to wait: it may be the event loop
    made_ms, other = timed(2 * MINUTE_MS)
    assert not list(checkpoints.kept.places_of(other, made_ms))
    assert checkpoints.reads == dict.fromkeys(list(checkpoints.listed)[6:9], 1)
    assert all(new_at(checkpoints.kept, 2 * MINUTE_MS + at) for at in range(100))
    assert checkpoints.kept.memory <= 20_000
    checkpoints.assert_finds_all()
    assert checkpoints.kept.memory <= 20_000


@pytest.mark.parametrize("use", ["is new", "find", "add"])
def test_the_minutes_in_use_stay_and_those_that_wait_are_put_away(use):
    """A writer an hour ahead adds to one minute, everybody else asks for another: neither is to be read again."""
    checkpoints = Checkpoints(bytes_max=60_000)
    checkpoints.add_minutes(1, ids=200)
    for ahead in range(60, 90):
        checkpoints.add_minutes(ahead, ids=200)
        match use:
            case "is new":
                assert new_at(checkpoints.kept, MINUTE_MS)
            case "find":
                assert not list(checkpoints.kept.places_of(timed(MINUTE_MS)[1], MINUTE_MS))
            case _:
                checkpoints.add([MINUTE_MS])
        assert new_at(checkpoints.kept, ahead * MINUTE_MS)
    assert new_at(checkpoints.kept, MINUTE_MS)
    assert not new_at(checkpoints.kept, 60 * MINUTE_MS)
    assert not checkpoints.reads


def test_read_again_a_minute_takes_what_it_took():
    checkpoints = Checkpoints(bytes_max=80_000)
    checkpoints.add_minutes(1, 2, 3)
    before = checkpoints.kept.memory
    checkpoints.kept.make_small()
    assert checkpoints.kept.memory < before
    checkpoints.assert_finds_all()
    assert checkpoints.reads
    assert before - 500 < checkpoints.kept.memory <= before  # in fewer arrays


def test_a_minute_that_has_more_ids_than_there_is_room_for_is_known_by_its_checkpoints():
    checkpoints = Checkpoints(bytes_max=20_000)
    checkpoints.add_minutes(1, ids=200, checkpoints=20)
    assert not new_at(checkpoints.kept, MINUTE_MS)
    checkpoints.assert_finds_all()
    assert checkpoints.kept.memory <= 20_000
    assert not checkpoints.reads  # each intent would read all of them in vain


def test_where_there_is_no_room_for_names_the_latest_are_not_known_and_said_so():
    """Clocks that are years ahead, each other by minutes: all refused, and all on record."""
    checkpoints = Checkpoints(bytes_max=20_000)
    years_ms = 2 * 365 * 86_400_000
    for minute in range(1_000):
        checkpoints.add([years_ms + minute * MINUTE_MS])
        assert checkpoints.kept.memory <= 20_000
    soon = checkpoints.add_minutes(1)
    assert checkpoints.kept.covers(years_ms)
    assert not checkpoints.kept.covers(years_ms + 999 * MINUTE_MS)
    assert not new_at(checkpoints.kept, years_ms + 999 * MINUTE_MS)
    checkpoints.assert_finds_all()
    assert all(list(checkpoints.kept.places_of(one, made_ms)) for made_ms, one in soon)
    assert new_at(checkpoints.kept, MINUTE_MS)
    other = IdsAhead(bytes_max=20_000, read=checkpoints._read)
    other.add("/elsewhere", [timed(years_ms + 999 * MINUTE_MS)])
    checkpoints.kept.absorb(other)
    assert not new_at(checkpoints.kept, years_ms + 999 * MINUTE_MS)


def test_small_it_keeps_what_was_used_last():
    checkpoints = Checkpoints(bytes_max=160_000)
    checkpoints.add_minutes(*range(1, 11))
    assert len(checkpoints.kept) == 6_000
    assert new_at(checkpoints.kept, 4 * MINUTE_MS)
    checkpoints.kept.make_small()
    assert checkpoints.kept.memory <= 160_000 // 8
    assert new_at(checkpoints.kept, 4 * MINUTE_MS)
    assert not new_at(checkpoints.kept, 5 * MINUTE_MS)
    checkpoints.assert_finds_all()


@pytest.mark.parametrize("away", [False, True])
def test_what_another_knows_is_taken_over_with_its_checkpoints(away):
    checkpoints = Checkpoints()
    checkpoints.add_minutes(1, 2, 2)
    older = checkpoints.kept
    if away:
        older = IdsAhead(bytes_max=4_000, read=checkpoints._read)
        for location, ids in checkpoints.listed.items():
            older.add(location, ids)
        assert len(older) == 0
    checkpoints.kept = IdsAhead(bytes_max=ROOM, read=checkpoints._read)
    checkpoints.add_minutes(2, 3)
    checkpoints.kept.absorb(older)
    assert new_at(checkpoints.kept, 2 * MINUTE_MS) != away
    checkpoints.assert_finds_all()
    for location, (made_ms, one) in checkpoints.all():
        assert list(checkpoints.kept.places_of(one, made_ms)) == [location]
    assert new_at(checkpoints.kept, 2 * MINUTE_MS)


@examples(100, deadline=None)
@given(
    sampled_from([0, 1_500, 4_000, 20_000]),
    lists(tuples(sampled_from(["add", "ask", "small", "let go", "absorb"]), lists(integers(0, 900_000), max_size=40))),
)
def test_whatever_is_added_put_away_and_read_again_no_id_is_taken_for_new(room, steps):
    checkpoints, over_ms = Checkpoints(bytes_max=room), 0
    for step, times in steps:
        match step:
            case "add":
                checkpoints.add([made_ms for made_ms in times if made_ms > over_ms])
            case "ask":
                for made_ms in times:
                    assert not list(checkpoints.kept.places_of(timed(made_ms)[1], made_ms)) or room < 20_000
            case "small":
                checkpoints.kept.make_small()
            case "let go" if times:
                over_ms = max(over_ms, times[0])
                checkpoints.kept.let_go(over_ms)
            case "absorb":
                before, checkpoints.kept = checkpoints.kept, IdsAhead(bytes_max=room, read=checkpoints._read)
                checkpoints.add([made_ms for made_ms in times if made_ms > over_ms])
                checkpoints.kept.absorb(before)
        kept = checkpoints.kept
        assert kept.memory == sum(minute.memory for minute in kept._minutes.values()) <= room
        assert kept.memory == sum(minute.memory + minute.weigh() for minute in kept._minutes.values())
        counts = Counter(made_ms // MINUTE_MS for _, (made_ms, _) in checkpoints.all())
        assert {number: minute.count for number, minute in kept._minutes.items()}.items() <= counts.items()
        for minute in kept._minutes.values():
            assert minute.runs is None or sum(map(len, minute.runs)) == minute.count
    checkpoints.assert_finds_all(after_ms=over_ms)
