"""Transfers between tables, planned at the same time and on the same state, under faults: no row comes or goes."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firn.model.intent import Overwrite, Transaction
from firn.model.outcome import Committed, Rejected
from tests.strategies.examples import AT_LENGTH, examples
from tests.unit.coordinator.transactions.ledger import fsck, transaction
from tests.unit.coordinator.workbench import Workbench, append, content_file, create, new_id, path_of

TABLES = ("db.a", "db.b", "db.c", "db.d")
START = 1_000


class Transfer(msgspec.Struct, frozen=True):
    """Rows that move from one table to others; each of these gets so many. `first` is whose queue it waits in."""

    source: int
    targets: dict[int, int]
    first: int


class Round(msgspec.Struct, frozen=True):
    """Transfers that are planned on one state and sent together, and what goes wrong meanwhile."""

    transfers: list[Transfer]
    fault: str


@st.composite
def transfers(draw: st.DrawFn) -> Transfer:
    source = draw(st.integers(0, len(TABLES) - 1))
    others = [number for number in range(len(TABLES)) if number != source]
    targets = draw(st.dictionaries(st.sampled_from(others), st.integers(1, 9), min_size=1, max_size=3))
    return Transfer(source, targets, draw(st.sampled_from([source, *targets])))


FAULTS = st.sampled_from(["none", "none", "lost-before", "lost-after", "expire"])
ROUNDS = st.lists(st.builds(Round, st.lists(transfers(), min_size=1, max_size=5), FAULTS), min_size=1, max_size=4)


class Books:
    """Balances: the rows of the one live file of each table."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.balances = dict.fromkeys(TABLES, START)
        self.files = dict.fromkeys(TABLES, "start")
        self._names = itertools.count()

    async def open(self) -> None:
        for table in TABLES:
            await self.bench.commit(create(table))
            await self.bench.commit(append("start", table=table, rows=START))

    async def plan(self, transfer: Transfer) -> tuple[Transaction, dict[str, int], dict[str, str]]:
        """The transaction, and what it would change: by how much, and to which files."""
        source = TABLES[transfer.source]
        changes = {source: -sum(transfer.targets.values())}
        changes |= {TABLES[target]: count for target, count in transfer.targets.items()}
        names = {table: f"t{next(self._names)}" for table in changes}
        members = [
            Overwrite(
                intent_id=new_id(), table=table,
                base_snapshot_id=(await self.bench.metadata(table)).current_snapshot_id,
                removed_data_files=(path_of(self.files[table], table=table),),
                data_files=(content_file(names[table], table=table, rows=self.balances[table] + change),),
            )
            for table, change in changes.items()
        ]  # fmt: skip
        return transaction(*members, table=TABLES[transfer.first]), changes, names

    async def carry_out(self, together: Round) -> None:
        planned = [await self.plan(transfer) for transfer in together.transfers]
        self._break(together.fault)
        outcomes = await self.bench.settle(*(intent for intent, _, _ in planned))
        taken: set[str] = set()
        for outcome, (_, changes, names) in zip(outcomes, planned, strict=True):
            if isinstance(outcome, Committed):
                assert taken.isdisjoint(changes), "two transfers planned on one state of a table were both committed"
                taken |= changes.keys()
                for table, change in changes.items():
                    self.balances[table] += change
                self.files |= names
            else:
                assert isinstance(outcome, Rejected)
                assert outcome.rule in {"removed-data", "new-data", "missing-file", "new-deletes"}, outcome
        assert taken, "of transfers that conflict, one is committed"

    def _break(self, fault: str) -> None:
        for session in self.bench.sessions.values():
            if fault == "expire":
                self.bench.zookeeper.expire(session)
            elif fault != "none":
                session.drop_next_write(fault.removeprefix("lost-"))

    async def check(self) -> None:
        found = {}
        for table in TABLES:
            snapshot = (await self.bench.metadata(table)).current_snapshot
            assert snapshot is not None
            found[table] = int((snapshot.summary or {})["total-records"])
            assert await self.bench.live(table) == [self.files[table]]
        assert found == self.balances
        assert sum(found.values()) == START * len(TABLES)
        await fsck(self.bench, *TABLES)


async def run(rounds: list[Round], *, daemons: int) -> None:
    bench = Workbench()
    async with AsyncExitStack() as stack:
        for name in "ab"[:daemons]:
            await stack.enter_async_context(bench.daemon(name, lease_idle_s=0.05))
        books = Books(bench)
        await books.open()
        for one in rounds:
            await books.carry_out(one)
        await books.check()


@pytest.mark.timeout(1800 if AT_LENGTH else 300)
@given(rounds=ROUNDS, daemons=st.integers(1, 2))
@examples(12, at_most=150, suppress_health_check=list(HealthCheck))
def test_transfers_between_tables_keep_the_sum(rounds: list[Round], daemons: int) -> None:
    work: Any = run(rounds, daemons=daemons)
    asyncio.run(work)
