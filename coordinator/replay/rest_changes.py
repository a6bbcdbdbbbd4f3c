"""What a request of a REST client has changed beside its snapshots, and who sent it: for its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.coordinator.replay.refs_rules import LISTED_MAX
from firn.model import rest_updates as rest
from firn.model.effects import SNAPSHOT_IDS
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import RestRequest


def sent_by(intent: RestRequest) -> dict[str, str]:
    """The engine and the client of a request, as far as they are known."""
    named = {"engine": intent.engine, "client": intent.client}
    return {name: value for name, value in named.items() if value is not None}


def changes_between(
    before: TableMetadata | None, after: TableMetadata, updates: Sequence[rest.Update]
) -> dict[str, Any]:
    """What no snapshot tells of a request: later conflicts name it as the one that came first (landmarks)."""
    added = [update.snapshot.snapshot_id for update in updates if isinstance(update, rest.AddSnapshot)]
    details: dict[str, Any] = {SNAPSHOT_IDS: added}
    if before is None:
        details["created"] = True
    numbers = (
        ("schema-id", before and before.current_schema_id, after.current_schema_id),
        ("spec-id", before and before.default_spec_id, after.default_spec_id),
        ("sort-order-id", before and before.default_sort_order_id, after.default_sort_order_id),
        ("format-version", before and before.format_version, after.format_version),
    )
    details |= {name: now for name, was, now in numbers if was != now}
    known = {} if before is None else before.properties
    names = known.keys() | after.properties.keys()
    details["properties"] = sorted(name for name in names if known.get(name) != after.properties.get(name))
    refs = {} if before is None else before.refs
    details["refs"] = sorted(
        name for name, ref in after.refs.items() if refs.get(name) != ref and ref.snapshot_id not in added
    )
    details["removed-refs"] = sorted(refs.keys() - after.refs.keys())
    there = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = [] if before is None else [one.snapshot_id for one in before.snapshots if one.snapshot_id not in there]
    details["removed"] = gone
    if after is before:
        details["unchanged"] = True
    return {
        name: value[:LISTED_MAX] if isinstance(value, list) else value for name, value in details.items() if value != []
    }
