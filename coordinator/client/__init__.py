"""The client for writers: submit intents, and learn their outcomes whatever happens to Redis and the daemons meanwhile.

`AsyncClient` for asyncio, `Client` for everything else. Both need Redis only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firn.coordinator.client.answers import Answer, Unknown
from firn.coordinator.client.async_client import AsyncClient, AsyncTicket
from firn.coordinator.client.operations import Intents
from firn.coordinator.client.options import ClientOptions, IntentOptions, TableOptions
from firn.coordinator.client.reservations import AsyncReservation, ReservationOptions, ReservedError, SyncReservation
from firn.coordinator.client.sync_client import Client, Ticket
from firn.coordinator.client.table_view import TableView
from firn.coordinator.client.view_found import ViewFound
from firn.model.extras import import_with_extra

if TYPE_CHECKING:
    from firn.coordinator.client.data_files import data_files_from_parquet

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


def __getattr__(name: str) -> Any:
    """Import what describes Parquet files when it is first used: who only submits intents does not wait for Arrow."""
    if name != "data_files_from_parquet":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_with_extra("firn.coordinator.client.data_files", what=name).data_files_from_parquet
