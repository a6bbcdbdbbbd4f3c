"""Changes of a view's metadata (view specification, "Versions" and "Version log").

A change is made of steps, each of which gives back other metadata, or the same object when it changes nothing.
`finished` turns what the steps left into metadata that may be written; `new_view_metadata`, `replace_view` and
`roll_back_view` do both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from firn.model.errors import InvalidMetadata, NotFound, Unsupported
from firn.model.json_members import INT_MAX
from firn.model.metadata_check import check_uuid, strip_slashes
from firn.model.schema import Schema
from firn.model.schema_rules import validate_schema
from firn.model.view import (
    AUDIT_PREFIX,
    NO_VIEW,
    OPERATION,
    VIEW_FORMAT_VERSION_MAX,
    VersionLogEntry,
    ViewMetadata,
    ViewVersion,
)
from firn.model.view_check import check_dialects_kept, check_new_version, check_view
from firn.model.view_properties import DROP_DIALECT_ALLOWED, VERSION_HISTORY_ENTRIES, check_view_properties

VERSION_LOG_ENTRIES_MAX: Final = 10_000
"""Entries of a version log that are written: switching between two versions must not grow the file for ever."""

_FIRST_VERSION_ID: Final = 1

replace = msgspec.structs.replace


# ---------------------------------------------------------------------------------------------------------------------
# Whole changes


def new_view_metadata(
    version: ViewVersion,
    schema: Schema,
    *,
    location: str,
    view_uuid: str,
    now_ms: int,
    properties: Mapping[str, str] | None = None,
) -> ViewMetadata:
    """Metadata of a new view. The ids in `version` are not used: its schema is `schema`, and it is the first version.

    Raises InvalidMetadata or InvalidSchema for what a new view may not have.
    """
    metadata = set_location(assign_uuid(NO_VIEW, view_uuid), location)
    metadata = set_properties(metadata, properties or {})
    metadata = _set_definition(metadata, version, schema, operation="create")
    return finished(metadata, base=None, now_ms=now_ms)


def replace_view(
    metadata: ViewMetadata,
    version: ViewVersion,
    schema: Schema,
    *,
    now_ms: int,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> ViewMetadata:
    """The view with another definition, as ``CREATE OR REPLACE VIEW``; the same object when it is that already.

    The ids in `version` are not used: a version with the same content is reused, a new one gets the next id.
    `properties` are added to the ones there are. Raises InvalidMetadata or InvalidSchema for a definition that may not
    be, such as one that loses a dialect where the view does not allow it.
    """
    changed = set_properties(metadata, properties or {})
    changed = _set_definition(changed, version, schema, operation="replace")
    if location is not None:
        changed = set_location(changed, location)
    return metadata if changed is metadata else finished(changed, base=metadata, now_ms=now_ms)


def roll_back_view(metadata: ViewMetadata, version_id: int, *, now_ms: int) -> ViewMetadata:
    """The view with one of its known versions as the current one; raises NotFound for a version that it has not."""
    changed = set_current_version(metadata, version_id)
    return metadata if changed is metadata else finished(changed, base=metadata, now_ms=now_ms)


def _set_definition(metadata: ViewMetadata, version: ViewVersion, schema: Schema, *, operation: str) -> ViewMetadata:
    metadata, schema_id = add_schema(metadata, schema)
    given = replace(
        version,
        version_id=_FIRST_VERSION_ID,
        schema_id=schema_id,
        summary={**version.summary, OPERATION: operation},
    )
    metadata, version_id = add_version(metadata, given)
    return set_current_version(metadata, version_id)


# ---------------------------------------------------------------------------------------------------------------------
# Steps


def assign_uuid(metadata: ViewMetadata, uuid: str) -> ViewMetadata:
    """The metadata with a UUID, for a view that has none; a view never changes the one it has."""
    if metadata.view_uuid == uuid:
        return metadata
    check_uuid(uuid, where="view-uuid")
    if metadata.view_uuid:
        raise InvalidMetadata(f"cannot reassign uuid {metadata.view_uuid} to {uuid}", where="view-uuid")
    return replace(metadata, view_uuid=uuid)


def upgrade(metadata: ViewMetadata, format_version: int) -> ViewMetadata:
    """The metadata itself: there is one format version. Raises Unsupported or InvalidMetadata for another."""
    if format_version > VIEW_FORMAT_VERSION_MAX:
        raise Unsupported(
            f"unsupported format version: {format_version}, the newest of a view is {VIEW_FORMAT_VERSION_MAX}",
            where="format-version",
        )
    if format_version < metadata.format_version:
        raise InvalidMetadata(
            f"cannot downgrade v{metadata.format_version} view to v{format_version}", where="format-version"
        )
    return metadata


def set_location(metadata: ViewMetadata, location: str) -> ViewMetadata:
    """The metadata with another base location for new metadata files."""
    stripped = strip_slashes(location)
    if not stripped:
        raise InvalidMetadata("must not be empty", where="location")
    return metadata if stripped == metadata.location else replace(metadata, location=stripped)


def set_properties(metadata: ViewMetadata, updates: Mapping[str, str]) -> ViewMetadata:
    """The metadata with properties set; raises InvalidMetadata for a value that the property's type refuses."""
    check_view_properties(updates)
    if all(metadata.properties.get(name) == value for name, value in updates.items()):
        return metadata
    return replace(metadata, properties={**metadata.properties, **updates})


def remove_properties(metadata: ViewMetadata, names: Collection[str]) -> ViewMetadata:
    """The metadata without some properties; names that are not set change nothing."""
    kept = {name: value for name, value in metadata.properties.items() if name not in names}
    return metadata if len(kept) == len(metadata.properties) else replace(metadata, properties=kept)


def add_schema(metadata: ViewMetadata, schema: Schema) -> tuple[ViewMetadata, int]:
    """The metadata with the schema among its schemas, and its id, whatever id it came with; an equal one is reused.

    Raises InvalidSchema for a schema that no view may have.
    """
    validate_schema(schema)
    for known in metadata.schemas:
        if _same_schema(known, schema):
            return metadata, known.schema_id
    schema_id = max((known.schema_id for known in metadata.schemas), default=-1) + 1
    _check_id(schema_id, where="schema-id")
    return replace(metadata, schemas=(*metadata.schemas, replace(schema, schema_id=schema_id))), schema_id


def _same_schema(one: Schema, other: Schema) -> bool:
    return one.struct == other.struct and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def add_version(metadata: ViewMetadata, version: ViewVersion) -> tuple[ViewMetadata, int]:
    """The metadata with the version among its versions, and its id; one with the same content is reused.

    The id that it came with is kept when it is above all known ones, else it gets the next. Raises InvalidMetadata for
    a schema that the view has not, and for a version that `check_new_version` refuses.
    """
    for known in metadata.versions:
        if _same_version(known, version):
            return metadata, known.version_id
    if metadata.schema_by_id(version.schema_id) is None:
        raise InvalidMetadata(f"cannot add version with unknown schema: {version.schema_id}", where="schema-id")
    check_new_version(version)
    highest = max((known.version_id for known in metadata.versions), default=0)
    # Below 1 is no id: -1 stands for the last added version.
    version_id = max(version.version_id, highest + 1, _FIRST_VERSION_ID)
    _check_id(version_id, where="version-id")
    return replace(metadata, versions=(*metadata.versions, replace(version, version_id=version_id))), version_id


def _check_id(number: int, *, where: str) -> None:
    if number > INT_MAX:
        raise InvalidMetadata(f"the next id {number} is above {INT_MAX}, the last one", where=where)


def _same_version(one: ViewVersion, other: ViewVersion) -> bool:
    """Do both mean the same view? When and in which operation they were made does not count, with which engine does."""
    return _content(one) == _content(other)


def _content(version: ViewVersion) -> ViewVersion:
    summary = {
        key: value for key, value in version.summary.items() if key != OPERATION and not key.startswith(AUDIT_PREFIX)
    }
    return replace(version, version_id=0, timestamp_ms=0, summary=summary)


def set_current_version(metadata: ViewMetadata, version_id: int) -> ViewMetadata:
    """The metadata with another of its versions as the current one; `finished` logs it."""
    if metadata.version_by_id(version_id) is None:
        raise NotFound(f"cannot set current version to unknown version: {version_id}")
    return metadata if version_id == metadata.current_version_id else replace(metadata, current_version_id=version_id)


# ---------------------------------------------------------------------------------------------------------------------
# What ends a change


def finished(metadata: ViewMetadata, *, base: ViewMetadata | None, now_ms: int) -> ViewMetadata:
    """What may be written after the steps that led from `base` (None for a new view) to `metadata`.

    The log gets one entry when the current version is another, however often the steps changed it; versions beyond
    ``version.history.num-entries`` go, but never the current one nor one that this change added. Raises InvalidMetadata
    for a view that lacks something, or that loses a dialect although its properties do not allow it.
    """
    if not metadata.view_uuid:
        raise InvalidMetadata("missing, but required", where="metadata.view-uuid", hint="assign one first")
    check_view(metadata)
    if base is not None and not DROP_DIALECT_ALLOWED.of(metadata.properties):
        check_dialects_kept(before=base.current_version, after=metadata.current_version)
    added = {version.version_id for version in metadata.versions}
    if base is not None:
        added -= {version.version_id for version in base.versions}
    log = metadata.version_log
    if base is None or metadata.current_version_id != base.current_version_id:
        log = (*log, _log_entry(metadata, is_new=metadata.current_version_id in added, now_ms=now_ms))
    count = max(len(added | {metadata.current_version_id}), VERSION_HISTORY_ENTRIES.sane(metadata.properties))
    versions = retained_versions(metadata.versions, current_id=metadata.current_version_id, count=count)
    log = retained_log(log, version_ids={version.version_id for version in versions})
    return replace(metadata, versions=versions, version_log=log[-VERSION_LOG_ENTRIES_MAX:])


def _log_entry(metadata: ViewMetadata, *, is_new: bool, now_ms: int) -> VersionLogEntry:
    """A new version became current when it was made, an old one now; never before the entry before, nor in the future.

    Readers look up the version of a time in the log, so that it must not run backwards, whatever the writers' clocks.
    """
    version = metadata.current_version
    at_ms = min(version.timestamp_ms, now_ms) if is_new else now_ms
    last_ms = metadata.version_log[-1].timestamp_ms if metadata.version_log else at_ms
    return VersionLogEntry(timestamp_ms=max(at_ms, last_ms), version_id=version.version_id)


def retained_versions(versions: Sequence[ViewVersion], *, current_id: int, count: int) -> tuple[ViewVersion, ...]:
    """At most `count` of the versions, in their order: the current one and those of the highest ids."""
    others = sorted((one.version_id for one in versions if one.version_id != current_id), reverse=True)
    kept = {current_id, *others[: count - 1]}
    return tuple(one for one in versions if one.version_id in kept)


def retained_log(log: Sequence[VersionLogEntry], *, version_ids: Collection[int]) -> tuple[VersionLogEntry, ...]:
    """The end of the log that names known versions only.

    What came before a version that is gone would read as if it had followed something else, and the id of the one that
    is gone may be given again.
    """
    start = max((i + 1 for i, entry in enumerate(log) if entry.version_id not in version_ids), default=0)
    return tuple(log[start:])
