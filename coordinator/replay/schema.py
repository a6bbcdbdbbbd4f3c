"""Update schema: changes by name, applied to the schema as it is now if they mean there what they meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.refs_rules import LISTED_MAX
from firn.coordinator.replay.working import Working
from firn.model.amounts import plural
from firn.model.column_properties import follow_columns
from firn.model.errors import InvalidInput
from firn.model.landmark import Landmark, schema_key
from firn.model.metadata import TableMetadata
from firn.model.metadata_layout import add_schema, check_layout, set_current_schema
from firn.model.name_mapping import (
    NAME_MAPPING_PROPERTY,
    name_mapping_from_text,
    name_mapping_to_text,
    update_name_mapping,
)
from firn.model.new_names import check_new_names
from firn.model.operations.layout import UpdateSchema
from firn.model.schema import Schema
from firn.model.schema_change import SchemaChange, changes_from_json
from firn.model.schema_rebase import contested
from firn.model.schema_update import apply_changes


def update_schema(working: Working, intent: UpdateSchema) -> Applied:
    """Evolve the schema; new columns get their ids now.

    Prevents: of two writers who change one schema, the second undoes the first, or changes a column that it did not
    mean (`schema-conflict`).
    """
    try:
        changes = changes_from_json(list(intent.changes), where="changes")
    except InvalidInput as error:
        rules.INVALID_FIELD.refuse(str(error))
    metadata = working.require(table_uuid=intent.table_uuid)
    base, current = require_schema(working, metadata, intent.base_schema_id), metadata.current_schema
    if base is not current:
        _evolved(working, metadata, base, intent, changes)  # refuses what could never be
        require_uncontested(working, metadata, base, intent, changes)
    evolved = _evolved(working, metadata, current, intent, changes)
    if len(evolved.fields_by_id) > working.limits.columns_max:
        rules.METADATA_TOO_LARGE.refuse(
            f"the schema would have {plural(len(evolved.fields_by_id), 'column')}, "
            f"the limit is {working.limits.columns_max}"
        )
    changed, schema_id = add_schema(metadata, evolved, now_ms=working.attempt.now_ms)
    try:
        changed = set_current_schema(changed, schema_id, now_ms=working.attempt.now_ms)
    except InvalidInput as error:
        rules.INVALID_CHANGE.refuse(f"{error}; no engine could open the table", columns=_names(changes))
    try:
        check_layout(changed)
    except InvalidInput as error:
        rules.COLUMN_IN_USE.refuse(
            f"{error}: change the partition spec or the sort order first", columns=_gone(current, evolved)
        )
    details: dict[str, Any] = {"schema-id": schema_id, **_new_columns(evolved, current)}
    if changed is metadata:
        details["unchanged"] = True
    else:
        changed, remark = _with_properties(changed, before=current, after=evolved)
        working.change_metadata(changed)
        details |= remark
    return Applied(details=details)


def _evolved(
    working: Working,
    metadata: TableMetadata,
    schema: Schema,
    intent: UpdateSchema,
    changes: Sequence[SchemaChange],
) -> Schema:
    transforms: dict[int, set[str]] = {}
    for spec in metadata.partition_specs:
        for field in spec.fields:
            for source_id in field.source_ids:
                transforms.setdefault(source_id, set()).add(field.transform)
    try:
        evolved, _ = apply_changes(
            schema,
            changes,
            last_column_id=metadata.last_column_id,
            format_version=metadata.format_version,
            allow_incompatible=intent.allow_incompatible,
            case_sensitive=intent.case_sensitive,
            partition_transforms=transforms,
        )
        check_new_names(evolved, known=schema, where="changes")
    except InvalidInput as error:
        if schema.schema_id == intent.base_schema_id:
            rules.INVALID_CHANGE.refuse(str(error))
        _refuse_changed(working, metadata, intent, str(error), columns=_names(changes), since=metadata.current_schema)
    return evolved


def require_schema(working: Working, metadata: TableMetadata, schema_id: int) -> Schema:
    """The schema that an intent was planned on. Prevents: its names being read by another schema's columns."""
    schema = metadata.schema_by_id(schema_id)
    if schema is None:
        rules.SCHEMA_CONFLICT.refuse(
            f"the table has no schema {schema_id} (any more)", by=changer_of(working, metadata.current_schema)
        )
    return schema


def require_uncontested(
    working: Working, metadata: TableMetadata, base: Schema, intent: UpdateSchema, changes: Sequence[SchemaChange]
) -> None:
    """Refuse changes of what somebody else has changed since. Prevents: a change that its writer did not mean."""

    def contested_in(schema: Schema) -> tuple[str, ...]:
        return contested(base, schema, changes, case_sensitive=intent.case_sensitive)

    names = contested_in(metadata.current_schema)
    if names:
        first = first_after(metadata, base, lambda schema: bool(contested_in(schema)))
        _refuse_changed(working, metadata, intent, ", ".join(names), columns=names, since=first)


def first_after(metadata: TableMetadata, base: Schema, differs: Callable[[Schema], bool]) -> Schema:
    """The first schema after `base` that `differs` from it in what matters, else the current one.

    Schemas stand in the order in which they were made; one that came back is found where it was first.
    """
    later = metadata.schemas[metadata.schemas.index(base) + 1 :] if base in metadata.schemas else ()
    return next((schema for schema in later if differs(schema)), metadata.current_schema)


def changer_of(working: Working, schema: Schema) -> Landmark | None:
    """Who made the schema what the table has, as far as the journal tells: not for what other engines change."""
    return working.landmarks.find(schema_key(schema.schema_id))


def _refuse_changed(
    working: Working,
    metadata: TableMetadata,
    intent: UpdateSchema,
    what: str,
    *,
    columns: Sequence[str],
    since: Schema,
) -> NoReturn:
    now = metadata.current_schema.schema_id
    rules.SCHEMA_CONFLICT.refuse(
        f"the schema was changed since schema {intent.base_schema_id} (it is {now} now): {what}",
        columns=columns,
        by=changer_of(working, since),
    )


def _names(changes: Sequence[SchemaChange]) -> list[str]:
    return list(dict.fromkeys(name for change in changes if (name := getattr(change, "name", None)) is not None))


def _gone(before: Schema, after: Schema) -> list[str]:
    return [name for i, name in before.names_by_id.items() if i not in after.fields_by_id]


def _new_columns(evolved: Schema, before: Schema) -> dict[str, Any]:
    """The ids that were given to new columns."""
    new = {name: i for i, name in evolved.names_by_id.items() if i not in before.fields_by_id}
    return {"new-columns": dict(list(new.items())[:LISTED_MAX])} if new else {}


def _with_properties(metadata: TableMetadata, *, before: Schema, after: Schema) -> tuple[TableMetadata, dict[str, Any]]:
    """The metadata with the properties that speak of columns brought up to the new schema, and a remark on what not."""
    properties = follow_columns(metadata.properties, before=before, after=after)
    remark: dict[str, Any] = {}
    text = properties.get(NAME_MAPPING_PROPERTY)
    if text is not None:
        try:
            mapping = name_mapping_from_text(text)
            updated = update_name_mapping(mapping, before=before, after=after)
            if updated != mapping:
                properties[NAME_MAPPING_PROPERTY] = name_mapping_to_text(updated)
        except InvalidInput as error:
            remark = {"name-mapping": f"left as it is: {error}"[:500]}
    return msgspec.structs.replace(metadata, properties=properties), remark
