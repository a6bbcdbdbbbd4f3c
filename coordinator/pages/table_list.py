"""The list of tables: one page of them at a time, in an order that can be found out without reading their files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import msgspec

from firn.coordinator.lanes.lanes import Lanes
from firn.coordinator.lanes.workshop import Workshop
from firn.coordinator.operations.fleet import answer_of, notices, troubles_in
from firn.coordinator.operations.notices import Notice
from firn.coordinator.pages.store_reads import StoreReads
from firn.coordinator.pages.table_facts import TableFacts, TableFactsCache
from firn.model.errors import CorruptFile, NotFound
from firn.model.pause import Pause
from firn.model.pointer import Pointer
from firn.model.sharding import shard_of
from firn.model.trouble import Trouble
from firn.storage.membership import Membership

TABLES_A_PAGE: Final = 50
DATED_MAX: Final = 2_000
"""Tables that can be sorted by their last change: each pointer is asked for."""

DATES_AT_ONCE: Final = 64

Order = Literal["state", "name", "changed"]
ORDERS: Final[tuple[str, ...]] = get_args(Order)


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """A table in the list; `trouble` when its pointer cannot be read, or nothing is committed to it.

    `changed_ms` is when its pointer moved last. `depth` intents wait in its lane; None: it is another daemon's.
    """

    name: str
    pointer: Pointer | None
    changed_ms: int | None
    owner: str | None
    depth: int | None
    facts: TableFacts
    paused: Pause | None = None
    trouble: str | None = None
    unmerged: str | None = None


class TablesPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of `count` tables. `unsorted`: there are more than can be sorted as was asked."""

    rows: tuple[TableRow, ...]
    count: int
    page: int
    pages: int
    order: str
    unsorted: bool = False


class _Around(msgspec.Struct, frozen=True):
    """What daemons say: who has which shard, and what of the tables."""

    owners: Mapping[int, str]
    told: Mapping[str, Notice]
    troubles: Mapping[str, Trouble]
    unmerged: Mapping[str, str]


class TableList:
    """Lists tables for the pages of one daemon."""

    def __init__(self, shop: Workshop, lanes: Lanes, *, shards: int, membership: Membership, reads: StoreReads) -> None:
        self._shop = shop
        self._lanes = lanes
        self._shards = shards
        self._membership = membership
        self._facts = TableFactsCache(shop.reader, reads)

    async def page(self, *, contains: str, page: int, order: str) -> TablesPage:
        """Return one page of the tables whose name contains a text. By ``state``, those in trouble come first.

        Raises Unavailable when ZooKeeper does not answer.
        """
        names, around = await answer_of(self._look(contains), server="ZooKeeper")
        dates: Mapping[str, int] = {}
        is_sorted = order != "changed" or len(names) <= DATED_MAX
        if order == "changed" and is_sorted:
            dates = await answer_of(self._dates(names), server="ZooKeeper")
            names.sort(key=lambda name: -dates.get(name, 0))
        elif order == "state":
            unmerged, paused = around.unmerged, self._shop.paused.tables
            names.sort(key=lambda name: (name not in around.troubles, name not in paused, name not in unmerged))
        pages = max(1, -(-len(names) // TABLES_A_PAGE))
        page = min(page, pages)
        shown = names[(page - 1) * TABLES_A_PAGE : page * TABLES_A_PAGE]
        rows = await answer_of(asyncio.gather(*(self._row(name, around) for name in shown)), server="ZooKeeper")
        return TablesPage(
            rows=await self._with_facts(rows), count=len(names), page=page, pages=pages, order=order,
            unsorted=not is_sorted,
        )  # fmt: skip

    async def close(self) -> None:
        """Wait for no store any longer."""
        await self._facts.close()

    async def _look(self, contains: str) -> tuple[list[str], _Around]:
        names, owners, told = await asyncio.gather(
            self._shop.pointers.list(), self._membership.owners(), notices(self._membership)
        )
        unmerged = {table: why for notice in told.values() for table, why in notice.unmerged.items()}
        found = [name for name in names if contains.lower() in name.lower()]
        return found, _Around(owners, told, troubles_in(told), unmerged)

    async def _dates(self, names: Sequence[str]) -> dict[str, int]:
        turn = asyncio.Semaphore(DATES_AT_ONCE)

        async def date(name: str) -> tuple[str, int]:
            async with turn:
                try:
                    return name, (await self._shop.pointers.read_dated(name))[1]
                except (NotFound, CorruptFile):
                    return name, 0

        return dict(await asyncio.gather(*map(date, names)))

    async def _row(self, name: str, around: _Around) -> TableRow:
        owner = around.owners.get(shard_of(name, shards=self._shards))
        row = TableRow(
            name=name, pointer=None, changed_ms=None, owner=owner, paused=self._shop.paused.tables.get(name),
            depth=self._lanes.depths.get(name, 0) if owner == self._shop.daemon else None,
            facts=TableFacts(), unmerged=around.unmerged.get(name),
        )  # fmt: skip
        try:
            pointer, changed_ms = await self._shop.pointers.read_dated(name)
        except (NotFound, CorruptFile) as error:
            return msgspec.structs.replace(row, trouble=str(error))
        trouble = around.troubles.get(name)
        return msgspec.structs.replace(
            row, pointer=pointer, changed_ms=changed_ms,
            trouble=None if trouble is None else f"{trouble.state}: {trouble.why}",
        )  # fmt: skip

    async def _with_facts(self, rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
        tables = [
            row.pointer for row in rows if row.pointer and row.pointer.kind == "table" and not row.pointer.dropped
        ]
        facts = await self._facts.of(tables)
        return tuple(msgspec.structs.replace(row, facts=facts.get(row.name, row.facts)) for row in rows)
