"""A decision is found by what its id and the journal say of time, whatever clock the id was made by."""

from __future__ import annotations

import pytest

from firn.coordinator.journal import decisions
from firn.coordinator.journal.lookups import find_decision
from firn.model.limits import Limits
from firn.storage.journal import JournalFiles
from tests.unit.coordinator.journal.journals import HOUR_MS, Journal, id_at

SKEW_MS = HOUR_MS
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def checkpoints_of_four_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHECKPOINT_SEGMENTS", 4)


def found(journal: Journal, intent_id: str) -> bool:
    """Whether the decision is found, and no other."""
    journal.files.seen.clear()
    files = JournalFiles(journal.files, bytes_max=2**20)
    decision = find_decision(files, journal.folded.head, intent_id, skew_ms=SKEW_MS)
    assert decision is None or decision[1].intent_id == intent_id
    return decision is not None


def journal_with(odd: str, *, segments_after: int) -> Journal:
    """An intent among others that are made and decided one an hour; so many segments come after it."""
    journal = Journal(limits=Limits())
    for at in range(2_000, 2_040):
        journal.decide([id_at(at * HOUR_MS, at)], entry_ms=at * HOUR_MS)
    journal.decide([odd], entry_ms=2_040 * HOUR_MS)
    for at in range(2_041, 2_041 + segments_after):
        journal.decide([id_at(at * HOUR_MS, at)], entry_ms=at * HOUR_MS)
    return journal


@pytest.mark.parametrize("segments_after", range(0, 14, 2))
@pytest.mark.parametrize("ahead_ms", [-20 * HOUR_MS, 0, HOUR_MS, 2 * HOUR_MS, 12 * HOUR_MS, 400 * DAY_MS])
def test_a_decision_is_found_however_wrong_its_writers_clock_was(ahead_ms, segments_after):
    """Also one that was refused because of it: when its time comes, and before."""
    odd = id_at(2_040 * HOUR_MS + ahead_ms, 9_999)
    assert found(journal_with(odd, segments_after=segments_after), odd)


def test_of_what_was_never_decided_only_so_much_is_read_as_could_have_it():
    journal = journal_with(id_at(2_040 * HOUR_MS), segments_after=8)
    assert not found(journal, id_at(2_048 * HOUR_MS + 1, 77_777))
    assert len(journal.files.seen) <= 4 + 1  # up to the last checkpoint, before which nothing is as young
    assert not found(journal, id_at(2_048 * HOUR_MS + 3 * DAY_MS, 77_777))
    assert len(journal.files.seen) <= 4 + 1
    for at in range(2_000, 2_049):
        assert found(journal, id_at(at * HOUR_MS, 0 if at == 2_040 else at))
