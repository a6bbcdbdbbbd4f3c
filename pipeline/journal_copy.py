"""Copying journal segments out of the folder in which orphan removal by other engines deletes them.

Versions before 25 November 2026 wrote segments to `metadata/journal`. A copy in the new folder is read when the segment
itself is gone (`firn.storage.journal`), so nothing that names a segment has to change, and originals stay for older
daemons.
"""

from __future__ import annotations

from typing import Final

from firn.model.errors import AlreadyExists, CorruptFile, InvalidInput, NotFound
from firn.model.limits import Limits
from firn.pipeline.parallel_files import in_parallel
from firn.storage.files import FileStore
from firn.storage.journal import JOURNAL_FOLDER, OLD_JOURNAL_FOLDER, both_locations, home_of, sequence_of

COPIES_MAX: Final = 20_000
"""Segments copied in one run: some minutes on an object store. The next run goes on where this one ended."""


def copy_old_journal(files: FileStore, home: str, *, limits: Limits, copies_max: int = COPIES_MAX) -> int:
    """Copy the segments of the table folder `home` that are in the old folder only, the newest first; how many.

    Segments of lost swaps are copied, too: recovery compares them with those that were committed. Each copy is durable
    before the next run can take it for one. Raises Unavailable, UnknownOutcome.
    """
    old = [one.location for one in files.list(f"{home}/{OLD_JOURNAL_FOLDER}") if home_of(one.location) == home]
    if not old:
        return 0
    copied = {one.location for one in files.list(f"{home}/{JOURNAL_FOLDER}")}
    missing = sorted((one for one in old if both_locations(one)[0] not in copied), key=sequence_of, reverse=True)
    done = in_parallel(lambda one: _copy(files, one, bytes_max=limits.journal_bytes_max), missing[:copies_max])
    return sum(done)


def _copy(files: FileStore, location: str, *, bytes_max: int) -> bool:
    """Copy one segment as it is; False when it is gone, was copied meanwhile, or cannot be read (fsck says so)."""
    try:
        files.create(both_locations(location)[0], files.read(location, bytes_max=bytes_max))
    except (NotFound, AlreadyExists, InvalidInput, CorruptFile):
        return False
    return True
