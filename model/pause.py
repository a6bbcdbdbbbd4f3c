"""A pause: an operator's word that nothing is to be committed to a table for a while, and why."""

from __future__ import annotations

from typing import Final

import msgspec

REASON_CHARACTERS_MAX: Final = 500


class Pause(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Who paused a table, when (Unix milliseconds, by the clock of whoever asked), and why."""

    by: str
    since_ms: int
    reason: str
