"""Old segments of one journal, read on behalf of intents that may have been decided in them."""

from __future__ import annotations

from typing import Final

from firn.model.errors import CorruptFile, FirnError, InvalidInput, NotFound, Unavailable
from firn.model.journal import Checkpoint, Segment
from firn.storage.journal import JournalFiles

UNREADABLE: Final = (CorruptFile, InvalidInput, NotFound, Unavailable)
"""What reading a segment raises: it is damaged, no regular file, gone, or its store does not give it."""


class OldSegments:
    """Reads segments. One that cannot be read is not asked for again until `look_again`: many intents may need it."""

    def __init__(self, journal: JournalFiles) -> None:
        self._journal = journal
        self._errors: dict[str, FirnError] = {}

    def read(self, location: str) -> Segment:
        """One segment. Raises one of `UNREADABLE`, which names the file."""
        known = self._errors.get(location)
        if known is not None:
            raise known.with_traceback(None)  # else it grows with every intent
        try:
            return self._journal.read(location)
        except UNREADABLE as error:
            self._errors[location] = error
            raise

    def checkpoint(self, location: str) -> tuple[Segment, Checkpoint]:
        """One that holds a checkpoint, as its successor says. Raises as `read`."""
        segment = self.read(location)
        if segment.checkpoint is None:
            raise CorruptFile(location, "is named as a checkpoint of the journal, but holds none")
        return segment, segment.checkpoint

    def look_again(self) -> None:
        """What could not be read may be there again."""
        self._errors.clear()
