"""What all lanes of one daemon share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import msgspec

from firn.coordinator.lanes.kept_states import KeptStates
from firn.coordinator.lanes.lane_threads import LaneThreads
from firn.coordinator.lanes.paused_tables import PausedTables
from firn.coordinator.metrics import Metrics
from firn.coordinator.outcomes.publish import Publisher
from firn.coordinator.pending import Pending
from firn.coordinator.recovery.pointer_ages import PointerAges
from firn.coordinator.replay.holds import Hold
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.merges_beside import MergesBeside
from firn.coordinator.tables.replaced_metadata import ReplacedMetadata
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.coordinator.tables.table_locations import TableLocations
from firn.coordinator.tables.table_reader import TableReader
from firn.model.journal import Segment
from firn.model.limits import Limits
from firn.storage.file_writes import FileWrites
from firn.storage.files import FileStore
from firn.storage.given_up import GivenUp
from firn.storage.journal import JournalFiles
from firn.storage.leases import Leases
from firn.storage.pointers import Pointers


class Stores(Protocol):
    """Whether the stores are the deployment's (`firn.coordinator.store_identity`)."""

    @property
    def wrong(self) -> str | None:
        """Why they are not, as far as is known."""
        ...

    async def confirm(self) -> None:
        """Raise Unavailable unless the ZooKeeper of this session is."""
        ...

    async def confirm_now(self) -> None:
        """As `confirm`, asked of ZooKeeper."""
        ...


class AnyStores:
    """Stores that nobody has marked: all are taken as they are."""

    wrong: str | None = None

    async def confirm(self) -> None:
        return

    async def confirm_now(self) -> None:
        return


class Workshop(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all lanes of one daemon share."""

    daemon: str
    files: FileStore
    writes: FileWrites
    """Writes the files of batches, to the same store."""
    threads: LaneThreads
    kept: KeptStates
    reader: TableReader
    merges: MergesBeside
    replaced: ReplacedMetadata
    """Removes metadata files that commits have replaced."""
    journal: JournalFiles
    pointers: Pointers
    catalogs: TableCatalogs
    leases: Leases
    locations: TableLocations
    paused: PausedTables
    given_up: GivenUp
    publisher: Publisher
    metrics: Metrics
    limits: Limits
    warehouse: str
    allowed: tuple[str, ...]
    lease_idle_s: float
    wall_ms: Callable[[], int]
    connected: Callable[[], Awaitable[None]]
    """Waits until the ZooKeeper session is connected."""
    stores: Stores
    """Whether ZooKeeper is the deployment's."""
    ages: PointerAges
    waiting: Callable[[str, Collection[tuple[int, str]] | None], Awaitable[tuple[Hold, ...]]]
    """What work needs of a table: that in no lane here (None), or all of it but these entries (shard and id)."""
    consumed: Callable[[str], Awaitable[tuple[Hold, ...]]]
    """What consumers of its changes need of a table, by its uuid."""
    landed: Callable[[Working, Segment, Sequence[Pending]], None]
    """Hears of every table that a batch changed, and how."""
