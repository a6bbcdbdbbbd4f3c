"""View metadata from and to its JSON (view specification, "View Metadata" and Appendix A).

Reading is lenient where nothing has to be guessed: the specification's first edition had no UUID, and its own example
leaves out a version's schema and keeps the defaults of names in the representations. Writing has what either edition
requires.
"""

from __future__ import annotations

from typing import Any, Final

from firn.model.errors import InvalidMetadata, Unsupported
from firn.model.json_members import (
    as_object,
    extra_of,
    int_of,
    int_or_none,
    join,
    list_of,
    list_or_none,
    long_of,
    missing,
    put,
    str_map,
    str_of,
    str_or_none,
    strs_of,
)
from firn.model.metadata_check import strip_slashes
from firn.model.schema import schema_from_json, schema_to_json
from firn.model.strict_json import loads
from firn.model.view import (
    VIEW_FORMAT_VERSION_MAX,
    Representation,
    SqlRepresentation,
    UnknownRepresentation,
    VersionLogEntry,
    ViewMetadata,
    ViewVersion,
)
from firn.model.view_check import check_view

VIEW_METADATA_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of view metadata JSON that are read."""

_MEMBERS: Final = frozenset(
    {
        "view-uuid", "format-version", "location", "properties", "current-schema-id", "schemas", "current-version-id",
        "versions", "version-log",
    }
)  # fmt: skip
_VERSION_MEMBERS: Final = frozenset(
    {
        "version-id", "schema-id", "timestamp-ms", "summary", "representations", "default-catalog",
        "default-namespace",
    }
)  # fmt: skip
_SQL_MEMBERS: Final = frozenset({"type", "sql", "dialect"})
_LOG_MEMBERS: Final = frozenset({"timestamp-ms", "version-id"})
_SQL: Final = "sql"


def view_metadata_from_json(source: Any, *, where: str = "metadata") -> ViewMetadata:
    """View metadata from a decoded JSON object, or from the bytes of its text.

    Raises InvalidMetadata naming the missing or wrong member under `where`, Unsupported for a newer format version,
    InvalidInput for text that is not strict JSON.
    """
    obj = loads(source, where=where, bytes_max=VIEW_METADATA_BYTES_MAX) if isinstance(source, (bytes, str)) else source
    members = as_object(obj, where=where)
    current_schema_id = int_or_none(members, "current-schema-id", where=where)
    metadata = ViewMetadata(
        format_version=_format_version(members, where),
        view_uuid=str_or_none(members, "view-uuid", where=where) or "",
        location=strip_slashes(str_of(members, "location", where=where)),
        schemas=tuple(
            schema_from_json(item, where=f"{join(where, 'schemas')}[{i}]")
            for i, item in enumerate(list_of(members, "schemas", where=where))
        ),
        current_version_id=int_of(members, "current-version-id", where=where),
        versions=tuple(
            view_version_from_json(item, schema_id=current_schema_id, where=f"{join(where, 'versions')}[{i}]")
            for i, item in enumerate(list_of(members, "versions", where=where))
        ),
        version_log=tuple(
            _log_entry(item, f"{join(where, 'version-log')}[{i}]")
            for i, item in enumerate(list_or_none(members, "version-log", where=where) or ())
        ),
        properties=_string_map(members, "properties", where),
        extra=extra_of(members, _MEMBERS),
    )
    check_view(metadata, where=where)
    return metadata


def _format_version(members: dict[str, Any], where: str) -> int:
    version = int_of(members, "format-version", where=where)
    if version > VIEW_FORMAT_VERSION_MAX:
        raise Unsupported(
            f"unsupported format version {version} of a view, the newest supported is {VIEW_FORMAT_VERSION_MAX}",
            where=join(where, "format-version"),
        )
    if version < 1:
        raise InvalidMetadata(f"must be at least 1, not {version}", where=join(where, "format-version"))
    return version


def _string_map(members: dict[str, Any], key: str, where: str) -> dict[str, str]:
    value = members.get(key)
    return {} if value is None else str_map(value, where=join(where, key))


def _log_entry(item: Any, where: str) -> VersionLogEntry:
    entry = as_object(item, where=where)
    return VersionLogEntry(
        timestamp_ms=long_of(entry, "timestamp-ms", where=where),
        version_id=int_of(entry, "version-id", where=where),
        extra=extra_of(entry, _LOG_MEMBERS),
    )


def view_version_from_json(obj: Any, *, schema_id: int | None = None, where: str = "view-version") -> ViewVersion:
    """A version of a view; `schema_id` stands in where the version names no schema.

    Raises InvalidMetadata naming the missing or wrong member under `where`.
    """
    members = as_object(obj, where=where)
    path = join(where, "representations")
    representations = tuple(
        _representation(item, f"{path}[{i}]") for i, item in enumerate(list_of(members, "representations", where=where))
    )
    own_schema_id = int_or_none(members, "schema-id", where=where)
    schema_id = schema_id if own_schema_id is None else own_schema_id
    if schema_id is None:
        raise missing("schema-id", where=where)
    catalog = str_or_none(members, "default-catalog", where=where)
    namespace = None
    if members.get("default-namespace") is not None:
        namespace = strs_of(members, "default-namespace", where=where)
    return ViewVersion(
        version_id=int_of(members, "version-id", where=where),
        schema_id=schema_id,
        timestamp_ms=long_of(members, "timestamp-ms", where=where),
        summary=_string_map(members, "summary", where),
        representations=representations,
        default_catalog=_catalog_of(representations, path) if catalog is None else catalog,
        default_namespace=_namespace_of(representations, path) if namespace is None else namespace,
        extra=extra_of(members, _VERSION_MEMBERS),
    )


def _representation(item: Any, where: str) -> Representation:
    members = as_object(item, where=where)
    type_name = str_of(members, "type", where=where)
    if type_name.lower() != _SQL:
        return UnknownRepresentation(type=type_name, extra=extra_of(members, frozenset({"type"})))
    return SqlRepresentation(
        sql=str_of(members, "sql", where=where),
        dialect=str_of(members, "dialect", where=where),
        extra=extra_of(members, _SQL_MEMBERS),
    )


def _catalog_of(representations: tuple[Representation, ...], where: str) -> str | None:
    """The default catalog on which all representations agree, as the first edition keeps it."""
    said = {
        str_or_none(one.extra, "default-catalog", where=f"{where}[{i}]")
        for i, one in enumerate(representations)
        if isinstance(one, SqlRepresentation)
    }
    return said.pop() if len(said) == 1 else None


def _namespace_of(representations: tuple[Representation, ...], where: str) -> tuple[str, ...]:
    """As `_catalog_of`, for the default namespace."""
    said = {
        strs_of(one.extra, "default-namespace", where=f"{where}[{i}]")
        if one.extra.get("default-namespace") is not None
        else ()
        for i, one in enumerate(representations)
        if isinstance(one, SqlRepresentation)
    }
    return said.pop() if len(said) == 1 else ()


def view_metadata_to_json(metadata: ViewMetadata) -> dict[str, Any]:
    """The JSON object of a view metadata file, in Java's order of members."""
    out: dict[str, Any] = {}
    put(out, [("view-uuid", metadata.view_uuid or None)])
    out["format-version"] = metadata.format_version
    out["location"] = metadata.location
    put(out, [("properties", metadata.properties or None)])
    # Required by the first edition; later ones derive it as this does.
    out["current-schema-id"] = metadata.current_version.schema_id
    out["schemas"] = [schema_to_json(schema) for schema in metadata.schemas]
    out["current-version-id"] = metadata.current_version_id
    out["versions"] = [view_version_to_json(version) for version in metadata.versions]
    out["version-log"] = [
        {"timestamp-ms": entry.timestamp_ms, "version-id": entry.version_id, **entry.extra}
        for entry in metadata.version_log
    ]
    out.update(metadata.extra)
    return out


def view_version_to_json(version: ViewVersion) -> dict[str, Any]:
    """The JSON object of a version."""
    out: dict[str, Any] = {
        "version-id": version.version_id,
        "timestamp-ms": version.timestamp_ms,
        "schema-id": version.schema_id,
        "summary": version.summary,
    }
    put(out, [("default-catalog", version.default_catalog)])
    out["default-namespace"] = list(version.default_namespace)
    out["representations"] = [_representation_to_json(one) for one in version.representations]
    out.update(version.extra)
    return out


def _representation_to_json(one: Representation) -> dict[str, Any]:
    if isinstance(one, SqlRepresentation):
        return {"type": _SQL, "sql": one.sql, "dialect": one.dialect, **one.extra}
    return {"type": one.type, **one.extra}
