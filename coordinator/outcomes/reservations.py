"""The reservations of a table: who is at work on what, in notes that clients and daemons change by version.

All of it is advice: a Redis that lost it costs notices, and nothing else. Times are Redis's.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.replay.holds import Hold
from firn.model.amounts import plural
from firn.model.errors import InvalidInput, Unavailable
from firn.model.identifiers import check_table_name
from firn.model.limits import Limits
from firn.model.reservation import (
    DISTURBANCES_MAX,
    RESERVATION_BYTES_MAX,
    RESERVATIONS_MAX,
    Disturbance,
    Overlap,
    Reservation,
    overlaps_of,
)
from firn.storage.intent_streams import Book, IntentStreams
from firn.storage.locations import canonical

LEASE_MS_MIN: Final = 1_000
CHANGES_MAX: Final = 50
"""Attempts to change a table's notes while others do."""

KEPT_BASES_MAX: Final = RESERVATIONS_MAX // 2
"""Reservations of a table up to which one is added that claims nothing: there is room left for those who ask."""

MARGIN_MS: Final = 60_000
"""How long the notes outlive the last reservation."""

_RESERVED: Final = "r:"
_DISTURBED: Final = "d:"
_RESERVATION: Final = msgspec.json.Decoder(Reservation)
_DISTURBANCES: Final = msgspec.json.Decoder(tuple[Disturbance, ...])


class Standing(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A reservation that lives, and what has disturbed it."""

    reservation: Reservation
    disturbances: tuple[Disturbance, ...] = ()


class Board(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The reservations of a table that live, oldest first, at `now_ms` by Redis's clock."""

    standings: tuple[Standing, ...]
    now_ms: int

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """The reservations alone."""
        return tuple(standing.reservation for standing in self.standings)

    def find(self, reservation_id: str) -> Standing | None:
        """One of them."""
        return next((s for s in self.standings if s.reservation.reservation_id == reservation_id), None)

    def holds(self) -> tuple[Hold, ...]:
        """What an expiry must leave to them: their bases, for the files of these.

        What came after a base is validated from the records of dropped snapshots. Work of an hour must not have a busy
        table keep all that came meanwhile.
        """
        return tuple(
            Hold(
                who=f"reservation {one.reservation_id} of {one.holder}",
                snapshot_ids=() if one.base_snapshot_id is None else (one.base_snapshot_id,),
                refs=() if one.scope.is_nothing else (one.scope.branch,),
                alone=True,
            )
            for one in self.reservations
        )


class Begun(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The answer to a `begin`: the reservation, or None when others certainly have it. `overlaps` are theirs."""

    reservation: Reservation | None
    overlaps: tuple[Overlap, ...] = ()


Changes = dict[str, bytes | None]


class Reservations:
    """Reads and changes reservations. Raises what the streams raise; Unavailable, too, when too many change them."""

    def __init__(self, streams: IntentStreams, *, limits: Limits | None = None) -> None:
        self._streams = streams
        self._limits = limits or Limits()

    async def of(self, table: str) -> Board:
        """What is reserved of a table now."""
        return self._board(await self._streams.book(table))

    async def any_of(self, tables: Sequence[str]) -> bool:
        """Whether there may be reservations of any of these tables: one question, however many they are."""
        return await self._streams.any_notes(tables)

    async def begin(self, reservation: Reservation, *, lease_ms: int, anyway: bool = False) -> Begun:
        """Reserve, unless others certainly have it (`anyway`: all the same). Its times are set here.

        May be repeated: a reservation that stands already is renewed. Raises InvalidInput for one that is too large,
        or one too many.
        """
        check_table_name(reservation.table)
        self._check_lease(lease_ms)
        begun = Begun(reservation=None)

        def change(board: Board) -> Changes:
            nonlocal begun
            others = [r for r in board.reservations if r.reservation_id != reservation.reservation_id]
            overlaps = overlaps_of(reservation.scope, others, canonical=canonical)
            if not anyway and any(overlap.certain for overlap in overlaps):
                begun = Begun(reservation=None, overlaps=overlaps)
                return {}
            if len(others) >= (KEPT_BASES_MAX if reservation.scope.is_nothing else RESERVATIONS_MAX):
                raise InvalidInput(
                    f"table {reservation.table!r} has {plural(len(others), 'reservation')}, as many as it may"
                )
            timed = msgspec.structs.replace(reservation, begun_ms=board.now_ms, until_ms=board.now_ms + lease_ms)
            begun = Begun(reservation=timed, overlaps=overlaps)
            return {_RESERVED + timed.reservation_id: _encoded(timed)}

        await self._change(reservation.table, change)
        return begun

    async def renew(self, table: str, reservation_id: str, *, lease_ms: int) -> Standing | None:
        """Live on for `lease_ms` from now; what has disturbed it so far. None when it is gone: begin again."""
        self._check_lease(lease_ms)
        found: Standing | None = None

        def change(board: Board) -> Changes:
            nonlocal found
            found = board.find(reservation_id)
            if found is None:
                return {}
            renewed = msgspec.structs.replace(found.reservation, until_ms=board.now_ms + lease_ms)
            found = msgspec.structs.replace(found, reservation=renewed)
            return {_RESERVED + reservation_id: _encoded(renewed)}

        await self._change(table, change)
        return found

    async def end(self, table: str, *reservation_ids: str) -> int:
        """Give reservations up; how many there were."""
        ended = 0

        def change(board: Board) -> Changes:
            nonlocal ended
            found = [one for one in reservation_ids if board.find(one) is not None]
            ended = len(found)
            return {prefix + one: None for one in found for prefix in (_RESERVED, _DISTURBED)}

        await self._change(table, change)
        return ended

    async def disturb(self, table: str, disturbances: Mapping[str, Disturbance]) -> None:
        """Note what disturbed reservations, by their ids, so that their holders hear of it when they renew."""

        def change(board: Board) -> Changes:
            found = {one: board.find(one) for one in disturbances}
            return {
                _DISTURBED + one: msgspec.json.encode((*standing.disturbances, disturbances[one]))
                for one, standing in found.items()
                if standing is not None and len(standing.disturbances) < DISTURBANCES_MAX
            }

        await self._change(table, change)

    async def _change(self, table: str, change: Callable[[Board], Changes]) -> None:
        """Change the notes of a table as `change` says, seeing what others have written before."""
        for _ in range(CHANGES_MAX):
            book = await self._streams.book(table)
            board = self._board(book)
            changes = change(board)
            if not changes:
                return
            living = {one.reservation_id for one in board.reservations}
            changes = {**_leftovers(book, living), **changes}
            if await self._streams.note(table, changes, version=book.version, lives_ms=self._lives_ms):
                return
            await asyncio.sleep(random.uniform(0, 0.02))  # noqa: S311 - to keep out of each other's way
        raise Unavailable(f"the reservations of {table!r} were changed by others {CHANGES_MAX} times in a row")

    @property
    def _lives_ms(self) -> int:
        return self._limits.reservation_ms_max + MARGIN_MS

    def _check_lease(self, lease_ms: int) -> None:
        if not LEASE_MS_MIN <= lease_ms <= self._limits.reservation_ms_max:
            raise InvalidInput(
                f"a lease of {lease_ms} ms is not within {LEASE_MS_MIN} … {self._limits.reservation_ms_max}",
                hint="renew it while the work goes on",
            )

    def _board(self, book: Book) -> Board:
        """What lives of the notes; what cannot be read is nobody's."""
        last_ms = book.now_ms + self._limits.reservation_ms_max
        found = []
        for name, note in book.notes.items():
            if not name.startswith(_RESERVED) or len(note) > RESERVATION_BYTES_MAX:
                continue
            try:
                one = _RESERVATION.decode(note)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue
            if one.until_ms > book.now_ms and name == _RESERVED + one.reservation_id:
                one = msgspec.structs.replace(one, until_ms=min(one.until_ms, last_ms))
                found.append(Standing(reservation=one, disturbances=_disturbances(book, one.reservation_id)))
        found.sort(key=lambda standing: (standing.reservation.begun_ms, standing.reservation.reservation_id))
        return Board(standings=tuple(found[:RESERVATIONS_MAX]), now_ms=book.now_ms)


def _encoded(reservation: Reservation) -> bytes:
    data = msgspec.json.encode(reservation)
    if len(data) > RESERVATION_BYTES_MAX:
        raise InvalidInput(
            f"the reservation has {len(data)} bytes, the limit is {RESERVATION_BYTES_MAX}",
            hint="reserve partitions or a row filter instead of files",
        )
    return data


def _disturbances(book: Book, reservation_id: str) -> tuple[Disturbance, ...]:
    try:
        return _DISTURBANCES.decode(book.notes.get(_DISTURBED + reservation_id, b"[]"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()


def _leftovers(book: Book, living: Collection[str]) -> Changes:
    """Notes about reservations whose time is over."""
    return {name: None for name in book.notes if name[:2] in {_RESERVED, _DISTURBED} and name[2:] not in living}
