"""The client for writers: submit intents, and learn their outcomes whatever happens to Redis and the daemons meanwhile.

`AsyncClient` for asyncio, `Client` for everything else. Both need Redis only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from firn.model.extras import import_with_extra

if TYPE_CHECKING:
    from firn.coordinator.client.answers import Answer, Unknown
    from firn.coordinator.client.async_client import AsyncClient, AsyncTicket
    from firn.coordinator.client.data_files import data_files_from_parquet
    from firn.coordinator.client.operations import Intents
    from firn.coordinator.client.options import ClientOptions, IntentOptions, TableOptions
    from firn.coordinator.client.reservations import (
        AsyncReservation,
        ReservationOptions,
        ReservedError,
        SyncReservation,
    )
    from firn.coordinator.client.sync_client import Client, Ticket
    from firn.coordinator.client.table_view import TableView
    from firn.coordinator.client.view_found import ViewFound

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncReservation",
    "AsyncTicket",
    "Client",
    "ClientOptions",
    "IntentOptions",
    "Intents",
    "ReservationOptions",
    "ReservedError",
    "SyncReservation",
    "TableOptions",
    "TableView",
    "Ticket",
    "Unknown",
    "ViewFound",
    "data_files_from_parquet",
]

_HOMES: Final = {
    "Answer": "firn.coordinator.client.answers",
    "AsyncClient": "firn.coordinator.client.async_client",
    "AsyncReservation": "firn.coordinator.client.reservations",
    "AsyncTicket": "firn.coordinator.client.async_client",
    "Client": "firn.coordinator.client.sync_client",
    "ClientOptions": "firn.coordinator.client.options",
    "IntentOptions": "firn.coordinator.client.options",
    "Intents": "firn.coordinator.client.operations",
    "ReservationOptions": "firn.coordinator.client.reservations",
    "ReservedError": "firn.coordinator.client.reservations",
    "SyncReservation": "firn.coordinator.client.reservations",
    "TableOptions": "firn.coordinator.client.options",
    "TableView": "firn.coordinator.client.table_view",
    "Ticket": "firn.coordinator.client.sync_client",
    "Unknown": "firn.coordinator.client.answers",
    "ViewFound": "firn.coordinator.client.view_found",
    "data_files_from_parquet": "firn.coordinator.client.data_files",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: who makes intents does not wait for Redis, who submits not for Arrow."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_with_extra(home, what=name), name)
