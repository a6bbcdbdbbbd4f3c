"""firn commits to Apache Iceberg tables: many writers submit intents, one coordinator commits them in groups.

What writers import is here: the clients, their tickets and answers, and the helper that describes data files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from firn.coordinator.client.answers import Unknown
    from firn.coordinator.client.async_client import AsyncClient, AsyncTicket
    from firn.coordinator.client.data_files import data_files_from_parquet
    from firn.coordinator.client.encoded_files import with_encoded_metrics
    from firn.coordinator.client.operations import Intents
    from firn.coordinator.client.reservations import ReservedError
    from firn.coordinator.client.sync_client import Client, Ticket
    from firn.coordinator.client.table_view import TableView
    from firn.coordinator.client.view_found import ViewFound
    from firn.coordinator.insight.forecast import Forecast
    from firn.model.errors import ChangesUnavailableError, ConsumerMovedError, FirnError, RejectedError, UnknownOutcome
    from firn.model.intent import ContentFile
    from firn.model.operations.transaction import Unchanged
    from firn.model.outcome import Committed, Rejected
    from firn.storage.parquet_schema import arrow_schema

__all__ = [
    "AsyncClient",
    "AsyncTicket",
    "ChangesUnavailableError",
    "Client",
    "Committed",
    "ConsumerMovedError",
    "ContentFile",
    "FirnError",
    "Forecast",
    "Intents",
    "Rejected",
    "RejectedError",
    "ReservedError",
    "TableView",
    "Ticket",
    "Unchanged",
    "Unknown",
    "UnknownOutcome",
    "ViewFound",
    "arrow_schema",
    "data_files_from_parquet",
    "with_encoded_metrics",
]

_HOMES: Final = {
    "AsyncClient": "firn.coordinator.client.async_client",
    "AsyncTicket": "firn.coordinator.client.async_client",
    "ChangesUnavailableError": "firn.model.errors",
    "Client": "firn.coordinator.client.sync_client",
    "Committed": "firn.model.outcome",
    "ConsumerMovedError": "firn.model.errors",
    "ContentFile": "firn.model.intent",
    "FirnError": "firn.model.errors",
    "Forecast": "firn.coordinator.insight.forecast",
    "Intents": "firn.coordinator.client.operations",
    "Rejected": "firn.model.outcome",
    "RejectedError": "firn.model.errors",
    "ReservedError": "firn.coordinator.client.reservations",
    "TableView": "firn.coordinator.client.table_view",
    "Ticket": "firn.coordinator.client.sync_client",
    "Unchanged": "firn.model.operations.transaction",
    "Unknown": "firn.coordinator.client.answers",
    "UnknownOutcome": "firn.model.errors",
    "ViewFound": "firn.coordinator.client.view_found",
    "arrow_schema": "firn.storage.parquet_schema",
    "data_files_from_parquet": "firn.coordinator.client.data_files",
    "with_encoded_metrics": "firn.coordinator.client.encoded_files",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `firn.model` alone must not load Redis, ZooKeeper and Arrow.

    Raises Misconfigured naming the extra to install when the name needs a package of one.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'firn' has no attribute {name!r}")
    extras = importlib.import_module("firn.model.extras")
    return getattr(extras.import_with_extra(home, what=f"firn.{name}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
