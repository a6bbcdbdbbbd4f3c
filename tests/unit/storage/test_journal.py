"""Segments are one journal, whichever of the two folders they are in."""

from __future__ import annotations

import pytest

from firn.model.errors import NotFound
from firn.model.journal import Batch, Segment
from firn.storage.journal import (
    JOURNAL_FOLDER,
    OLD_JOURNAL_FOLDER,
    JournalFiles,
    both_locations,
    home_of,
    is_journal_file,
    is_same_segment,
    pack_segment,
    segment_location,
    sequence_of,
)
from firn.storage.memory_files import MemoryFiles

TABLE = "memory://wh/t"
NAME = "0000000007-a.jsonl.gz"
NEW, OLD = f"{TABLE}/{JOURNAL_FOLDER}/{NAME}", f"{TABLE}/{OLD_JOURNAL_FOLDER}/{NAME}"


def segment(location: str, previous: str | None) -> Segment:
    batch = Batch(
        batch="b", table="db.t", table_uuid="u", sequence=sequence_of(location), daemon="d", lock_token=1,
        timestamp_ms=1, previous_segment=previous,
    )  # fmt: skip
    return Segment(location=location, batch=batch, decided=())


def stored(*folders: str) -> tuple[MemoryFiles, list[str]]:
    """A journal of which each segment was written to a folder of its own; the locations, oldest first."""
    files, locations = MemoryFiles(), list[str]()
    for number, folder in enumerate(folders, start=1):
        location = f"{TABLE}/{folder}/{number:010d}-x.jsonl.gz"
        files.create(location, pack_segment(segment(location, locations[-1] if locations else None)))
        locations.append(location)
    return files, locations


def moved(files: MemoryFiles, location: str) -> None:
    """Leave only the copy of a segment."""
    new, old = both_locations(location)
    files.create(old if location == new else new, files.read(location, bytes_max=1 << 20))
    files.delete(location)


def test_a_new_segment_is_in_a_folder_that_walkers_of_iceberg_skip() -> None:
    below = segment_location(TABLE, sequence=7, token="a").removeprefix(f"{TABLE}/")
    assert any(part.startswith(("_", ".")) for part in below.split("/"))
    assert "=" not in below  # or it could be the folder of a partition field whose name begins with an underscore


@pytest.mark.parametrize(
    ("location", "home"),
    [
        (NEW, TABLE),
        (OLD, TABLE),
        (f"/wh/metadata/journal/t/metadata/_journal/{NAME}", "/wh/metadata/journal/t"),
        (f"{TABLE}/metadata/_journal/deeper/{NAME}", None),
        (f"{TABLE}/metadata/_journal/0000000000-a.jsonl.gz", None),
        (f"{TABLE}/metadata/_journal/paused/0000000000007-a.json", None),
        (f"{TABLE}/metadata/my_journal/{NAME}", None),
        (f"{TABLE}/metadata/_journal", None),
        (NAME, None),
    ],
)
def test_the_table_of_a_segment(location: str, home: str | None) -> None:
    assert home_of(location) == home


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (NEW, OLD, True),
        (NEW, NEW, True),
        (None, None, True),
        (NEW, None, False),
        (NEW, OLD.replace("-a", "-b"), False),
        (NEW, OLD.replace("/t/", "/u/"), False),
        (f"{TABLE}/_journal/x", f"{TABLE}/journal/x", False),
    ],
)
def test_a_segment_and_its_copy_are_the_same(a: str | None, b: str | None, same: bool) -> None:
    assert is_same_segment(a, b) is same
    assert is_same_segment(b, a) is same


@pytest.mark.parametrize(
    ("location", "is_one"),
    [
        (NEW, True), (OLD, True), ("file:///wh//t/metadata/_journal/x", True), ("/wh/t/metadata/./journal/x", True),
        ("s3a://b/t/metadata/_journal/paused/1.json", True), ("/wh/t/metadata/journals/x", False),
        ("/wh/t/data/_journal/x", False),
    ],
)  # fmt: skip
def test_both_folders_hold_journal_files(location: str, is_one: bool) -> None:
    assert is_journal_file(location) is is_one


@pytest.mark.parametrize("gone", [False, True])
def test_the_chain_is_walked_through_both_folders_also_when_only_copies_are_left(gone: bool) -> None:
    new, old = JOURNAL_FOLDER, OLD_JOURNAL_FOLDER
    files, locations = stored(old, old, new, old, new)
    if gone:
        for location in locations:
            moved(files, location)
    journal = JournalFiles(files, bytes_max=1 << 20)
    assert [one.location for one in journal.walk(locations[-1])] == locations[::-1]
    for until in both_locations(locations[1]):
        assert [one.location for one in journal.walk(locations[-1], until=until)] == locations[:1:-1]


def test_a_segment_that_is_in_neither_folder_is_missing_under_the_name_that_was_asked_for() -> None:
    with pytest.raises(NotFound, match=OLD):
        JournalFiles(MemoryFiles(), bytes_max=1 << 20).read(OLD)
