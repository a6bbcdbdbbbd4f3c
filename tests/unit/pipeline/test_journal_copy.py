"""Old segments are copied to the folder that other engines leave alone."""

from __future__ import annotations

import pytest

from firn.model.errors import Unavailable
from firn.model.limits import Limits
from firn.pipeline.journal_copy import copy_old_journal
from firn.storage.files import FileStore
from firn.storage.memory_files import MemoryFiles

HOME = "memory://wh/t"
LIMITS = Limits(journal_bytes_max=1000)


def old(number: int) -> str:
    return f"{HOME}/metadata/journal/{number:010d}-x.jsonl.gz"


def new(number: int) -> str:
    return f"{HOME}/metadata/_journal/{number:010d}-x.jsonl.gz"


def content(number: int) -> bytes:
    return f"segment {number}".encode()


def with_old(*numbers: int) -> MemoryFiles:
    files = MemoryFiles()
    for number in numbers:
        files.create(old(number), content(number))
    return files


def copies(files: FileStore) -> list[str]:
    return sorted(one.location for one in files.list(f"{HOME}/metadata/_journal"))


def test_copies_are_the_same_bytes_and_originals_stay() -> None:
    files = with_old(1, 2, 3)
    assert copy_old_journal(files, HOME, limits=LIMITS) == 3
    for number in (1, 2, 3):
        assert files.read(new(number), bytes_max=1000) == files.read(old(number), bytes_max=1000) == content(number)
    assert copy_old_journal(files, HOME, limits=LIMITS) == 0


def test_one_run_copies_a_bounded_number_the_newest_first_and_the_next_goes_on() -> None:
    files = with_old(*range(1, 6))
    done = [copy_old_journal(files, HOME, limits=LIMITS, copies_max=2) for _ in range(2)]
    assert done == [2, 2]
    assert copies(files) == [new(number) for number in range(2, 6)]
    assert copy_old_journal(files, HOME, limits=LIMITS, copies_max=2) == 1
    assert copy_old_journal(files, HOME, limits=LIMITS, copies_max=2) == 0


def test_what_an_older_daemon_adds_later_is_copied_by_the_next_run() -> None:
    files = with_old(1)
    files.create(new(2), content(2))
    assert copy_old_journal(files, HOME, limits=LIMITS) == 1
    files.create(old(3), content(3))
    assert copy_old_journal(files, HOME, limits=LIMITS) == 1
    assert copies(files) == [new(1), new(2), new(3)]


def test_only_segments_of_the_table_are_copied_and_one_that_cannot_be_read_stops_no_other() -> None:
    files = with_old(1, 2)
    for other in ("metadata/journal/paused/0000000000007-a.json", "metadata/journal/notes.txt"):
        files.create(f"{HOME}/{other}", b"{}")
    files.create(f"{HOME}/inner/metadata/journal/0000000001-y.jsonl.gz", b"of another table")
    files.create(old(3), b"x" * 1001)
    assert copy_old_journal(files, HOME, limits=LIMITS) == 2
    assert copies(files) == [new(1), new(2)]


def test_a_store_that_does_not_answer_ends_the_run() -> None:
    class Silent(MemoryFiles):
        def create(self, location: str, data: bytes) -> None:
            raise Unavailable(f"no answer for {location}")

    files = Silent()
    MemoryFiles.create(files, old(1), content(1))
    with pytest.raises(Unavailable, match="no answer"):
        copy_old_journal(files, HOME, limits=LIMITS)
