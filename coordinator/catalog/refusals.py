"""The answer to a request whose intent was refused: a status, and a text as the reference implementation words it.

Clients show the text, and Iceberg's compatibility kit compares it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from firn.coordinator.catalog.statuses import (
    ALREADY_EXISTS,
    COMMIT_FAILED,
    NO_SUCH_TABLE,
    NO_SUCH_VIEW,
    Status,
    status_of,
)
from firn.model.outcome import Rejected

Kind = Literal["table", "view"]

ABOUT_NAMES = frozenset({"table-exists", "wrong-kind", "requirement-failed"})
"""Rules whose answer depends on what has the name by then."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is about. `creates` where the name is to be free; `asserted` where a requirement says so."""

    table: str
    kind: Kind = "table"
    creates: bool = False
    asserted: bool = False
    new_name: str | None = None


def refusal_of(subject: Subject, rejected: Rejected, *, there: Kind | None) -> tuple[Status, str]:
    """Return the status and the text for a refused request; `there` is what has the name that the refusal is about."""
    name = refused_name(subject, rejected)
    other = there is not None and there != subject.kind
    match rejected.rule:
        case "table-exists":
            return ALREADY_EXISTS, _exists(subject, name, there=there)
        case "unknown-table":
            return no_such(name, subject.kind)
        case "wrong-kind":
            return (
                (ALREADY_EXISTS, _exists(subject, name, there=there))
                if subject.creates
                else no_such(name, subject.kind)
            )
        case "requirement-failed" if subject.creates and (other or subject.kind == "view"):
            return ALREADY_EXISTS, _exists(subject, name, there=there)
        case "requirement-failed":
            return COMMIT_FAILED, rejected.message
    return status_of(rejected), f"{rejected.rule}: {rejected.message}"


def no_such(name: str, kind: Kind) -> tuple[Status, str]:
    """Return the answer where there is no table, or no view, of a name."""
    return (NO_SUCH_VIEW if kind == "view" else NO_SUCH_TABLE), f"{kind.capitalize()} does not exist: {name}"


def refused_name(subject: Subject, rejected: Rejected) -> str:
    """Return the name that a refusal is about: of the member that was refused, where it was one of a transaction."""
    member = rejected.details.get("table")
    return member if isinstance(member, str) else subject.table


def _exists(subject: Subject, name: str, *, there: Kind | None) -> str:
    found = (there or subject.kind).capitalize()
    if subject.new_name is not None:
        return f"Cannot rename {subject.table} to {subject.new_name}. {found} already exists"
    if there is not None and there != subject.kind:
        return f"{found} with same name already exists: {name}"
    if subject.asserted and subject.kind == "table":
        return "Requirement failed: table already exists"
    return f"{found} already exists: {name}"
