"""Kept bases: the snapshot that a job reads stays, with its files, until the job is done.

It is a reservation that claims nothing: it warns nobody, is never warned of, and expiry waits for it. A job does not
depend on it. Where it cannot be made, the job goes on as it would without, and the log says so once.
"""

from __future__ import annotations

import logging
import os
import socket
from types import TracebackType
from typing import Final, Self

from firn.coordinator.client.intents import new_intent_id
from firn.coordinator.client.reservations import LEASE_S, AsyncReservation
from firn.coordinator.outcomes.reservations import Reservations
from firn.model.errors import FirnError
from firn.model.reservation import Reservation, Scope
from firn.model.snapshot import MAIN_BRANCH

_log: Final = logging.getLogger(__name__)
_failed: Final[set[str]] = set()
"""Why bases could not be kept, as far as the log has it."""


class AsyncKeptBase:
    """A snapshot that is kept while this is entered; None, the head of an empty branch, needs no keeping."""

    def __init__(
        self,
        reservations: Reservations,
        table: str,
        base_snapshot_id: int | None,
        *,
        branch: str = MAIN_BRANCH,
        purpose: str = "",
        lease_s: float = LEASE_S,
    ) -> None:
        self._reservation: AsyncReservation | None = None
        self.is_kept = False
        if base_snapshot_id is not None:
            wanted = Reservation(
                reservation_id=new_intent_id(),
                table=table,
                holder=f"{socket.gethostname()}-{os.getpid()}",
                purpose=purpose,
                scope=Scope.of_nothing(branch=branch),
                base_snapshot_id=base_snapshot_id,
                begun_ms=0,
                until_ms=0,
            )
            self._reservation = AsyncReservation(reservations, wanted, lease_s=lease_s, anyway=True)

    async def __aenter__(self) -> Self:
        if self._reservation is not None:
            try:
                await self._reservation.__aenter__()
                self.is_kept = True
            except (FirnError, OSError) as error:
                _log_once(error)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reservation is not None and self.is_kept:
            self.is_kept = False
            await self._reservation.__aexit__(kind, error, trace)


def _log_once(error: Exception) -> None:
    """Log why a base is not kept, once for each kind of error: every job of a process would meet it."""
    kind = type(error).__name__
    if kind not in _failed:
        _failed.add(kind)
        _log.warning("the snapshots that jobs read are not kept from expiry: %s", error)
