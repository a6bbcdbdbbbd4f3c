"""What `firn view show` and `firn view history` say of a view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from firn.coordinator.cli.output import Column
from firn.coordinator.cli.table_views import PROPERTY_COLUMNS, SCHEMA_COLUMNS, Grid, Section, schema_rows
from firn.coordinator.cli.text import time_of
from firn.coordinator.client import ViewFound
from firn.model.history import SUMMARY_INTENT, SUMMARY_WRITER
from firn.model.schema import schema_to_json
from firn.model.view import SqlRepresentation, ViewMetadata
from firn.model.view_json import view_version_to_json

QUERY_COLUMNS: Final = (Column("DIALECT"), Column("QUERY", long=True))
VERSION_COLUMNS: Final = (
    Column("TIME"), Column("VERSION", right=True), Column("DIALECTS"), Column("INTENT"), Column("WRITER"),
    Column("QUERY", long=True),
)  # fmt: skip


def view_json(seen: ViewFound) -> dict[str, Any]:
    """Everything that `show` says, in Iceberg's own JSON forms."""
    return {
        "view": seen.name,
        "uuid": seen.uuid,
        "location": seen.metadata.location,
        "metadata-location": seen.metadata_location,
        "current-version": view_version_to_json(seen.version),
        "schema": schema_to_json(seen.schema),
        "properties": seen.metadata.properties,
        "versions": [version.version_id for version in seen.metadata.versions],
    }


def view_sections(seen: ViewFound) -> list[Section]:
    """Everything that `show` says, for people."""
    version = seen.version
    head: list[tuple[str, object]] = [
        ("view", seen.name),
        ("uuid", seen.uuid),
        ("location", seen.metadata.location),
        ("metadata", seen.metadata_location),
        ("version", f"{version.version_id} ({time_of(version.timestamp_ms)})"),
        ("versions", ", ".join(str(one.version_id) for one in seen.metadata.versions)),
        ("default namespace", ".".join(version.default_namespace)),
    ]
    if version.default_catalog is not None:
        head.append(("default catalog", version.default_catalog))
    queries = [(one.dialect, one.sql) for one in version.representations if isinstance(one, SqlRepresentation)]
    sections: list[Section] = [
        ("", head),
        ("Query", Grid(QUERY_COLUMNS, queries, "no query in SQL")),
        (f"Schema {version.schema_id}", Grid(SCHEMA_COLUMNS, schema_rows(seen.schema), "no columns")),
    ]
    if seen.metadata.properties:
        sections.append(("Properties", Grid(PROPERTY_COLUMNS, sorted(seen.metadata.properties.items()), "")))
    return sections


def history_json(metadata: ViewMetadata, *, limit: int) -> list[dict[str, Any]]:
    """The newest entries of the version log, newest first, each with its version."""
    return [
        {
            "timestamp-ms": entry.timestamp_ms,
            "version-id": entry.version_id,
            "version": None if version is None else view_version_to_json(version),
        }
        for entry in metadata.version_log[-limit:][::-1]
        for version in (metadata.version_by_id(entry.version_id),)
    ]


def version_rows(metadata: ViewMetadata, *, limit: int) -> Iterator[tuple[object, ...]]:
    """The same as rows of `VERSION_COLUMNS`; who asked is told of those who made a version."""
    for entry in metadata.version_log[-limit:][::-1]:
        version = metadata.version_by_id(entry.version_id)
        if version is None:
            yield time_of(entry.timestamp_ms), entry.version_id, "?", "-", "-", ""
            continue
        sql = next((one.sql for one in version.representations if isinstance(one, SqlRepresentation)), "")
        yield (
            time_of(entry.timestamp_ms),
            entry.version_id,
            ", ".join(version.dialects),
            version.summary.get(SUMMARY_INTENT, "-"),
            version.summary.get(SUMMARY_WRITER, "-"),
            " ".join(sql.split()),
        )
