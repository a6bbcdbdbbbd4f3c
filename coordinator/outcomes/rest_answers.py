"""How requests of REST clients were answered, for the metrics: as they were sent, lifted, or refused by a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from firn.model.effects import MEMBERS, TRANSACTION
from firn.model.outcome import Committed, Outcome, Rejected

REQUESTS: Final = frozenset({"rest-commit", "rest-view-commit"})
NO_RULE: Final = "none"

WITH_REQUESTS: Final = REQUESTS | {TRANSACTION}
"""Operations that are requests, or may have some as members."""


def answers_in(operation: str, outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield how each request of an intent was answered (exact, lifted, refused), and by which rule.

    Of a transaction that is refused only the member counts that is refused.
    """
    if operation in REQUESTS:
        yield _answer(outcome, outcome.details)
    elif operation == TRANSACTION and isinstance(outcome, Committed):
        for member in outcome.details.get(MEMBERS, ()):
            of, details = _parts(member)
            if of in REQUESTS:
                yield _answer(outcome, details)
    elif operation == TRANSACTION and outcome.details.get("operation") in REQUESTS:
        yield _answer(outcome, outcome.details)


def _answer(outcome: Outcome, details: Mapping[str, Any]) -> tuple[str, str]:
    if isinstance(outcome, Rejected):
        return "refused", outcome.rule
    return str(details.get("how", "exact")), NO_RULE


def _parts(member: Any) -> tuple[Any, Mapping[str, Any]]:
    """The operation and the details of a member's effect, which is a value here and JSON in what was read."""
    if isinstance(member, Mapping):
        return member.get("operation"), member.get("details", {})
    return member.operation, member.details
