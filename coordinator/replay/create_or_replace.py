"""Create a table, or put another in its place, which keeps its name, its history and its ids; with its first rows."""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.append import AppendGroup, bind_append
from firn.coordinator.replay.decision import Applied, Refusal
from firn.coordinator.replay.places import require_own, require_own_places
from firn.coordinator.replay.properties import require_few_properties
from firn.coordinator.replay.tables import create_table
from firn.coordinator.replay.working import Working
from firn.model.errors import FirnError, InvalidPropertyError
from firn.model.file_origins import without_origins
from firn.model.intent import Append, CreateTable
from firn.model.landmark import TABLE, schema_key, spec_key
from firn.model.metadata import TableMetadata
from firn.model.metadata_replace import replace_table
from firn.model.new_names import check_new_names
from firn.model.operations.tables import CreateOrReplaceTable, SeenTable
from firn.model.partitioning import UNPARTITIONED, spec_from_json
from firn.model.schema import schema_from_json
from firn.model.snapshot import MAIN_BRANCH
from firn.model.sorting import UNSORTED, order_from_json


def create_or_replace_table(working: Working, intent: CreateOrReplaceTable) -> Applied:
    """Make the table, or replace the one that the writer saw; its data files, if any, are the new table's rows."""
    if working.view is not None:
        working.require_free()
    before, change, catalog = working.metadata, working.change, working.catalog
    try:
        if before is None:
            applied = _create(working, intent)
        else:
            _replace(working, before, intent)
            applied = Applied()
        if intent.data_files and working.change != "registered":
            applied = _fill(working, intent)
    except Refusal:
        working.metadata, working.change, working.catalog = before, change, catalog
        working.snapshots.clear()
        working.heads.clear()
        raise
    return msgspec.structs.replace(applied, details=_details(working, replaced=before))


def _create(working: Working, intent: CreateOrReplaceTable) -> Applied:
    if intent.seen is not None:
        _refuse_changed(working, f"table {intent.seen.uuid}, which was to be replaced, is not there any more")
    return create_table(
        working,
        CreateTable(
            intent_id=intent.intent_id,
            table=intent.table,
            table_uuid=intent.table_uuid,
            schema=intent.schema,
            partition_spec=intent.partition_spec,
            write_order=intent.write_order,
            location=intent.location,
            properties=intent.properties,
            format_version=2 if intent.format_version is None else intent.format_version,
            catalog=intent.catalog,
        ),
    )


def _replace(working: Working, metadata: TableMetadata, intent: CreateOrReplaceTable) -> None:
    if intent.seen is None:
        rules.TABLE_EXISTS.refuse(f"{working.table!r} was made since the writer looked", hint="replan")
    working.require(table_uuid=intent.table_uuid)
    require_seen(working, metadata, intent.seen)
    require_base(metadata, intent)
    location = _location(working, metadata, intent)
    require_own_places(working, {**metadata.properties, **intent.properties}, location=location or metadata.location)
    if intent.format_version is not None and intent.format_version < metadata.format_version:
        rules.FORMAT_DOWNGRADE.refuse(
            f"the table has format version {metadata.format_version}, which cannot become {intent.format_version}"
        )
    try:
        schema = schema_from_json(intent.schema, where="schema")
        check_new_names(schema, known=metadata.current_schema)
        changed = replace_table(
            metadata,
            schema,
            UNPARTITIONED
            if intent.partition_spec is None
            else spec_from_json(intent.partition_spec, where="partition-spec"),
            UNSORTED if intent.write_order is None else order_from_json(intent.write_order, where="write-order"),
            location=location,
            properties=intent.properties,
            format_version=intent.format_version,
            now_ms=working.attempt.now_ms,
        )
    except InvalidPropertyError as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    except FirnError as error:
        rules.INVALID_TABLE.refuse(str(error))
    require_few_properties(working, changed.properties)
    working.change_metadata(changed)


def require_seen(working: Working, metadata: TableMetadata, seen: SeenTable) -> None:
    """Refuse when the table is not what the writer saw. Prevents: columns and partition fields whose ids are another's.

    A column keeps its id by its name, and new ones get the next ids: a writer who has written files for the new table
    has worked out those ids from the schema and the last ids that it saw.
    """
    if seen.uuid != metadata.table_uuid:
        _refuse_changed(working, f"{working.table!r} is table {metadata.table_uuid} now, not {seen.uuid}")
    if (seen.schema_id, seen.last_column_id) != (metadata.current_schema_id, metadata.last_column_id):
        rules.SCHEMA_CONFLICT.refuse(
            f"the table has schema {metadata.current_schema_id} and columns up to {metadata.last_column_id} now, "
            f"not schema {seen.schema_id} and columns up to {seen.last_column_id}",
            by=working.landmarks.find(schema_key(metadata.current_schema_id)),
        )
    if seen.last_partition_id != metadata.last_partition_id:
        rules.LAYOUT_CONFLICT.refuse(
            f"the table has partition fields up to {metadata.last_partition_id} now, not {seen.last_partition_id}",
            by=working.landmarks.find(spec_key(metadata.default_spec_id)),
        )


def require_base(metadata: TableMetadata, intent: CreateOrReplaceTable) -> None:
    """Refuse when rows that the statement has read are not all there are. Prevents: rows lost that came meanwhile."""
    if intent.base_snapshot_id is not None and intent.base_snapshot_id != metadata.current_snapshot_id:
        rules.REF_MOVED.refuse(
            f"main is at snapshot {metadata.current_snapshot_id} now, not at {intent.base_snapshot_id}",
            winner=metadata.current_snapshot,
            base=intent.base_snapshot_id,
        )


def _location(working: Working, metadata: TableMetadata, intent: CreateOrReplaceTable) -> str | None:
    if intent.location is None:
        return None
    location = require_own(working, intent.location, where="location")
    if working.catalog == "file-system" and location != metadata.location:
        rules.LOCATION_FIXED.refuse(f"{working.table!r} is opened by its path, {metadata.location}")
    return location


def _fill(working: Working, intent: CreateOrReplaceTable) -> Applied:
    """The rows of ``create table as select``, in a snapshot of the new table."""
    append = Append(
        intent_id=intent.intent_id,
        table=intent.table,
        data_files=without_origins(intent.data_files),
        writer=intent.writer,
        summary=intent.summary,
    )
    added = bind_append(working, append)
    group = AppendGroup(working, branch=MAIN_BRANCH, leader=intent.intent_id)
    applied = group.add(append, added)
    group.close()
    return applied


def _refuse_changed(working: Working, message: str) -> NoReturn:
    rules.TABLE_UUID_MISMATCH.refuse(message, by=working.landmarks.find(TABLE))


def _details(working: Working, *, replaced: TableMetadata | None) -> dict[str, Any]:
    """The ids that were assigned, and what ``main`` was."""
    metadata = working.metadata
    assert metadata is not None
    details: dict[str, Any] = {
        "replaced": replaced is not None,
        "schema-id": metadata.current_schema_id,
        "spec-id": metadata.default_spec_id,
        "sort-order-id": metadata.default_sort_order_id,
        "last-column-id": metadata.last_column_id,
    }
    if replaced is not None and replaced.current_snapshot_id is not None:
        details["replaced-snapshot-id"] = replaced.current_snapshot_id
    return details
