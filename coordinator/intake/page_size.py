"""How many entries are asked for at once: as many as fit, by the size of those that came last.

Redis answers with whole entries, and one may have 16 MiB: a full page of such would be the end of a daemon before it
has counted a delivery, and of every daemon after it. So a daemon begins with few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from firn.storage.intent_streams import Entry

READ_BYTES_MAX: Final = 64 * 1024 * 1024
"""What one answer should have at most, if its entries are as large as the largest of the one before."""

FIRST: Final = 16
GROWTH: Final = 8
"""So many entries the first time, and so many times as many each time after that, as long as they fit."""


class PageSize:
    """The size of pages of `most` entries at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._fit = FIRST

    def count(self, *, streams: int = 1) -> int:
        """Entries to ask each of so many streams for, all in one answer."""
        return max(1, min(self._most, self._fit // streams))

    def saw(self, entries: Sequence[Entry]) -> None:
        """These have come."""
        if entries:
            largest = max(map(_size, entries))
            self._fit = max(1, min(GROWTH * self._fit, READ_BYTES_MAX // max(1, largest)))


def _size(entry: Entry) -> int:
    return sum(map(len, entry.fields.values())) if entry.payload is None else len(entry.payload)
