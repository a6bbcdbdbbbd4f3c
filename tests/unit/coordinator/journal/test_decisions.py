"""What was decided is found however old it is, and memory stays small: ids of checkpoints take eight bytes."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, data, integers, permutations, sampled_from

from firn.coordinator.journal import decisions
from firn.model.errors import CorruptFile
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles, pack_segment, segment_location
from tests.strategies.examples import examples
from tests.unit.coordinator.journal.journals import HOUR_MS, TABLE, Journal, id_at


@pytest.fixture(autouse=True)
def checkpoints_of_four_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 4)


def journal_of(count: int, *, dedupe_intents_max: int = 50_000, step_ms: int = HOUR_MS) -> tuple[Journal, list[str]]:
    """A journal of segments with two intents each, and the ids in it."""
    journal = Journal(limits=Limits(dedupe_intents_max=dedupe_intents_max))
    ids = [id_at((1 + at // 2) * step_ms, at) for at in range(count)]
    for at in range(0, count, 2):
        journal.decide(ids[at : at + 2], entry_ms=(1 + at // 2) * step_ms)
    return journal, ids


@pytest.mark.parametrize("remembered", [50_000, 20, 1])
@pytest.mark.parametrize("reopened", [False, True])
def test_every_decision_is_found_however_old(remembered, reopened):
    journal, ids = journal_of(70, dedupe_intents_max=remembered)
    folded = journal.folded
    if reopened:
        folded = journal.opened()
        folded.catch_up(journal.folded.head)
    for one in ids:
        assert not folded.are_new([one])
        known = folded.find(one)
        assert known is not None
        assert known.digest == f"digest of {one}"
        assert folded.decided(known, one).intent_id == one
    assert folded.find(id_at(5 * HOUR_MS, 999)) is None


def test_what_is_new_is_known_without_reading():
    journal, _ = journal_of(70)
    journal.files.seen.clear()
    assert journal.folded.are_new([id_at(1000 * HOUR_MS)])
    assert journal.folded.are_new([id_at(5 * HOUR_MS, 999)])  # as old as what was decided, and none of it
    assert journal.folded.find(id_at(1000 * HOUR_MS)) is None
    assert journal.folded.find(id_at(5 * HOUR_MS, 999)) is None
    assert not journal.files.seen


def test_an_id_as_old_as_what_memory_let_go_may_be_known():
    journal, _ = journal_of(70, dedupe_intents_max=20)
    other = id_at(2 * HOUR_MS, 999)
    assert not journal.folded.are_new([other])
    assert journal.folded.find(other) is None


def test_a_fold_that_was_just_opened_knows_what_is_new_without_reading():
    """Otherwise each intent of a busy table is looked for in the checkpoints of an hour after a takeover."""
    journal, _ = journal_of(70, dedupe_intents_max=20, step_ms=1_000)
    folded = journal.opened()
    folded.catch_up(journal.folded.head)
    journal.files.seen.clear()
    new = id_at(36_000)
    assert folded.are_new([new])
    assert folded.find(new) is None
    assert not journal.files.seen


@pytest.mark.parametrize("reopened", [False, True])
def test_a_clock_that_is_ahead_makes_nobody_else_look_back(reopened):
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    ahead_ms = 30 * 60_000
    ahead = []
    for at in range(1, 100):
        now_ms = at * 60_000
        ahead.append(id_at(now_ms + ahead_ms, at))
        journal.decide([id_at(now_ms, at), ahead[-1]], entry_ms=now_ms)
    folded = journal.folded
    if reopened:
        folded = journal.opened()
        folded.catch_up(journal.folded.head)
        assert folded.find(id_at(100 * 60_000, 1)) is None  # once: how far ahead they were is not known
    journal.files.seen.clear()
    assert all(folded.are_new([id_at(100 * 60_000, number)]) for number in range(10))
    assert all(folded.are_new([id_at(100 * 60_000 + ahead_ms, number)]) for number in range(10))
    assert not journal.files.seen
    assert not any(folded.are_new([one]) for one in ahead)
    assert [one for one in ahead if folded.find(one) is None] == []


@pytest.mark.parametrize("reopened", [False, True])
def test_ids_of_the_millisecond_in_which_the_last_was_queued_are_found(reopened):
    """Those of the next count as ahead, and none falls between."""
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    ids = []
    for at in range(60):
        some = [id_at(at * 1_000 + beside, 10 * at + number) for number, beside in enumerate((-1, 0, 0, 1, 1, 2))]
        journal.decide(some, entry_ms=at * 1_000)
        ids += some
    folded = journal.folded
    if reopened:
        folded = journal.opened()
        folded.catch_up(journal.folded.head)
    assert [one for one in ids if folded.are_new([one]) or folded.find(one) is None] == []


def test_made_small_it_puts_ids_ahead_away_and_finds_all():
    journal = Journal(limits=Limits(dedupe_intents_max=20, ids_ahead_bytes_max=100_000))
    ids = [id_at((31 + number // 100) * 60_000, number) for number in range(3_000)]
    for at in range(0, 3_000, 50):
        journal.decide(ids[at : at + 50], entry_ms=60_000)
    before = journal.folded.memory
    journal.folded.make_small()
    assert journal.folded.memory < before - 8 * 1_000
    assert [one for one in ids[::50] if journal.folded.are_new([one]) or journal.folded.find(one) is None] == []


def test_ids_ahead_are_let_go_when_their_time_has_come():
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    for at in range(1, 400):
        journal.decide([id_at(at * 60_000, at), id_at((at + 30) * 60_000, at)], entry_ms=at * 60_000)
    assert 0 < len(journal.folded._ahead) < 40


@pytest.mark.parametrize("reopened", [False, True])
def test_a_writer_whose_clock_is_behind_has_each_checkpoint_read_once(reopened):
    """All of its ids are older than what memory has let go, and new."""
    journal, ids = journal_of(400, dedupe_intents_max=20, step_ms=1_000)
    folded = journal.folded
    if reopened:
        folded = journal.opened()
        folded.catch_up(journal.folded.head)
        assert folded.find(id_at(50_000, 9_000)) is None  # once: how far ahead clocks were is not known
    journal.files.seen.clear()
    behind = [id_at(100_000 + number * 100, 10_000 + number) for number in range(100)]
    assert [folded.find(one) for one in behind] == [None] * 100
    assert len(journal.files.seen) == len(set(journal.files.seen)) < 30
    assert [one for one in ids if folded.are_new([one]) or folded.find(one) is None] == []
    before = folded.memory
    folded.make_small()
    assert folded.memory < before


def test_a_queue_whose_clock_was_ahead_for_a_while_makes_nobody_look_back():
    """For as long all ids seem older than what was queued last, and are not older than others."""
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    ids = [id_at(at * 1_000, at) for at in range(100)]
    for at, one in enumerate(ids):
        journal.decide([one], entry_ms=at * 1_000 + (HOUR_MS if 30 < at < 50 else 0))
    journal.files.seen.clear()
    assert all(journal.folded.are_new([id_at(at * 1_000, 9_000 + at)]) for at in range(90, 200))
    assert not journal.files.seen
    assert [one for one in ids if journal.folded.are_new([one]) or journal.folded.find(one) is None] == []


def test_ids_ahead_stay_known_while_all_that_was_let_go_is_older():
    """One clock is ahead, all others are behind: what was queued last says nothing of what is known."""
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    ahead = [id_at(400_000, number) for number in range(8)]
    for at in range(0, 8, 2):
        journal.decide(ahead[at : at + 2], entry_ms=100_000)
    for number in range(60):
        journal.decide([id_at(300_000, 100 + number)], entry_ms=1_000_000)
    journal.decide([id_at(990_000, 999)], entry_ms=1_000_000)
    assert [one for one in ahead if journal.folded.are_new([one]) or journal.folded.find(one) is None] == []


def test_past_the_bound_of_ids_ahead_their_checkpoints_are_read_again_once_and_all_are_found():
    """A writer that is half an hour ahead, and room for its ids of some minutes."""
    journal = Journal(limits=Limits(dedupe_intents_max=20, ids_ahead_bytes_max=60_000))
    ahead: list[str] = []
    for at in range(1, 60):
        for _ in range(4):
            some = [id_at((at + 30) * 60_000, len(ahead) + number) for number in range(100)]
            journal.decide([*some, id_at(at * 60_000, 50_000 + len(ahead))], entry_ms=at * 60_000)
            ahead += some
    journal.files.seen.clear()
    for at in range(59, 89):
        now = [id_at(at * 60_000, 90_000 + number) for number in range(20)]
        assert [journal.folded.find(one) for one in now] == [None] * 20
        assert all(journal.folded.are_new([one]) for one in now)
    assert len(journal.files.seen) == len(set(journal.files.seen)) > 10
    assert journal.folded._ahead.memory <= 60_000
    assert [one for one in ahead[::100] if journal.folded.are_new([one]) or journal.folded.find(one) is None] == []


def test_a_clock_of_the_queue_that_went_back_in_the_journal_hides_nothing():
    """As a rename left it: a checkpoint that was told of later entries than those after it."""
    journal = Journal(limits=Limits())
    late = [id_at(900_000, number) for number in range(8)]
    for at in range(0, 8, 2):
        journal.decide(late[at : at + 2], entry_ms=1_000_000)
    journal.folded.newest_entry_ms = 0
    for at in range(4):
        journal.decide([id_at(500_000, 100 + at)], entry_ms=600_000)
    for folded in (journal.folded, journal.opened()):
        folded.catch_up(journal.folded.head)
        assert [one for one in late if folded.are_new([one]) or folded.find(one) is None] == []


def test_a_fold_of_a_renamed_table_knows_when_the_last_was_queued():
    """It says so in its next checkpoint, for whoever opens the journal."""
    journal, _ = journal_of(8)
    target = Journal(limits=Limits(), table="/warehouse/db/renamed")
    arriving = target.segment([id_at(1)])
    checkpoint = journal.folded.handed_over(target.folded.checkpoint_with((), location=arriving.location))
    batch = msgspec.structs.replace(arriving.batch, renamed_from="db.events")
    arriving = msgspec.structs.replace(arriving, batch=batch, checkpoint=checkpoint)
    target.files.create(arriving.location, pack_segment(arriving))
    target.folded.add(arriving)
    opened = target.opened()
    opened.catch_up(arriving.location)
    assert opened.newest_entry_ms == target.folded.newest_entry_ms == 4 * HOUR_MS


def without_times_of_older_ids(journal: Journal) -> None:
    """The journal as a version wrote it that did not note them."""
    location = journal.folded.last_checkpoint
    while location is not None:
        segment = JournalFiles(journal.files, bytes_max=2**20).read(location)
        assert segment.checkpoint is not None
        before = msgspec.structs.replace(segment.checkpoint, older_id_ms=None)
        journal.files.replace(location, pack_segment(msgspec.structs.replace(segment, checkpoint=before)))
        location = segment.batch.previous_checkpoint


def test_a_journal_of_an_older_version_is_looked_back_into_once():
    journal, ids = journal_of(400, dedupe_intents_max=20, step_ms=60_000)
    without_times_of_older_ids(journal)
    folded = journal.opened()
    folded.catch_up(journal.folded.head)
    new = [id_at(201 * 60_000, number) for number in range(10)]
    assert not folded.are_new([new[0]])
    assert folded.find(new[0]) is None
    journal.files.seen.clear()
    assert all(folded.are_new([one]) and folded.find(one) is None for one in new)
    assert not journal.files.seen
    assert [one for one in ids if folded.find(one) is None] == []


def test_a_refusal_for_a_clock_far_ahead_is_found_in_the_journal_of_an_older_version_when_its_time_has_come():
    """As by a wrong time zone: submitted again then, it would be committed, and had been told that it never will be."""
    journal = Journal(limits=Limits(dedupe_intents_max=20))
    ahead = id_at(23 * HOUR_MS, 9_999)
    for at in range(60, 23 * 60):
        ids = [ahead] if at == 90 else []
        journal.decide([*ids, id_at(at * 60_000, at)], entry_ms=at * 60_000)
    without_times_of_older_ids(journal)
    folded = journal.opened()
    folded.catch_up(journal.folded.head)
    assert not folded.are_new([ahead])
    assert folded.find(ahead) is not None
    assert folded.find(id_at(23 * HOUR_MS, 1)) is None
    assert folded.are_new([id_at(23 * HOUR_MS, 2)])
    assert not folded.are_new([ahead])


@examples(150, deadline=None)
@given(data())
def test_whatever_clocks_say_nothing_is_taken_for_new_that_was_decided(data):
    """Clocks ahead and behind, folds opened anew, made small, with little room: against a plain set.

    Some are ahead by hours, which is refused and on record; by days where no version that does not note it has written
    the journal. There the queue's clock may have gone back, too.
    """
    is_old = data.draw(booleans())
    room = data.draw(sampled_from([0, 700, 2_000, 1_000_000]))
    journal = Journal(
        limits=Limits(dedupe_intents_max=data.draw(integers(1, 40)), clock_skew_minutes_max=2, ids_ahead_bytes_max=room)
    )
    decided: list[str] = []
    now_ms, behind_ms, numbers = 600_000, 0, itertools.count()

    def made() -> str:
        ahead_ms = data.draw(integers(-150_000, 120_000))
        is_far = ahead_ms > 0 and data.draw(integers(0, 5)) == 5
        return id_at(now_ms + ahead_ms * (1 if not is_far else 700 if is_old else 2_000), next(numbers))

    for _ in range(data.draw(integers(1, 60))):
        now_ms += data.draw(integers(0, 60_000))
        ids = [made() for _ in range(data.draw(integers(1, 3)))]
        journal.decide(ids, entry_ms=now_ms - behind_ms)
        decided += ids
        match data.draw(integers(0, 12)):
            case 0:
                head, journal.folded = journal.folded.head, journal.opened()
                journal.folded.catch_up(head)
            case 1:
                journal.folded.make_small()
            case 2 if is_old:
                without_times_of_older_ids(journal)
            case 2:
                behind_ms = data.draw(integers(0, 300_000))
                journal.folded.newest_entry_ms = 0
            case 3:
                assert journal.folded.find(made()) is None
            case _:
                pass
    for one in data.draw(permutations(decided)):
        assert not journal.folded.are_new([one])
        known = journal.folded.find(one)
        assert known is not None
        assert known.digest == f"digest of {one}"
    assert journal.folded.find(made()) is None


def test_repeats_of_one_checkpoint_read_it_once():
    journal, ids = journal_of(70)
    journal.files.seen.clear()
    assert all(journal.folded.find(one) is not None for one in ids[:8])
    assert len(journal.files.seen) == 1


def test_memory_is_bounded_by_the_limit():
    small, _ = journal_of(400, dedupe_intents_max=40)
    large, _ = journal_of(4_000, dedupe_intents_max=40)
    assert large.folded.memory == small.folded.memory
    assert sum(map(len, large.folded._older)) <= 40


def test_an_id_of_a_checkpoint_takes_few_bytes(monkeypatch):
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 10_000)
    monkeypatch.setattr(decisions, "CHECKPOINT_INTENTS", 1_000)
    journal, ids = journal_of(4_000)
    assert not journal.folded._recent
    assert journal.folded.memory < 9 * len(ids)


def test_a_fold_that_was_made_small_finds_all():
    journal, ids = journal_of(70)
    before = journal.folded.memory
    journal.folded.make_small()
    assert journal.folded.memory < before
    assert [one for one in ids if journal.folded.find(one) is None] == []
    assert journal.folded.are_new([id_at(1000 * HOUR_MS)])
    journal.decide([id_at(1000 * HOUR_MS)])
    assert not journal.folded.are_new([id_at(1000 * HOUR_MS)])


def test_ids_of_the_last_checkpoints_are_told_from_others_also_when_small():
    """Intents of one time come in any order: those that are late by a batch must not cost a look into the journal."""
    journal, _ = journal_of(72)
    journal.folded.make_small()
    journal.files.seen.clear()
    assert journal.folded.are_new([id_at(33 * HOUR_MS, 999)])
    assert not journal.files.seen


def test_a_renamed_table_takes_all_along():
    journal, ids = journal_of(70)
    target = Journal(limits=Limits(), table="/warehouse/db/renamed")
    target.files = journal.files
    target.folded = target.opened()
    arriving = target.segment([id_at(1000 * HOUR_MS)])
    own = target.folded.checkpoint_with(arriving.decided, location=arriving.location)
    handed = journal.folded.handed_over(own)
    assert [i for i, _, _ in handed.intents] == [*ids, id_at(1000 * HOUR_MS)]
    assert {handed.segments[at] for i, _, at in handed.intents if i == ids[0]} == {
        segment_location(TABLE, sequence=1, token="token")
    }


def test_a_checkpoint_that_is_none_is_said():
    journal, ids = journal_of(70)
    location = journal.folded._older[0].location
    without = msgspec.structs.replace(journal.segment([]), checkpoint=None)
    journal.files.replace(location, pack_segment(without))
    with pytest.raises(CorruptFile, match="holds none"):
        journal.folded.find(ids[0])


def test_a_fold_that_is_far_behind_starts_from_the_last_checkpoint():
    """Another daemon had the table for an hour: its segments are not read one by one."""
    journal, ids = journal_of(8)
    behind = journal.opened()
    behind.catch_up(journal.folded.head)
    for at in range(100):
        journal.decide([id_at((1 + at) * HOUR_MS, 1_000 + at)], entry_ms=(1 + at) * HOUR_MS)
    journal.files.seen.clear()
    behind.catch_up(journal.folded.head)
    assert behind.sequence == journal.folded.sequence
    assert len(journal.files.seen) < 40  # the checkpoints, whose ids memory has room for
    later = [id_at((1 + at) * HOUR_MS, 1_000 + at) for at in range(100)]
    assert [one for one in (*ids, *later) if behind.are_new([one]) or behind.find(one) is None] == []


def test_a_journal_that_is_not_the_folded_one_is_refused_without_reading_all_of_it():
    """As after a pointer was put back by hand, or made of another journal of the name."""
    journal, _ = journal_of(40)
    other = Journal(limits=Limits())
    other.files = journal.files
    for at in range(journal.folded.sequence + 2):
        segment = other.segment([id_at(at, 5_000 + at)])
        segment = msgspec.structs.replace(segment, location=segment.location.replace("token", "other"))
        other.files.create(segment.location, pack_segment(segment))
        other.folded.add(segment)
    journal.files.seen.clear()
    with pytest.raises(CorruptFile, match="begins a journal of its own"):
        journal.folded.catch_up(other.folded.head)
    assert len(journal.files.seen) == 3
    earlier = JournalFiles(journal.files, bytes_max=2**20).read(str(journal.folded.head)).batch.previous_segment
    journal.files.seen.clear()
    with pytest.raises(CorruptFile, match="begins a journal of its own"):
        journal.folded.catch_up(earlier)
    assert len(journal.files.seen) == 1


@pytest.mark.parametrize("reopened", [False, True])
def test_no_writer_is_forgotten(reopened):
    """Also behind a checkpoint, and past the limit: its last epoch would be taken again."""
    journal = Journal(limits=Limits(writers_max=2))
    for at, writer in enumerate(["a", "b", "c", "a", "d"]):  # the fourth segment has the checkpoint
        journal.decide([id_at(at, at)], epoch=(writer, at))
        if at == 3 and reopened:
            head, journal.folded = journal.folded.head, journal.opened()
            journal.folded.catch_up(head)
    assert journal.folded.writers == 4
    assert all(journal.folded.last_of_writer(writer) is not None for writer in "abcd")
