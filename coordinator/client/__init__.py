"""The client for writers: submit intents, and learn their outcomes whatever happens to Redis and the daemons meanwhile.

`AsyncClient` for asyncio, `Client` for everything else. Both need Redis only.
"""

from firn.coordinator.client.answers import Answer, Unknown
from firn.coordinator.client.async_client import AsyncClient, AsyncTicket
from firn.coordinator.client.data_files import data_files_from_parquet
from firn.coordinator.client.options import ClientOptions, IntentOptions, TableOptions
from firn.coordinator.client.sync_client import Client, Ticket
from firn.coordinator.client.table_view import TableView

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncTicket",
    "Client",
    "ClientOptions",
    "IntentOptions",
    "TableOptions",
    "TableView",
    "Ticket",
    "Unknown",
    "data_files_from_parquet",
]
