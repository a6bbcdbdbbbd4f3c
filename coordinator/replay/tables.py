"""Create and drop tables."""

from __future__ import annotations

import uuid
from typing import Final
from urllib.parse import quote

from firn.coordinator.replay.decision import Applied, Refusal, Refused
from firn.coordinator.replay.working import Working
from firn.model.errors import FirnError, InvalidInput
from firn.model.intent import CreateTable, DropTable
from firn.model.metadata_create import new_table_metadata
from firn.model.partitioning import PartitionSpec, spec_from_json
from firn.model.schema import schema_from_json
from firn.model.sorting import UNSORTED, order_from_json
from firn.storage.locations import is_within, normalize, overlap

TABLE_UUIDS: Final = uuid.UUID("5b0f6a52-6e26-5c1e-8a2c-8d6a7f2f9b11")
"""Namespace from which table uuids are derived: the same create intent makes the same table on every attempt."""


def create_table(working: Working, intent: CreateTable) -> Applied:
    """Make the table. Prevents: two tables in one place, where one's cleanup deletes the other's files."""
    if working.metadata is not None:
        raise Refusal(Refused(rule="table-exists", message=f"{working.table!r} exists already", hint="fix"))
    location = _location(working, intent)
    try:
        schema = schema_from_json(intent.schema, where="schema")
        working.metadata = new_table_metadata(
            schema=schema,
            spec=PartitionSpec(spec_id=0)
            if intent.partition_spec is None
            else spec_from_json(intent.partition_spec, where="partition-spec"),
            order=UNSORTED if intent.write_order is None else order_from_json(intent.write_order, where="write-order"),
            location=location,
            properties=intent.properties,
            format_version=intent.format_version,
            table_uuid=intent.table_uuid or str(uuid.uuid5(TABLE_UUIDS, intent.intent_id)),
            now_ms=working.attempt.now_ms,
        )
    except FirnError as error:
        raise Refusal(Refused(rule="invalid-table", message=str(error), hint="fix")) from error
    working.change = "created"
    return Applied()


def drop_table(working: Working, intent: DropTable) -> Applied:
    """Forget the table. Its files stay where they are."""
    working.require(table_uuid=intent.table_uuid)
    working.metadata = None
    working.snapshots.clear()
    working.heads.clear()
    working.change = "dropped"
    return Applied()


def default_location(table: str, *, warehouse: str) -> str:
    """Where a table lives unless it is told otherwise: ``<warehouse>/<namespace>/<name>``, percent-encoded.

    Dots stay within the namespace's folder name, so that no table's location can lie inside another's.
    """
    namespace, _, name = table.rpartition(".")
    parts = [quote(part, safe="-_.~").replace("..", "%2E%2E") for part in (namespace, name) if part]
    return "/".join([warehouse.rstrip("/"), *parts])


def _location(working: Working, intent: CreateTable) -> str:
    placement = working.placement
    location = intent.location or default_location(working.table, warehouse=placement.warehouse)
    try:
        location = normalize(location)
        inside = any(is_within(location, root) for root in placement.allowed)
    except InvalidInput as error:
        raise Refusal(Refused(rule="location-not-allowed", message=f"location: {error}", hint="fix")) from error
    if not inside:
        raise Refusal(
            Refused(
                rule="location-not-allowed",
                message=f"location: {location!r} is in none of {', '.join(placement.allowed)}",
                hint="fix",
            )
        )
    for other, taken in placement.taken.items():
        if other != working.table and overlap(location, taken):
            raise Refusal(
                Refused(
                    rule="location-taken",
                    message=f"location: {location!r} overlaps with {taken!r} of table {other!r}",
                    hint="fix",
                )
            )
    return location
