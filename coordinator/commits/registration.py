"""Metadata of tables and views that a batch registers, read before it takes the lock over all locations.

Under that lock every other creation waits, and the file may be as large as its writer likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.attempt import Attempt, Found, Placement
from firn.coordinator.replay.decision import Refusal
from firn.coordinator.replay.places import require_inside
from firn.coordinator.replay.tables import default_location, newest_in, registered_location
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import FirnError, Unavailable
from firn.model.intent import CreateOrReplaceTable, CreateTable, RegisterTable
from firn.model.limits import Limits
from firn.model.operations.common import Operation
from firn.model.operations.views import RegisterView


def reads_metadata(operation: Operation) -> bool:
    """Whether replaying the operation reads a metadata file that no pointer names."""
    if isinstance(operation, CreateTable | CreateOrReplaceTable):
        return operation.catalog == "file-system"
    return isinstance(operation, RegisterTable | RegisterView)


def read_registered(
    operations: Sequence[Operation], *, reader: TableReader, attempt: Attempt, placement: Placement, limits: Limits
) -> dict[str, Found]:
    """What the operations read, by location; an error stands for a file that cannot be read. Raises Unavailable."""
    found: dict[str, Found] = {}
    for operation in operations:
        working = Working(
            table=operation.table, catalog="metastore", metadata=None, heads={}, reader=reader, attempt=attempt,
            placement=placement, limits=limits,
        )  # fmt: skip
        try:
            location = _location_in(working, operation)
        except Refusal:
            continue  # the replay refuses it again, without reading
        if location is not None:
            found[location] = _read(reader, location, is_view=isinstance(operation, RegisterView))
    return found


def _location_in(working: Working, operation: Operation) -> str | None:
    match operation:
        case RegisterTable():
            return registered_location(working, operation)
        case RegisterView():
            return require_inside(working, operation.metadata_location, where="metadata-location")
        case CreateTable() | CreateOrReplaceTable():
            folder = operation.location or default_location(working.table, warehouse=working.placement.warehouse)
            return newest_in(working, require_inside(working, folder, where="location"))
    return None


def _read(reader: TableReader, location: str, *, is_view: bool) -> Found:
    try:
        return reader.view(location) if is_view else reader.metadata(location)
    except Unavailable:
        raise
    except FirnError as error:
        return error
