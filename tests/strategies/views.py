"""View metadata for tests: views written by hand, and arbitrary valid metadata."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from firn.model.schema import Schema
from firn.model.view import SqlRepresentation, UnknownRepresentation, VersionLogEntry, ViewMetadata, ViewVersion
from firn.model.view_changes import new_view_metadata
from tests.strategies.metadata import EXTRAS, SCHEMA, START_MS, STRING_MAPS, UUID
from tests.strategies.schemas import LONGS, TEXT, schemas

LOCATION = "s3://bucket/wh/db/event_agg"


def version(sql: str = "SELECT 1", *dialects: str, **fields: Any) -> ViewVersion:
    """A version made at `START_MS`, with the query in each of the dialects (``spark`` when none is given)."""
    given: dict[str, Any] = {
        "version_id": 1,
        "schema_id": 0,
        "timestamp_ms": START_MS,
        "representations": tuple(SqlRepresentation(sql=sql, dialect=one) for one in dialects or ("spark",)),
        "default_catalog": "prod",
        "default_namespace": ("default",),
    }
    return ViewVersion(**(given | fields))


def view(
    given: ViewVersion | None = None, schema: Schema = SCHEMA, *, now_ms: int = START_MS, **settings: Any
) -> ViewMetadata:
    """A new view, made at `START_MS`."""
    options = {"location": LOCATION, "view_uuid": UUID, **settings}
    return new_view_metadata(given or version(), schema, now_ms=now_ms, **options)


SQL = st.builds(SqlRepresentation, sql=TEXT, dialect=TEXT, extra=EXTRAS)
UNKNOWN = st.builds(UnknownRepresentation, type=TEXT.map("x-{}".format), extra=EXTRAS)


@st.composite
def views(draw: st.DrawFn, *, known_only: bool = False) -> ViewMetadata:
    """Valid metadata of a view with some history, members that nobody knows at every level, and any text."""
    schema_ids = draw(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=3, unique=True))
    known = tuple(msgspec.structs.replace(draw(schemas(max_fields=2)), schema_id=one) for one in schema_ids)
    version_ids = draw(st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=4, unique=True))
    versions = tuple(
        ViewVersion(
            version_id=one,
            schema_id=draw(st.sampled_from(schema_ids)),
            timestamp_ms=draw(LONGS),
            summary=draw(STRING_MAPS),
            representations=tuple(draw(st.lists(SQL if known_only else SQL | UNKNOWN, max_size=3))),
            default_catalog=draw(st.none() | TEXT),
            default_namespace=tuple(draw(st.lists(TEXT, max_size=2))),
            extra=draw(EXTRAS),
        )
        for one in version_ids
    )
    log = tuple(
        VersionLogEntry(timestamp_ms=draw(LONGS), version_id=one, extra=draw(EXTRAS))
        for one in draw(st.lists(st.sampled_from(version_ids), max_size=4))
    )
    return ViewMetadata(
        view_uuid=draw(st.just(UUID) if known_only else st.sampled_from([UUID, ""])),
        location=LOCATION,
        schemas=known,
        current_version_id=draw(st.sampled_from(version_ids)),
        versions=versions,
        version_log=log,
        properties=draw(STRING_MAPS),
        extra=draw(EXTRAS),
    )
