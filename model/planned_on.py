"""What an intent was planned on, where, and for what: branch or tag, the snapshot that its writer saw, the trace."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from firn.model.operations.common import Operation
from firn.model.operations.files import Append
from firn.model.operations.rest import RestCommit

TRACE_KEYS: Final = ("trace-id", "traceparent")
"""Entries of a summary by which a writer's own tracing knows an intent."""

_REFS: Final = ("branch", "ref_name")
_BASES: Final = ("base_snapshot_id", "expected_snapshot_id")


def ref_of(intent: Operation) -> str | None:
    """The branch or tag that the intent is about; None where it is about the table."""
    if isinstance(intent, Append):  # nearly always, and asked of each
        return intent.branch
    if isinstance(intent, RestCommit):
        return intent.branch
    for member in _members(type(intent), _REFS):
        name: Any = getattr(intent, member)
        if isinstance(name, str):
            return name
    return None


def trace_of(intent: Operation) -> str | None:
    """The trace that the intent belongs to, if its writer said so: in its own member, or in the summary."""
    if intent.traceparent is not None:
        return intent.traceparent
    return next((intent.summary[key] for key in TRACE_KEYS if key in intent.summary), None) if intent.summary else None


def base_of(intent: Operation) -> int | None:
    """The snapshot that the intent was planned on; None where it does not say, or the branch was empty."""
    if isinstance(intent, Append):
        return intent.base_snapshot_id
    if isinstance(intent, RestCommit):
        return intent.base_snapshot_id
    for member in _members(type(intent), _BASES):
        base: Any = getattr(intent, member)
        if isinstance(base, int):
            return base
    return None


@cache
def _members(kind: type[Operation], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these members that an operation has."""
    return tuple(name for name in names if name in kind.__struct_fields__)
