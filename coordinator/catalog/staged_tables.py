"""Tables that are created in two requests: the first answers their metadata and stores nothing (``stage-create``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from firn.coordinator.catalog.requests import CreateTableBody
from firn.coordinator.replay.tables import default_location
from firn.model.errors import InvalidInput
from firn.model.metadata import FORMAT_VERSION_DEFAULT, TableMetadata
from firn.model.metadata_create import new_table_metadata
from firn.model.new_names import check_new_names
from firn.model.partitioning import UNPARTITIONED, spec_from_json
from firn.model.schema import schema_from_json
from firn.model.sorting import UNSORTED, order_from_json
from firn.model.table_properties import NEW_METASTORE_TABLES, without_reserved
from firn.storage.locations import overlap

FORMAT_VERSION: Final = "format-version"


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """What a request to create a table asks for, with the format version taken out of its properties."""

    properties: dict[str, str]
    format_version: int


def new_table_of(body: CreateTableBody) -> NewTable:
    """Return the properties to store and the format version. Raises InvalidInput for a version that is no number.

    Reserved properties are left out, as the reference does: engines send those of the table that they copy.
    """
    properties = body.properties or {}
    version = properties.get(FORMAT_VERSION)
    if version is not None and not (version.isascii() and version.isdecimal() and len(version) < 4):
        raise InvalidInput(f"must be a number, not {version[:40]!r}", where=f"properties.{FORMAT_VERSION}")
    return NewTable(
        properties=without_reserved(properties),
        format_version=FORMAT_VERSION_DEFAULT if version is None else int(version),
    )


def staged_metadata(body: CreateTableBody, *, location: str, table_uuid: str, now_ms: int) -> TableMetadata:
    """Return the metadata that the table would have; raises InvalidInput for one that cannot be created."""
    new = new_table_of(body)
    schema = schema_from_json(body.schema, where="schema")
    check_new_names(schema)
    return new_table_metadata(
        schema,
        UNPARTITIONED if body.partition_spec is None else spec_from_json(body.partition_spec, where="partition-spec"),
        UNSORTED if body.write_order is None else order_from_json(body.write_order, where="write-order"),
        location=location,
        table_uuid=table_uuid,
        now_ms=now_ms,
        properties={**NEW_METASTORE_TABLES, **new.properties},
        format_version=new.format_version,
    )


def staged_location(table: str, *, warehouse: str, taken: Iterable[str], unique: str) -> str:
    """Return where a staged table is to be: where its name says, or beside that where another table is."""
    wanted = default_location(table, warehouse=warehouse)
    return f"{wanted}-{unique}" if any(overlap(wanted, place) for place in taken) else wanted
