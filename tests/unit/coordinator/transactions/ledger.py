"""Transactions over several tables of a workbench."""

from __future__ import annotations

from typing import Any

import msgspec

from firn.coordinator.fsck.run import check_table
from firn.model.operations.transaction import Member, Transaction, Unchanged
from firn.model.outcome import Committed
from firn.storage.pointers import Pointers
from tests.unit.coordinator.workbench import Workbench, create, new_id

A, B, C = "db.a", "db.b", "db.c"


def transaction(*members: Member, table: str | None = None, **changes: Any) -> Transaction:
    """A transaction of these members (their intent ids become its own); its first table is that of the first member."""
    intent_id = changes.pop("intent_id", None) or new_id()
    own = tuple(_with_id(member, intent_id) for member in members)
    return Transaction(intent_id=intent_id, table=table or members[0].table, members=own, **changes)


def _with_id(member: Member, intent_id: str) -> Any:
    return msgspec.structs.replace(member, intent_id=intent_id)


async def with_tables(bench: Workbench, *tables: str, **changes: Any) -> None:
    """Make empty tables."""
    for table in tables:
        await bench.commit(create(table, **changes))


async def unchanged(bench: Workbench, table: str, **assumed: Any) -> Unchanged:
    """The table as it is now, as something that must stay so."""
    metadata = await bench.metadata(table)
    return Unchanged(table=table, table_uuid=metadata.table_uuid, **assumed)


def snapshot_of(outcome: Any, member: int) -> int:
    """The snapshot that a member made."""
    assert isinstance(outcome, Committed), outcome
    made = outcome.details["members"][member]["snapshot-id"]
    assert isinstance(made, int)
    return made


async def fsck(bench: Workbench, *tables: str) -> None:
    """Nothing is wrong with the tables, but that their data files were never written."""
    pointers = {name: (await Pointers(bench.zookeeper.connect()).read(name)).pointer for name in tables}
    for pointer in pointers.values():
        verdict = check_table(pointer, files=bench.files, limits=bench.limits, pointer_of=pointers.__getitem__)
        assert [f for f in verdict.findings if f.message != "the data file is gone"] == []
