"""Reservations for writers: others are told of work while it goes on, and its holder when it has become vain."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypedDict

from firn.coordinator.client.intents import filter_json, locations_of, new_intent_id
from firn.coordinator.client.options import FilterLike
from firn.coordinator.outcomes.reservations import Reservations
from firn.model.errors import FirnError, InvalidInput, Unavailable
from firn.model.intent import ContentFile
from firn.model.reservation import Disturbance, Overlap, Reservation, ReservedPartition, Scope
from firn.model.snapshot import MAIN_BRANCH
from firn.model.spelling import refuse_unknown

LEASE_S: Final = 60.0
RENEWALS: Final = 3
"""Renewals within one lease: so many less one may fail."""

BEGIN_ATTEMPTS: Final = 5
RETRY_S: Final = 0.2

_log: Final = logging.getLogger(__name__)


class ReservedError(FirnError):
    """Others are at work on it; `overlaps` say who and until when (ms since 1970-01-01 UTC by Redis's clock)."""

    def __init__(self, overlaps: tuple[Overlap, ...]) -> None:
        self.overlaps = overlaps
        certain = [str(overlap) for overlap in overlaps if overlap.certain]
        super().__init__(f"{'; '.join(certain[:3])}{' and others' if len(certain) > 3 else ''}")


class ReservationOptions(TypedDict, total=False):
    """What is reserved, by whom, for how long.

    One of `files` (locations, or as they were added), `partitions` (spec id and values, as in content files) and `rows`
    (a filter); with none of them the whole `branch`. `base_snapshot_id`: what the work is planned on; it is kept from
    expiry. `holder` (default: host and process) and `purpose` are for those who meet it. `lease_s`: renewed until the
    work ends, so that a holder who died is forgotten after it. `anyway`: begin even when others have reserved it.
    """

    files: Iterable[ContentFile | str]
    partitions: Iterable[tuple[int, Iterable[Any]]]
    rows: FilterLike
    branch: str
    base_snapshot_id: int
    holder: str
    purpose: str
    lease_s: float
    anyway: bool


def wanted_of(table: str, options: ReservationOptions) -> Reservation:
    """The reservation that options ask for, without its times. Raises InvalidInput for one that makes no sense."""
    refuse_unknown(options, ReservationOptions.__annotations__)
    rows = options.get("rows")
    try:
        scope = Scope(
            branch=options.get("branch", MAIN_BRANCH),
            files=locations_of(options.get("files", ()), where="files"),
            partitions=tuple(ReservedPartition(spec, tuple(values)) for spec, values in options.get("partitions", ())),
            row_filter=None if rows is None else filter_json(rows),
        )
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    return Reservation(
        reservation_id=new_intent_id(),
        table=table,
        holder=options.get("holder") or f"{socket.gethostname()}-{os.getpid()}",
        purpose=options.get("purpose", ""),
        scope=scope,
        base_snapshot_id=options.get("base_snapshot_id"),
        begun_ms=0,
        until_ms=0,
    )


class AsyncReservation:
    """Work under a reservation: ``async with client.begin(…) as reservation``.

    Entering raises `ReservedError` when others certainly have it. While it is entered, the lease is renewed. Give
    `reservation_id` to the intent that the work ends in. Leaving ends the reservation.
    """

    def __init__(self, reservations: Reservations, wanted: Reservation, *, lease_s: float, anyway: bool) -> None:
        self._reservations = reservations
        self._wanted = wanted
        self._lease_ms = round(lease_s * 1000)
        self._anyway = anyway
        self._renewing: asyncio.Task[None] | None = None
        self._disturbed = asyncio.Event()
        self.overlaps: tuple[Overlap, ...] = ()
        """Reservations of others that overlap, or may, as they were at the beginning."""
        self.disturbances: tuple[Disturbance, ...] = ()
        """Commits of others that touched what is reserved, as of the last renewal: the work may be vain."""
        self.is_lost = False
        """Whether the lease ended all the same, and others have reserved it since."""

    @property
    def reservation_id(self) -> str:
        """Its id: `reservation_id` of the intent that the work ends in."""
        return self._wanted.reservation_id

    async def disturbed(self) -> None:
        """Wait until it is disturbed, or lost."""
        await self._disturbed.wait()

    async def renew(self) -> tuple[Disturbance, ...]:
        """Renew it now; what has disturbed it. Raises Unavailable when Redis does not answer."""
        if self.is_lost:
            return self.disturbances
        standing = await self._reservations.renew(self._wanted.table, self.reservation_id, lease_ms=self._lease_ms)
        if standing is not None:
            self.disturbances = standing.disturbances
        else:  # Redis was emptied, or the lease ended while nobody could renew it
            begun = await self._reservations.begin(self._wanted, lease_ms=self._lease_ms, anyway=self._anyway)
            self.is_lost = begun.reservation is None
            self.overlaps = begun.overlaps
        if self.disturbances or self.is_lost:
            self._disturbed.set()
        return self.disturbances

    async def __aenter__(self) -> Self:
        for attempt in range(BEGIN_ATTEMPTS):
            try:
                begun = await self._reservations.begin(self._wanted, lease_ms=self._lease_ms, anyway=self._anyway)
                break
            except Unavailable:
                if attempt == BEGIN_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(RETRY_S)
        if begun.reservation is None:
            raise ReservedError(begun.overlaps)
        self.overlaps = begun.overlaps
        self._renewing = asyncio.create_task(self._renew_on(), name="firn reservation")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        try:
            await self._reservations.end(self._wanted.table, self.reservation_id)
        except (FirnError, OSError) as reason:
            _log.info("reservation %s ends with its lease: %s", self.reservation_id, reason)

    async def _renew_on(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(self._lease_ms / 1000 / RENEWALS)
            try:
                await self.renew()
            except (FirnError, OSError) as error:
                _log.info("reservation %s not renewed: %s", self.reservation_id, error)


class SyncReservation:
    """As `AsyncReservation`, for code without an event loop: ``with client.begin(…) as reservation``.

    `on_loop` runs work with the reservation on the client's event loop; the first such work makes the reservation.
    """

    def __init__(self, on_loop: Callable[[Callable[[AsyncReservation], Any]], Any]) -> None:
        self._on_loop = on_loop
        self._reservation: AsyncReservation | None = None

    @property
    def reservation_id(self) -> str:
        """Its id: `reservation_id` of the intent that the work ends in."""
        return self._entered.reservation_id

    @property
    def overlaps(self) -> tuple[Overlap, ...]:
        """Reservations of others that overlap, or may, as they were at the beginning."""
        return self._entered.overlaps

    @property
    def disturbances(self) -> tuple[Disturbance, ...]:
        """Commits of others that touched what is reserved, as of the last renewal: the work may be vain."""
        return self._entered.disturbances

    @property
    def is_lost(self) -> bool:
        """Whether the lease ended all the same, and others have reserved it since."""
        return self._entered.is_lost

    def renew(self) -> tuple[Disturbance, ...]:
        """Renew it now; what has disturbed it. Raises Unavailable when Redis does not answer."""
        found: tuple[Disturbance, ...] = self._on_loop(AsyncReservation.renew)
        return found

    def __enter__(self) -> Self:
        self._reservation = self._on_loop(AsyncReservation.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop(lambda reservation: reservation.__aexit__(kind, error, trace))

    @property
    def _entered(self) -> AsyncReservation:
        assert self._reservation is not None, "use it with `with`"
        return self._reservation


def reservation_of(reservations: Reservations, table: str, options: ReservationOptions) -> AsyncReservation:
    """A reservation that is to be entered."""
    return AsyncReservation(
        reservations,
        wanted_of(table, options),
        lease_s=options.get("lease_s", LEASE_S),
        anyway=options.get("anyway", False),
    )
