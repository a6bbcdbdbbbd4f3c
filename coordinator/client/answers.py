"""What a writer can be told: one of the two final outcomes, or that there is none yet."""

from __future__ import annotations

import msgspec

from firn.model.errors import RejectedError, UnknownOutcome
from firn.model.outcome import Committed, Outcome, Rejected


class Unknown(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag="unknown", tag_field="status"):
    """There is no outcome yet, for all the client can tell: the intent may be committed, now or later, or never be.

    Never delete the files of such an intent, and never submit their rows under another intent id. Wait again, or ask
    for the outcome later, or submit the same intent again: that is safe at any time. `attempts` counts how often it
    has been submitted.
    """

    intent_id: str
    table: str
    reason: str
    attempts: int


Answer = Outcome | Unknown


def committed(answer: Answer) -> Committed:
    """The answer if it is `Committed`; raises `RejectedError` or `UnknownOutcome` otherwise."""
    match answer:
        case Committed():
            return answer
        case Rejected():
            raise RejectedError(answer)
        case Unknown():
            raise UnknownOutcome(f"intent {answer.intent_id} on {answer.table}: {answer.reason}")
