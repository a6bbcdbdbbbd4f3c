"""Intents for views, by little: what tests of replay, fsck and the daemon make views with."""

from __future__ import annotations

from typing import Any

from firn.model.operations.views import CreateView, ReplaceView
from firn.model.outcome import Committed
from tests.unit.coordinator.workbench import new_id

VIEW = "db.daily"
COLUMNS: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "day", "type": "date", "required": False},
        {"id": 2, "name": "events", "type": "long", "required": False, "doc": "how many"},
    ],
}


def queries(sql: str = "SELECT 1", *dialects: str) -> tuple[dict[str, Any], ...]:
    """The query in each of the dialects (``spark`` when none is given)."""
    return tuple({"type": "sql", "sql": sql, "dialect": one} for one in dialects or ("spark",))


def new_view(sql: str = "SELECT 1", *dialects: str, **changes: Any) -> CreateView:
    """A create intent."""
    return CreateView(**{
        "intent_id": new_id(), "table": VIEW, "schema": COLUMNS, "representations": queries(sql, *dialects), **changes,
    })  # fmt: skip


def base_of(outcome: Committed) -> dict[str, int]:
    """What the next change names as the version that it saw."""
    return {"base_version_id": outcome.details["version-id"], "base_timestamp_ms": outcome.details["timestamp-ms"]}


def replaced(seen: Committed, sql: str, *dialects: str, **changes: Any) -> ReplaceView:
    """A replacement of the version that an outcome told of."""
    return ReplaceView(**{
        "intent_id": new_id(), "table": VIEW, "schema": COLUMNS, "representations": queries(sql, *dialects),
        **base_of(seen), **changes,
    })  # fmt: skip


def change(kind: type, seen: Committed, **members: Any) -> Any:
    """A change of the version that an outcome told of."""
    return kind(**{"intent_id": new_id(), "table": VIEW, **base_of(seen), **members})
