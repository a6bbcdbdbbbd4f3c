"""Where the table of a lane and the intents of its batches may put files, looked up before replay relies on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from firn.coordinator.commits.commit import Prepared
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.pending import Pending, operations_in
from firn.coordinator.recovery.pointer_ages import StalePointerError
from firn.coordinator.replay.attempt import Found, Placement
from firn.coordinator.replay.files_rules import places_of
from firn.coordinator.replay.places import chooses_places, may_make, places_beside
from firn.coordinator.replay.tables import default_location
from firn.coordinator.tables.place_checks import foreign_places, unusable_files, with_places
from firn.coordinator.tables.table_locations import TableLocations
from firn.coordinator.tables.table_state import TableState
from firn.model.errors import CorruptFile, NotFound
from firn.model.intent import Intent, RenameTable
from firn.model.operations.tables import RegisterTable
from firn.model.operations.views import RegisterView, RenameView
from firn.storage.locations import FILE_SCHEME, scheme_of
from firn.storage.log import get_logger
from firn.storage.pointers import Pointer


class LanePlaces:
    """Looks up places and files for the batches of one lane."""

    def __init__(self, table: str, shop: Workshop) -> None:
        self._table = table
        self._shop = shop
        self._foreign: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {}
        """By table, the places beside its location, and those of them that it should not have."""
        self._log: Any = get_logger().bind(table=table)

    async def placement(
        self, batch: Sequence[Pending], state: TableState, registered: Mapping[str, Found]
    ) -> Placement:
        """Return where the lane's table, which is in `state`, may put files, and where tables may be.

        Intents that choose a place get the places that are taken, and what the disk has there.
        """
        shop = self._shop
        choosing = [operation for operation in operations_in(batch) if chooses_places(operation)]
        foreign = await self.foreign([state])
        if not choosing:
            return Placement(warehouse=shop.warehouse, allowed=shop.allowed, foreign=foreign)
        await self._are_free(choosing)
        taken = await shop.locations.all()
        if any(operation.table != self._table for operation in choosing) or state.pointer is not None:
            await shop.locations.announce_move({self._table, *(name for one in choosing for name in _names_in(one))})
        placement = Placement(
            warehouse=shop.warehouse, allowed=shop.allowed, taken=taken, foreign=foreign, registered=registered
        )
        return await shop.threads.read(with_places, placement, choosing)

    async def compare(self, pointer: Pointer, *, lock_token: int) -> None:
        """Raise Unavailable where the pointer of the lane's table is older than its journal.

        A file-system table goes by its files: its pointer may be behind them.
        """
        if pointer.catalog == "metastore" or pointer.dropped:
            await self._shop.ages.check(pointer.table, pointer, head=pointer.journal_head, lock_token=lock_token)

    async def _are_free(self, choosing: Sequence[Intent]) -> None:
        """Raise Unavailable where a table is to be made in the folder of one that this ZooKeeper does not know."""
        for operation in choosing:
            if not may_make(operation) or isinstance(operation, RegisterTable | RegisterView):
                continue
            own = getattr(operation, "location", None) or default_location(
                operation.table, warehouse=self._shop.warehouse
            )
            for name in await self._shop.ages.unknown_in(own):
                try:
                    await self._shop.pointers.read(name)
                except NotFound as error:
                    raise StalePointerError(
                        f"ZooKeeper has no pointer of {name!r}: bring the right one back, or run firn recover {name} "
                        f"--yes. Its journal is in {own}, where no other table is made"
                    ) from error

    async def foreign(self, states: Iterable[TableState]) -> dict[str, dict[str, str]]:
        """Return the places beside their location that tables should not have, by table, with the reasons.

        Looked up once for the same places: nobody is given a place that overlaps with one that a table has.
        """
        found: dict[str, dict[str, str]] = {}
        for state in states:
            places = _places_beside(state)
            if not places:
                continue
            known = self._foreign.get(state.table)
            if known is not None and known[0] == places:
                found[state.table] = known[1]
                continue
            taken = await self._places_of_all()
            found[state.table] = await self._shop.threads.read(
                foreign_places, state.table, places, allowed=self._shop.allowed, taken=taken or {}
            )
            if taken is not None:
                self._foreign[state.table] = (places, found[state.table])
        return found

    async def _places_of_all(self) -> dict[str, tuple[str, ...]] | None:
        """The places of all tables; None while the pointer of one, which need not be this one, is damaged.

        They are read without the lock over all locations, so the daemon's `TableLocations` must not remember them.
        """
        try:
            return await TableLocations(self._shop.pointers).all()
        except CorruptFile as error:
            self._log.warning("places of other tables unknown", reason=str(error))
            return None

    async def unusable_files(self, prepared: Prepared) -> dict[str, str]:
        """Return the files named by intents that can be no files of a table, with the reasons."""
        found: dict[str, str] = {}
        for part in prepared.parts:
            metadata = part.working.metadata
            local = [file for file in part.working.new_files if scheme_of(file) == FILE_SCHEME]
            if metadata is not None and local:
                places = (metadata.location, *places_of(part.working))
                found |= await self._shop.threads.read(unusable_files, local, places=places)
        return found


def _names_in(operation: Intent) -> Iterator[str]:
    """Yield the names that an operation may give another place."""
    yield operation.table
    if isinstance(operation, RenameTable | RenameView):
        yield operation.new_name


def _places_beside(state: TableState) -> tuple[str, ...]:
    """Where a table may have files beside its location."""
    if state.metadata is None or state.pointer is None or state.pointer.dropped:
        return ()
    return tuple(dict.fromkeys((*state.pointer.also_at, *places_beside(state.metadata))))
