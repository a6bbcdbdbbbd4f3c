"""Views: everything a view is, in one value (view specification, "View Metadata").

A view is a query that engines run when it is read. Each change of the query is a version; old ones stay for a while.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import msgspec

from firn.model.schema import Schema

VIEW_FORMAT_VERSION_MAX: Final = 1
"""Newest format version of views that is read and written."""

AUDIT_PREFIX: Final = "firn."
"""Begins the keys of a version's summary that say who asked firn for it; they are no part of the definition."""

OPERATION: Final = "operation"
"""Key of a version's summary: ``create`` or ``replace``. The specification once required it and no longer does."""


class SqlRepresentation(msgspec.Struct, frozen=True, kw_only=True):
    """The view as a SQL SELECT in one dialect (``spark``, ``trino``)."""

    sql: str
    dialect: str
    extra: dict[str, Any] = {}


class UnknownRepresentation(msgspec.Struct, frozen=True, kw_only=True):
    """A representation of a type that firn does not know; `extra` is all of it but the type."""

    type: str
    extra: dict[str, Any] = {}


Representation = SqlRepresentation | UnknownRepresentation


class ViewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One definition of a view, which never changes.

    `default_catalog` and `default_namespace` complete the names in the query; without a catalog it is the view's own.
    `timestamp_ms` is when the version was made, in milliseconds since 1970-01-01 UTC.
    """

    version_id: int
    schema_id: int
    timestamp_ms: int
    summary: dict[str, str] = {}
    representations: tuple[Representation, ...]
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] = ()
    extra: dict[str, Any] = {}

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects of the SQL representations in lower case, as they are compared; a broken file repeats some."""
        return tuple(one.dialect.lower() for one in self.representations if isinstance(one, SqlRepresentation))


class VersionLogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The current version changed to `version_id` at `timestamp_ms`."""

    timestamp_ms: int
    version_id: int
    extra: dict[str, Any] = {}


class ViewMetadata(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The content of one view metadata file.

    Lists keep the file's order. `view_uuid` is empty only for a view of the oldest writers, who gave none. `extra`
    keeps members that firn does not know.
    """

    view_uuid: str
    format_version: int = VIEW_FORMAT_VERSION_MAX
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[VersionLogEntry, ...]
    properties: dict[str, str] = {}
    extra: dict[str, Any] = {}

    @cached_property
    def _schemas(self) -> dict[int, Schema]:
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def _versions(self) -> dict[int, ViewVersion]:
        return {version.version_id: version for version in self.versions}

    def schema_by_id(self, schema_id: int) -> Schema | None:
        """The schema with that id, None when the view has none such."""
        return self._schemas.get(schema_id)

    def version_by_id(self, version_id: int) -> ViewVersion | None:
        """The version with that id, None when it was dropped or never was."""
        return self._versions.get(version_id)

    @property
    def current_version(self) -> ViewVersion:
        """The definition that readers use."""
        return self._versions[self.current_version_id]

    @property
    def current_schema(self) -> Schema:
        """The columns that readers see."""
        return self._schemas[self.current_version.schema_id]


NO_VIEW: Final = ViewMetadata(view_uuid="", location="", schemas=(), current_version_id=0, versions=(), version_log=())
"""What a view is before the first step of creating it: a shape to fill, which no check would pass."""
