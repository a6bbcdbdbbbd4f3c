"""What REST updates may do to a table beside snapshots: each update is held to the rules of firn's own operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from firn.coordinator.replay import rules
from firn.coordinator.replay.expiry import holds_on
from firn.coordinator.replay.files_rules import require_allowed
from firn.coordinator.replay.holds import snapshots_held
from firn.coordinator.replay.places import require_own, require_own_places
from firn.coordinator.replay.rest_files import is_in_own_place, require_location
from firn.coordinator.replay.statistics import require_statistics_file
from firn.coordinator.replay.working import Working
from firn.model import rest_updates as rest
from firn.model.errors import InvalidInput
from firn.model.metadata import TableMetadata
from firn.model.name_mapping import check_name_mapping
from firn.model.new_names import check_new_names, check_new_ref_name
from firn.model.table_properties import DROPPED_SNAPSHOTS, ENCRYPTION_KEY_ID, GC_ENABLED, JOURNAL_HEAD

GUARDED = (JOURNAL_HEAD, DROPPED_SNAPSHOTS, ENCRYPTION_KEY_ID.name)
"""Properties that firn keeps its own books in, or that it could not read the table with."""


def permitted(working: Working, updates: Sequence[rest.Update]) -> list[rest.Update]:
    """The updates, with locations in their one spelling; refuses those that firn's own operations refuse, too."""
    return [_permitted(working, update) for update in updates]


def _permitted(working: Working, update: rest.Update) -> rest.Update:
    metadata = working.metadata
    match update:
        case rest.SetLocation():
            return _with_place(working, update)
        case rest.SetProperties():
            _require_settable(metadata, update.updates)
            try:
                check_name_mapping(update.updates)
            except InvalidInput as error:
                rules.INVALID_PROPERTY.refuse(str(error))
        case rest.RemoveProperties():
            _require_removable(metadata, update.removals)
        case rest.AddSchema():
            try:
                check_new_names(update.schema, known=None if metadata is None else metadata.current_schema)
            except InvalidInput as error:
                rules.INVALID_CHANGE.refuse(str(error))
        case rest.SetSnapshotRef() if metadata is None or update.ref_name not in metadata.refs:
            try:
                check_new_ref_name(update.ref_name)
            except InvalidInput as error:
                rules.INVALID_REF.refuse(str(error))
    return update


def _with_place(working: Working, update: rest.SetLocation) -> rest.SetLocation:
    """As `firn.coordinator.replay.properties.set_location`; a client may name the location that the table has.

    Its spelling is kept (``file:/…``): clients compare it.
    """
    metadata = working.metadata
    if metadata is not None and update.location.rstrip("/") == metadata.location:
        return update
    location = require_own(working, update.location, where="location")
    if metadata is not None and working.catalog == "file-system" and location != metadata.location:
        rules.LOCATION_FIXED.refuse(f"{working.table!r} is opened by its path, {metadata.location}")
    return update


def _require_settable(metadata: TableMetadata | None, updates: Mapping[str, str]) -> None:
    known: Mapping[str, str] = {} if metadata is None else metadata.properties
    named = [name for name in GUARDED if name in updates and updates[name] != known.get(name)]
    if named:
        rules.RESERVED_PROPERTY.refuse(f"not for setting or removing: {', '.join(named)}")


def _require_removable(metadata: TableMetadata | None, removals: Sequence[str]) -> None:
    known: Mapping[str, str] = {} if metadata is None else metadata.properties
    named = [name for name in GUARDED if name in removals and name in known]
    if named:
        rules.RESERVED_PROPERTY.refuse(f"not for setting or removing: {', '.join(named)}")


def require_places(working: Working, changed: TableMetadata, *, before: TableMetadata | None) -> None:
    """Refuse places that are not the table's own: those that its properties name anew."""
    known = {} if before is None else before.properties
    new = {name: value for name, value in changed.properties.items() if known.get(name) != value}
    require_own_places(working, new, location=changed.location)


def require_unneeded(working: Working, updates: Sequence[rest.Update]) -> None:
    """Refuse to remove snapshots that work which waits, is reserved or follows in the batch needs.

    Prevents: intents that cannot be validated any more because the snapshot they were planned on is gone.
    """
    removed = {number for u in updates if isinstance(u, rest.RemoveSnapshots) for number in u.snapshot_ids}
    metadata = working.metadata
    if metadata is None or not any(metadata.snapshot_by_id(number) is not None for number in removed):
        return
    if not GC_ENABLED.of(metadata.properties):
        rules.GC_DISABLED.refuse(f"the table's {GC_ENABLED.name} is off: other tables may share its files")
    in_use = {**working.made_here, **snapshots_held(metadata, holds_on(working))}
    for number in sorted(removed):
        if number in in_use:
            rules.SNAPSHOT_IN_USE.refuse(f"snapshot {number} is in use: {in_use[number]}")


def require_statistics(working: Working, updates: Sequence[rest.Update]) -> None:
    """Refuse a statistics file of the table's own places that is none; a file elsewhere is never removed with it."""
    for at, update in enumerate(updates):
        match update:
            case rest.SetStatistics():
                _require_statistics(working, update.statistics, partition=False, where=f"updates[{at}].statistics")
            case rest.SetPartitionStatistics():
                where = f"updates[{at}].partition-statistics"
                _require_statistics(working, update.partition_statistics, partition=True, where=where)


def _require_statistics(working: Working, statistics: Mapping[str, Any], *, partition: bool, where: str) -> None:
    path = statistics["statistics-path"]
    if not is_in_own_place(working, path):
        require_location(path, where=f"{where}.statistics-path")
        return
    require_allowed(working, path, where=f"{where}.statistics-path")
    require_statistics_file(working, statistics, partition=partition, where=where)
