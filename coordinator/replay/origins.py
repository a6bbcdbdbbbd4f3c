"""Files are for the table, and the columns, that they were described for."""

from __future__ import annotations

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.file_origins import has_origin
from firn.model.intent import FileOperation, Replace, added_files
from firn.model.landmark import TABLE, schema_key
from firn.model.metadata import TableMetadata
from firn.model.schema import Schema

NAMED_MAX = 10
"""Columns that a refusal names."""


def require_origin(working: Working, intent: FileOperation) -> None:
    """Refuse files that were described for another table, or for columns that others have replaced since.

    The intent's own `table_uuid` has been compared (`Working.require`). Files that take the place of others, with the
    same rows, may have replaced columns: so have those whose place they take.

    Prevents: rows that readers find under other columns, or as nulls.
    """
    metadata = working.metadata
    assert metadata is not None
    schema_ids = set(intent.schema_ids)
    for file in filter(has_origin, added_files(intent)):
        if file.table_uuid not in {None, metadata.table_uuid}:
            rules.TABLE_UUID_MISMATCH.refuse(
                f"{file.file_path} was described for table {file.table_uuid}, and {working.table!r} is table "
                f"{metadata.table_uuid} now",
                files=(file.file_path,),
                by=working.landmarks.find(TABLE),
            )
        if file.schema_id is not None:
            schema_ids.add(file.schema_id)
    schema_ids.discard(metadata.current_schema_id)
    if schema_ids and not isinstance(intent, Replace):
        for schema_id in sorted(schema_ids):
            _require_columns(working, metadata, schema_id)


def _require_columns(working: Working, metadata: TableMetadata, schema_id: int) -> None:
    described, current = metadata.schema_by_id(schema_id), metadata.current_schema
    columns: list[str] = []
    if described is None:
        reason = f"the table has no schema {schema_id}, by which the files were described"
    else:
        columns = replaced_columns(described, current)
        if not columns:
            return
        named = ", ".join(map(repr, columns[:NAMED_MAX])) + (" …" if len(columns) > NAMED_MAX else "")
        reason = f"the files were described by schema {schema_id}, whose columns {named} were replaced since"
    rules.COLUMNS_REPLACED.refuse(
        f"{reason}; the current schema is {current.schema_id}: describe them anew, or write the rows again",
        columns=columns,
        by=working.landmarks.find(schema_key(current.schema_id)),
    )


def replaced_columns(described: Schema, current: Schema) -> list[str]:
    """Return the columns of a schema that are gone and whose names others have now; all where none is left.

    A column that was only dropped or renamed is not among them: its values are as lost, or as present, as those in
    older files.
    """
    left = current.fields_by_id.keys()
    gone = [field_id for field_id in described.fields_by_id if field_id not in left]
    if described.fields_by_id and len(gone) == len(described.fields_by_id):
        return [described.names_by_id[field_id] for field_id in gone]
    return [name for field_id in gone if (name := described.names_by_id[field_id]) in current.ids_by_name]
