"""What is wrong with a table on which nothing can be committed, as the daemon found it that would commit."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

WHY_CHARACTERS_MAX: Final = 500


class Trouble(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """``unreadable``: stored files do not pass their checks. ``stalled``: what the batch needs is refused, and it is
    tried again. `why` is in words, for people.
    """

    table: str
    state: Literal["unreadable", "stalled"]
    why: str

    def __str__(self) -> str:
        said = "cannot be read" if self.state == "unreadable" else "waits and is tried again"
        return f"table {self.table} {said}: {self.why}"
