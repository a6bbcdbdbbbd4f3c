"""What a daemon and its calculator say to each other (see `firn.coordinator.calculating.calculator`)."""

from __future__ import annotations

import msgspec

from firn.coordinator.intake.read_appends import Page
from firn.storage.merge_messages import MergeAsked

Request = Page | MergeAsked
"""Each is about bytes in the shared memory, and is answered in their place."""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What was asked for has `size` bytes. None: the daemon is to do it itself, and finds out why that is so."""

    number: int
    size: int | None
