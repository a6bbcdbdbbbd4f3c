"""fsck looks for a transaction in the journals of all its tables."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from firn.coordinator.fsck.run import check_table
from firn.model.errors import NotFound
from firn.model.journal import Segment
from firn.model.operations.tables import RenameTable
from firn.storage.journal import JournalFiles, pack_segment
from firn.storage.pointers import Pointer, Pointers
from tests.unit.coordinator.transactions.ledger import A, B, C, fsck, transaction, with_tables
from tests.unit.coordinator.workbench import Workbench, append, new_id


class Books:
    """Two tables with a transaction in the middle of their journals."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.pointers: dict[str, Pointer] = {}

    async def open(self) -> None:
        async with self.bench.daemon():
            await with_tables(self.bench, A, B, C)
            await self.bench.commit(append("before", table=B))
            await self.bench.commit(transaction(append("x", table=A), append("x", table=B)))
            for table in (A, B):
                await self.bench.commit(append("after", table=table))
        pointers = Pointers(self.bench.zookeeper.connect())
        self.pointers = {name: (await pointers.read(name)).pointer for name in (A, B)}

    def pointer_of(self, table: str) -> Pointer:
        if table not in self.pointers:
            raise NotFound(table)
        return self.pointers[table]

    def findings(self, table: str) -> list[str]:
        verdict = check_table(
            self.pointers[table], files=self.bench.files, limits=self.bench.limits, pointer_of=self.pointer_of
        )
        return [finding.message for finding in verdict.of("all-or-nothing")]

    def journal(self, table: str) -> list[Segment]:
        files = JournalFiles(self.bench.files, bytes_max=self.bench.limits.journal_bytes_max)
        return list(files.walk(self.pointers[table].journal_head))[::-1]

    def rewrite(self, segment: Segment) -> None:
        self.bench.files.replace(segment.location, pack_segment(segment))


def lost_in_the_other(books: Books) -> str:
    """The other table's journal goes on as if the transaction had never been."""
    before, part, after = books.journal(B)[-3:]
    batch = msgspec.structs.replace(after.batch, previous_segment=before.location, sequence=part.batch.sequence)
    books.rewrite(msgspec.structs.replace(after, batch=batch))
    return "whose journal lacks"


def of_another_batch(books: Books) -> str:
    part = books.journal(B)[-2]
    books.rewrite(msgspec.structs.replace(part, batch=msgspec.structs.replace(part.batch, batch="another")))
    return "which is of batch another"


def without_naming_it(books: Books) -> str:
    part = books.journal(B)[-2]
    books.rewrite(msgspec.structs.replace(part, batch=msgspec.structs.replace(part.batch, others=())))
    return "does not name this one"


def with_another_outcome(books: Books) -> str:
    part = books.journal(B)[-2]
    other = msgspec.structs.replace(part.decided[0].outcome, latency_ms=9.0)
    decided = msgspec.structs.replace(part.decided[0], outcome=other)
    books.rewrite(msgspec.structs.replace(part, decided=(decided,)))
    return "has another outcome"


@pytest.mark.parametrize("break_it", [lost_in_the_other, of_another_batch, without_naming_it, with_another_outcome])
async def test_a_transaction_that_is_not_whole_is_found(break_it: Callable[[Books], str]) -> None:
    books = Books(Workbench())
    await books.open()
    assert books.findings(A) == books.findings(B) == []
    said = break_it(books)
    (found,) = books.findings(A)
    assert said in found
    assert found.startswith("transaction ")


async def test_tables_that_are_not_there_any_more_are_no_breach() -> None:
    books = Books(Workbench())
    await books.open()
    del books.pointers[B]
    assert books.findings(A) == []


async def test_a_rename_is_looked_for_on_both_sides_too() -> None:
    bench = Workbench()
    async with bench.daemon():
        await with_tables(bench, A)
        await bench.commit(append("x", table=A))
        await bench.commit(RenameTable(intent_id=new_id(), table=A, new_name=B))
        await bench.commit(msgspec.structs.replace(append("y", table=A), table=B))
    await fsck(bench, A, B)
