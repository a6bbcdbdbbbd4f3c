"""A store that hangs under one table: commands that look at all of them tell what the others say, and name it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from firn.coordinator.cli import patient_reads
from firn.model.errors import Unavailable
from firn.storage.memory_files import MemoryFiles
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import append, create, delete, new_id

HANGS, GOOD = "db.hangs", "db.good"


class HangingFiles(MemoryFiles):
    """A store that takes requests below a folder and does not answer them before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs_below: str | None = None
        self.answers = threading.Event()

    def read(self, location: str, *, bytes_max: int) -> bytes:
        if self.hangs_below is not None and location.startswith(self.hangs_below):
            self.answers.wait(60)
        return super().read(location, bytes_max=bytes_max)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingFiles]:
    monkeypatch.setattr(patient_reads, "PATIENCE_S", 0.3)
    made = HangingFiles()
    yield made
    made.answers.set()


async def test_conflicts_of_other_tables_come_and_the_one_that_hangs_is_named(files: HangingFiles) -> None:
    bench = CliBench(files=files)
    async with bench.daemon():
        for table in (HANGS, GOOD):
            await bench.commit(create(table))
            await bench.refuse(delete("never", table=table))
    files.hangs_below = "memory://wh/db/hangs/"
    said = await bench.firn("conflicts")
    assert said.code == 3
    assert GOOD in said.out
    assert HANGS not in said.out
    assert said.err == "firn: the journal of db.hangs cannot be read: its store has not answered in 0.3 s\n"
    assert (await bench.firn("conflicts", "--table", GOOD)).code == 0
    files.answers.set()
    files.hangs_below = None
    assert (await bench.firn("conflicts")).code == 0


async def test_an_intent_is_explained_from_the_journals_that_answer(files: HangingFiles) -> None:
    bench = CliBench(files=files)
    async with bench.daemon():
        for table in (HANGS, GOOD):
            await bench.commit(create(table))
        good, hidden = append("one", table=GOOD), append("one", table=HANGS)
        for intent in (good, hidden):
            await bench.commit(intent)
            bench.redis.keys.pop(bench.names.outcome(intent.intent_id))
    bench.redis.flush_all()  # so that nobody can say in whose journal they are
    files.hangs_below = "memory://wh/db/hangs/"
    for command in ("explain", "outcome"):
        told = await bench.firn(command, good.intent_id)
        assert told.code == 0
        assert GOOD in told.out
        unknown = await bench.firn(command, hidden.intent_id)
        assert unknown.code == 3, command
        assert "the journal of db.hangs cannot be read: its store has not answered in 0.3 s" in unknown.err
    files.answers.set()
    files.hangs_below = None
    assert (await bench.firn("explain", hidden.intent_id)).code == 0
    assert (await bench.firn("explain", new_id())).code == 1


def test_each_further_table_that_hangs_is_waited_for_less_and_asked_once(files: HangingFiles) -> None:
    reads, asked = patient_reads.PatientReads(), []

    def hang() -> None:
        asked.append(1)
        files.answers.wait(60)

    for table in ("a", "b", "a"):
        with pytest.raises(Unavailable, match="has not answered in 0"):
            reads.run(table, hang)
    assert len(asked) == 2
    assert reads.run("c", lambda: 7) == 7
    assert list(reads.hanging) == ["a", "b"]
