"""How commands make intents and submit them, and what they load for it.

A family has commands that only read beside those that change something (`firn table list`, `firn table create`): what
makes intents, and the client that submits them, is loaded by the latter when they are run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final, cast

from firn.coordinator.cli.reach import Reach
from firn.storage.pointers import Pointer

if TYPE_CHECKING:
    from firn.coordinator.client import Intents, TableView
    from firn.coordinator.client.reservations import ReservationOptions
    from firn.model.intent import Intent
    from firn.model.reservation import Reservation

_CLIENT: Final = "firn.coordinator.client"


class _WhenUsed:
    """The client's `Intents`, loaded when the first intent is made."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{_CLIENT}.operations").Intents(), name)


MAKE: Final = cast("Intents", _WhenUsed())


def ask(reach: Reach, intent: Intent, *, done: str | None, timeout_s: float, dry_run: bool) -> int:
    """Return what `firn.coordinator.cli.asking.ask` does."""
    asking = importlib.import_module("firn.coordinator.cli.asking")
    code: int = asking.ask(reach, intent, done=done, timeout_s=timeout_s, dry_run=dry_run)
    return code


def new_intent_id() -> str:
    """Return a fresh intent id."""
    made: str = importlib.import_module(f"{_CLIENT}.intents").new_intent_id()
    return made


def wanted_of(table: str, options: ReservationOptions) -> Reservation:
    """Return the reservation that options ask for. Raises InvalidInput for one that makes no sense."""
    wanted: Reservation = importlib.import_module(f"{_CLIENT}.reservations").wanted_of(table, options)
    return wanted


def view_at(reach: Reach, pointer: Pointer, *, name: str) -> TableView:
    """Return the table of a pointer as writers see it."""
    location = pointer.metadata_location
    metadata = reach.metadata_reader.metadata(location)
    view: TableView = importlib.import_module(f"{_CLIENT}.table_view").TableView(
        name=name, metadata_location=location, metadata=metadata
    )
    return view
