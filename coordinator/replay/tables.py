"""Create, register and drop tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from firn.coordinator.replay import rules
from firn.coordinator.replay.attempt import as_found
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.places import require_inside, require_own, require_own_places
from firn.coordinator.replay.registration import require_sound
from firn.coordinator.replay.statistics import require_registered_statistics
from firn.coordinator.replay.working import Catalog, Working
from firn.model.errors import FirnError, InvalidMetadata, InvalidPropertyError, TooLarge, Unavailable
from firn.model.intent import CreateTable, DropTable, RegisterTable
from firn.model.metadata import TableMetadata
from firn.model.metadata_counters import with_shown_counters
from firn.model.metadata_create import new_table_metadata
from firn.model.new_names import check_new_names
from firn.model.partition_path import fitted
from firn.model.partitioning import PartitionSpec, spec_from_json
from firn.model.schema import schema_from_json
from firn.model.sorting import UNSORTED, order_from_json
from firn.model.table_properties import GC_ENABLED, NEW_METASTORE_TABLES
from firn.storage.locations import overlap

TABLE_UUIDS: Final = uuid.UUID("5b0f6a52-6e26-5c1e-8a2c-8d6a7f2f9b11")
"""Namespace from which table uuids are derived: the same create intent makes the same table on every attempt."""

FOLDER_BYTES_MAX: Final = 200
"""Length of a folder's name, with room for an intent id behind it: file systems allow 255 bytes."""


def create_table(working: Working, intent: CreateTable) -> Applied:
    """Make the table. Prevents: two tables in one place, where one's cleanup deletes the other's files."""
    working.require_free()
    location = own_location(working, intent.location, intent_id=intent.intent_id)
    require_own_places(working, intent.properties, location=location)
    table_uuid = intent.table_uuid or str(uuid.uuid5(TABLE_UUIDS, intent.intent_id))
    if _left_by_an_attempt(working, intent, location, table_uuid=table_uuid):
        return Applied()
    properties = intent.properties
    if intent.catalog == "metastore":
        properties = {**NEW_METASTORE_TABLES, **(properties)}
    try:
        schema = schema_from_json(intent.schema, where="schema")
        check_new_names(schema)
        working.metadata = new_table_metadata(
            schema=schema,
            spec=PartitionSpec(spec_id=0)
            if intent.partition_spec is None
            else spec_from_json(intent.partition_spec, where="partition-spec"),
            order=UNSORTED if intent.write_order is None else order_from_json(intent.write_order, where="write-order"),
            location=location,
            properties=properties,
            format_version=intent.format_version,
            table_uuid=table_uuid,
            now_ms=working.attempt.now_ms,
        )
    except InvalidPropertyError as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    except FirnError as error:
        rules.INVALID_TABLE.refuse(str(error))
    working.change = "created"
    working.catalog = intent.catalog
    return Applied()


def register_table(working: Working, intent: RegisterTable) -> Applied:
    """Take over a table from storage.

    Prevents: one table under two names, whose commits would overwrite each other's; metadata that leads outside the
    places that tables may be in; tables that cannot be read or committed to (`firn.coordinator.replay.registration`).
    """
    working.require_free()
    metadata_location = registered_location(working, intent)
    metadata = _with_counters(_readable(working, metadata_location), at=metadata_location)
    if intent.table_uuid is not None and intent.table_uuid != metadata.table_uuid:
        rules.TABLE_UUID_MISMATCH.refuse(
            f"{metadata_location} is of table {metadata.table_uuid}, not {intent.table_uuid}"
        )
    own_location(working, metadata.location, intent_id=intent.intent_id)
    require_own_places(working, metadata.properties, location=metadata.location)
    for location, where in locations_of(metadata):
        require_inside(working, location, where=where)
    require_sound(working, metadata, at=metadata_location)
    require_registered_statistics(working, metadata)
    _adopt(working, metadata, at=metadata_location, catalog=intent.catalog)
    return Applied(snapshot_id=metadata.current_snapshot_id)


def locations_of(metadata: TableMetadata) -> Iterator[tuple[str, str]]:
    """The files that metadata names, each with the member that names it; those of the past, too."""
    for snapshot in metadata.snapshots:
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list, f"snapshot {snapshot.snapshot_id}"
    for kind, listed in (
        ("statistics", metadata.statistics),
        ("partition-statistics", metadata.partition_statistics),
    ):
        for statistics in listed:
            path = statistics.get("statistics-path")
            if isinstance(path, str):
                yield path, f"{kind} of snapshot {statistics.get('snapshot-id')}"


def registered_location(working: Working, intent: RegisterTable) -> str:
    """The metadata file that a register intent means, inside the places that tables may be in."""
    if intent.catalog == "metastore":
        if intent.metadata_location is None or intent.location is not None:
            rules.INVALID_FIELD.refuse("a metastore table is given by its metadata-location")
        return require_inside(working, intent.metadata_location, where="metadata-location")
    if intent.location is None or intent.metadata_location is not None:
        rules.INVALID_FIELD.refuse("a file-system table is given by its location")
    location = require_inside(working, intent.location, where="location")
    newest = newest_in(working, location)
    if newest is None:
        rules.INVALID_TABLE.refuse(f"location: {location!r} holds no v<N>.metadata.json")
    return newest


def newest_in(working: Working, location: str) -> str | None:
    """Return the newest metadata file in the folder of a file-system table, None where there is none.

    Refuses a folder that cannot be looked into whoever tries again.
    """
    try:
        return working.reader.newest_metadata(location)
    except Unavailable:
        raise
    except FirnError as error:
        rules.INVALID_TABLE.refuse(f"location: {error}")


def _left_by_an_attempt(working: Working, intent: CreateTable, location: str, *, table_uuid: str) -> bool:
    """Whether an attempt at this very intent made the file-system table and died before it was registered; adopt it.

    Refuses when any other table is there. Prevents: an existing table being taken for the new one.
    """
    if intent.catalog != "file-system":
        return False
    newest = newest_in(working, location)
    if newest is None:
        return False
    metadata = _readable(working, newest)
    if metadata.table_uuid != table_uuid:
        rules.LOCATION_TAKEN.refuse(
            f"location: {location!r} holds a table already ({newest}): register it, or choose another", files=(newest,)
        )
    _adopt(working, metadata, at=newest, catalog=intent.catalog)
    return True


def _readable(working: Working, location: str) -> TableMetadata:
    try:
        return as_found(working.placement.registered.get(location), TableMetadata) or working.reader.metadata(location)
    except Unavailable:
        raise
    except TooLarge as error:
        rules.METADATA_TOO_LARGE.refuse(str(error))
    except FirnError as error:
        rules.INVALID_TABLE.refuse(str(error))


def _with_counters(metadata: TableMetadata, *, at: str) -> TableMetadata:
    try:
        return with_shown_counters(metadata)
    except InvalidMetadata as error:
        rules.INVALID_TABLE.refuse(f"{at}: {error}", files=(at,))


def _adopt(working: Working, metadata: TableMetadata, *, at: str, catalog: Catalog) -> None:
    working.metadata = metadata
    working.change = "registered"
    working.catalog = catalog
    working.registered_at = at


def drop_table(working: Working, intent: DropTable) -> Applied:
    """Forget the table. Its files stay where they are, for maintenance to purge where the intent says so.

    Prevents: files that other tables may share (``gc.enabled=false``) being purged.
    """
    metadata = working.require(table_uuid=intent.table_uuid)
    if intent.purge and not GC_ENABLED.of(metadata.properties):
        rules.INVALID_FIELD.refuse(f"purge: {GC_ENABLED.name} is off: other tables may share the files")
    working.purge = intent.purge
    working.metadata = None
    working.snapshots.clear()
    working.heads.clear()
    working.change = "dropped"
    return Applied()


def default_location(table: str, *, warehouse: str) -> str:
    """Where a table lives unless it is told otherwise: ``<warehouse>/<namespace>/<name>``, percent-encoded.

    Dots stay within the namespace's folder name, so that no table's location can lie inside another's. A name that is
    too long for a folder is cut and ends with its hash.
    """
    namespace, _, name = table.rpartition(".")
    encoded = [quote(part, safe="-_.~").replace("..", "%2E%2E") for part in (namespace, name) if part]
    parts = [fitted(part, bytes_max=FOLDER_BYTES_MAX) for part in encoded]
    return "/".join([warehouse.rstrip("/"), *parts])


def own_location(working: Working, wanted: str | None, *, intent_id: str) -> str:
    """Where a table or view is to be: a place where tables may be, and that is no other table's.

    Without a wish it goes where its name says, and beside that when a table is there that was renamed.
    """
    if wanted is None:
        wanted = default_location(working.table, warehouse=working.placement.warehouse)
        normal = require_inside(working, wanted, where="location")
        if any(overlap(normal, place) for place in _places_of_others(working)):
            wanted = f"{wanted}-{intent_id}"
    return require_own(working, wanted, where="location")


def _places_of_others(working: Working) -> Iterator[str]:
    return (place for name, places in working.placement.taken.items() if name != working.table for place in places)
