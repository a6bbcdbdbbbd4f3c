"""Every operation as a method, for whatever takes intents: the clients, and `Intents`, which only makes them."""

from __future__ import annotations

from firn.coordinator.client.file_operations import FileOperations
from firn.coordinator.client.layout_operations import LayoutOperations
from firn.coordinator.client.ref_operations import RefOperations
from firn.coordinator.client.submitting import Submitted_co
from firn.coordinator.client.table_operations import TableOperations
from firn.coordinator.client.transactions import Transactions
from firn.coordinator.client.view_operations import ViewOperations
from firn.model.intent import Intent


class Operations(
    FileOperations[Submitted_co],
    RefOperations[Submitted_co],
    LayoutOperations[Submitted_co],
    TableOperations[Submitted_co],
    ViewOperations[Submitted_co],
    Transactions[Submitted_co],
):
    """All operations on tables and views, one by one or together."""


class Intents(Operations[Intent]):
    """Makes intents and submits none: to be kept, sent another way, or given to `dry_run` and `submit`."""

    def submit(self, intent: Intent) -> Intent:
        """The intent itself."""
        return intent
