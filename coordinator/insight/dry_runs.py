"""Dry runs against what is there now: the pointer from ZooKeeper, or what Redis says of it; and the queue, looked at.

A writer's client has Redis only, as a rule. Then the table is where the daemons announced it after its last commit, and
what that leaves open is said (`Forecast.caveats`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from firn.coordinator.commits.registration import read_registered, reads_metadata
from firn.coordinator.commits.transaction_tables import TransactionTables
from firn.coordinator.insight.dry_run import DRY_RUN, Setting, forecast
from firn.coordinator.insight.dry_run_together import TOGETHER, Together, forecast_together
from firn.coordinator.insight.forecast import Forecast
from firn.coordinator.insight.queue_look import undecided
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.replay.places import chooses_places, may_make
from firn.coordinator.tables.place_checks import with_places
from firn.coordinator.tables.table_catalogs import TableCatalogs
from firn.coordinator.tables.table_locations import TableLocations
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import FirnError, NotFound, Unavailable
from firn.model.file_origins import with_origin_once
from firn.model.identifiers import check_table_name
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.operations.transaction import Transaction
from firn.model.outcome import decode_outcome
from firn.model.sharding import shard_of
from firn.storage.file_system_tables import FileSystemTables
from firn.storage.files import FileStore
from firn.storage.intent_streams import IntentStreams, SharedSettings, TablePlace
from firn.storage.journal import JournalFiles
from firn.storage.metadata_files import version_of
from firn.storage.pointers import Pointer, Pointers, Versioned

FROM_REDIS: Final = (
    "judged on the table as Redis says it was after its last commit; whether the intent was decided before is known "
    "for a while only (give the client zookeeper=… to be certain)"
)
PLACES_UNSEEN: Final = "not checked: whether the name is free, and the place is no other table's (that takes ZooKeeper)"


class DryRuns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What dry runs need. `pointers` None: Redis has to do. `placement` is for when no daemon has announced any."""

    streams: IntentStreams
    files: FileStore
    pointers: Pointers | None
    limits: Limits = Limits()
    placement: Placement | None = None

    async def of(self, intents: Sequence[Intent]) -> list[Forecast]:
        """A forecast for each intent, in the same order; those of one table as if committed in this order.

        What is about several tables (transactions, renames) is judged on these as they are now.
        Raises NotFound when it cannot be told where a table is, and what reading the table raises.
        """
        intents = [with_origin_once(intent) for intent in intents]
        by_table: dict[str, list[int]] = {}
        shared = await self._shared()
        found: dict[int, Forecast] = {}
        for position, intent in enumerate(intents):
            check_table_name(intent.table)
            if isinstance(intent, TOGETHER):
                found[position] = await self._of_several(intent, shared)
            else:
                by_table.setdefault(intent.table, []).append(position)
        for table, positions in by_table.items():
            told = await self._of_table(table, [intents[i] for i in positions], shared)
            found.update(zip(positions, told, strict=True))
        return [found[position] for position in range(len(intents))]

    async def _of_table(self, table: str, intents: Sequence[Intent], shared: SharedSettings) -> list[Forecast]:
        pointers = self.pointers
        if pointers is None:
            versioned, caveats = await self._from_redis(table, intents)
        else:
            versioned, caveats = await self._from_zookeeper(pointers, table), ()
        setting = await self._setting(intents, shared)
        told = await asyncio.to_thread(forecast, intents, versioned=versioned, setting=setting)
        waiting = await self._waiting(table, shared.shards)
        told = [msgspec.structs.replace(one, waiting=waiting, caveats=(*one.caveats, *caveats)) for one in told]
        return told if pointers is not None else [await self._or_decided(one) for one in told]

    async def _of_several(self, intent: Together, shared: SharedSettings) -> Forecast:
        pointers = self.pointers
        if pointers is None:
            raise NotFound(f"a dry run of what is about several tables needs ZooKeeper ({intent.intent_id})")
        reader, journal = self._readers()
        catalogs = TableCatalogs(pointers, FileSystemTables(self.files))
        tables = TransactionTables(
            pointers=pointers, catalogs=catalogs, reader=reader, journal=journal, limits=self.limits
        )
        others = await tables.read(intent) if isinstance(intent, Transaction) else None
        target = None if isinstance(intent, Transaction) else await self._from_zookeeper(pointers, intent.new_name)
        told = await asyncio.to_thread(
            forecast_together,
            intent,
            versioned=await self._from_zookeeper(pointers, intent.table),
            others=others,
            target=target,
            setting=await self._setting([intent], shared),
        )
        return msgspec.structs.replace(told, waiting=await self._waiting(intent.table, shared.shards))

    def _readers(self) -> tuple[TableReader, JournalFiles]:
        journal = JournalFiles(self.files, bytes_max=self.limits.journal_bytes_max)
        return TableReader(self.files, limits=self.limits), journal

    async def _from_zookeeper(self, pointers: Pointers, table: str) -> Versioned | None:
        try:
            return await TableCatalogs(pointers, FileSystemTables(self.files)).read(table)
        except NotFound:
            return None

    async def _from_redis(self, table: str, intents: Sequence[Intent]) -> tuple[Versioned | None, tuple[str, ...]]:
        data = await self.streams.table(table)
        if data is None and may_make(intents[0]):
            return None, (FROM_REDIS, PLACES_UNSEEN)
        if data is None:
            raise NotFound(
                f"Redis does not say where table {table!r} is: there is no such table, or nothing was committed to it "
                "since Redis was emptied (a client with zookeeper=… looks there)"
            )
        place = msgspec.json.decode(data, type=TablePlace)
        location, _, name = place.metadata_location.rpartition("/metadata/")
        metadata_location = place.metadata_location
        by_path = name.startswith("v") and version_of(metadata_location) is not None
        if by_path:
            tables = FileSystemTables(self.files)
            newest = await asyncio.to_thread(tables.newest, location, at_least=version_of(metadata_location))
            metadata_location = newest or metadata_location
        pointer = Pointer(
            table=table, kind=place.kind, uuid=place.table_uuid, location=location,
            catalog="file-system" if by_path else "metastore", metadata_location=metadata_location,
        )  # fmt: skip
        return Versioned(pointer, 0), (FROM_REDIS,)

    async def _setting(self, intents: Sequence[Intent], shared: SharedSettings) -> Setting:
        reader, journal = self._readers()
        return Setting(
            reader=reader,
            journal=journal,
            limits=self.limits,
            placement=await self._placement(intents, shared),
            now_ms=time.time_ns() // 1_000_000,
        )

    async def _placement(self, intents: Sequence[Intent], shared: SharedSettings) -> Placement:
        """Where tables may be, as the daemons say; the places of all others only where it matters."""
        taken: Mapping[str, tuple[str, ...]] = {}
        if self.pointers is not None and any(chooses_places(intent) for intent in intents):
            taken = await TableLocations(self.pointers).all()
        own = self.placement or Placement(warehouse="", allowed=())
        placement = msgspec.structs.replace(
            own,
            warehouse=shared.warehouse or own.warehouse,
            allowed=shared.allowed or own.allowed,
            taken=taken,
        )
        choosing = [intent for intent in intents if chooses_places(intent)]
        return await asyncio.to_thread(self._with_places, placement, choosing) if choosing else placement

    def _with_places(self, placement: Placement, choosing: Sequence[Intent]) -> Placement:
        """What a daemon would look up for intents that choose places."""
        reader, now_ms = self._readers()[0], time.time_ns() // 1_000_000
        registered = read_registered(
            [intent for intent in choosing if reads_metadata(intent)],
            reader=reader,
            attempt=Attempt(batch=DRY_RUN, token=DRY_RUN, number=0, now_ms=now_ms),
            placement=placement,
            limits=self.limits,
        )
        return with_places(msgspec.structs.replace(placement, registered=registered), choosing)

    async def _shared(self) -> SharedSettings:
        try:
            told = await self.streams.settings()
            return SharedSettings() if told is None else msgspec.json.decode(told, type=SharedSettings)
        except Unavailable:
            if self.pointers is None:
                raise
            return SharedSettings()  # the queue cannot be looked at, all else can

    async def _waiting(self, table: str, shards: int) -> int | None:
        try:
            return await undecided(self.streams, table, shard=shard_of(table, shards=shards))
        except FirnError:
            return None

    async def _or_decided(self, told: Forecast) -> Forecast:
        """What was decided on the intent, if Redis still knows it."""
        data = await self.streams.outcome(told.intent_id)
        if data is None or told.status == "decided":
            return told
        return msgspec.structs.replace(
            told, status="decided", outcome=decode_outcome(data), snapshot=None, details={}, caveats=(FROM_REDIS,)
        )
