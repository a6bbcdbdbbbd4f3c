"""A rolling upgrade: older daemons write segments to the old folder, newer ones to the new, in turns.

Other engines then delete everything in the old folder. Every intent keeps its first outcome, and recovery finds the
pointers that were there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

import msgspec
import pytest

from firn.coordinator.fsck.run import Verdict, check_table
from firn.model.intent import Intent
from firn.model.operations.tables import RenameTable
from firn.model.pause import Pause
from firn.pipeline.journal_copy import copy_old_journal
from firn.storage.journal import OLD_JOURNAL_FOLDER, both_locations, is_same_segment, pack_segment
from firn.storage.pause_notes import PauseNotes
from firn.storage.pointers import Pointer, PointerChange, Pointers
from tests.unit.coordinator.recovery.test_recover import find, lose_servers, pointers, recover
from tests.unit.coordinator.transactions.ledger import transaction
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, decision, new_id

HOME = f"{WAREHOUSE}/db/events"
Version = Literal["old", "new"]
ROLLS: tuple[tuple[Version, ...], ...] = (("old",), ("old", "new"), ("old", "new", "old"), ("old", "new", "old", "new"))


def old_location(table_location: str, *, sequence: int, token: str) -> str:
    """Where earlier versions put a segment."""
    return f"{table_location}/metadata/journal/{sequence:010d}-{token}.jsonl.gz"


@contextmanager
def version(which: Version) -> Iterator[None]:
    if which == "new":
        yield
        return
    with patch("firn.coordinator.commits.batch_record.segment_location", old_location):
        yield


@pytest.fixture(autouse=True)
def short_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint every third segment, and few ids in memory: so old ones are looked up in files."""
    monkeypatch.setattr("firn.coordinator.journal.decisions.CHECKPOINT_SEGMENTS", 3)


class Upgraded:
    """A table that daemons of several versions wrote to in turns, with all that they answered."""

    def __init__(self) -> None:
        self.bench = Workbench()
        self.answered: list[tuple[Intent, Any]] = []

    async def send(self, intent: Intent) -> None:
        (outcome,) = await self.bench.settle(intent)
        self.answered.append((intent, outcome))

    async def roll(self, versions: tuple[Version, ...], *, catalog: str = "metastore") -> None:
        for turn, which in enumerate(versions):
            with version(which):
                async with self.bench.daemon(f"d{turn}"):
                    if turn == 0:
                        await self.send(create(catalog=catalog))
                    for number in range(4):
                        await self.send(append(f"{turn}-{number}"))
                    await self.send(append(f"{turn}-0"))  # refused: it is there
                    await self.send(append(f"{turn}-w", writer="stream", writer_sequence=turn))

    def swept(self) -> int:
        """Delete what another engine's orphan removal finds of the journal."""
        found = [one.location for one in self.bench.files.list(f"{HOME}/{OLD_JOURNAL_FOLDER}")]
        for location in found:
            self.bench.files.delete(location)
        return len(found)

    def copied(self) -> int:
        return copy_old_journal(self.bench.files, HOME, limits=self.bench.limits)

    async def check(self) -> None:
        """Everything is answered as it was, new intents commit, and fsck is content."""
        async with self.bench.daemon("last"):
            for intent, outcome in self.answered:
                (again,) = await self.bench.settle(intent)
                assert decision(again) == decision(outcome)
            for number in range(4):
                await self.send(append(f"last-{number}-{len(self.answered)}"))
        assert breaches(self.bench, (await pointers(self.bench))[TABLE]) == []


def breaches(bench: Workbench, pointer: Pointer) -> list[Any]:
    """What fsck finds; the data files of this bench are made up."""
    verdict: Verdict = check_table(pointer, files=bench.files, limits=bench.limits)
    return [one for one in verdict.findings if one.message != "the data file is gone"]


async def upgraded(versions: tuple[Version, ...], *, catalog: str = "metastore") -> Upgraded:
    made = Upgraded()
    await made.roll(versions, catalog=catalog)
    return made


@pytest.mark.parametrize("versions", ROLLS)
async def test_daemons_of_both_versions_take_turns_and_nothing_is_decided_twice(versions: tuple[Version, ...]) -> None:
    made = await upgraded(versions)
    journal = await made.bench.journal()
    assert [one.batch.sequence for one in journal] == list(range(1, 1 + len(journal)))
    await made.check()


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
@pytest.mark.parametrize("versions", ROLLS)
async def test_recovery_reads_both_folders(versions: tuple[Version, ...], catalog: str) -> None:
    made = await upgraded(versions, catalog=catalog)
    before = await pointers(made.bench)
    for copied in (False, True):
        if copied:
            assert made.copied() > 0
        restored = find(made.bench)[TABLE].pointer
        assert restored is not None
        assert msgspec.structs.replace(restored, watermarks={}) == msgspec.structs.replace(before[TABLE], watermarks={})


@pytest.mark.parametrize("lost", [False, True], ids=["servers-stay", "servers-lost"])
@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
@pytest.mark.parametrize("versions", ROLLS)
async def test_after_the_copy_a_foreign_sweep_of_the_old_folder_loses_nothing(
    versions: tuple[Version, ...], catalog: str, lost: bool
) -> None:
    made = await upgraded(versions, catalog=catalog)
    head = (await pointers(made.bench))[TABLE].journal_head
    assert made.copied() == made.swept() > 0
    if lost:
        lose_servers(made.bench)
        await recover(made.bench)
        assert is_same_segment((await pointers(made.bench))[TABLE].journal_head, head)
    await made.check()
    assert made.swept() == 0
    await made.check()


async def test_without_the_copy_a_sweep_is_noticed() -> None:
    made = await upgraded(("old", "new"))
    assert made.swept() > 0
    pointer = (await pointers(made.bench))[TABLE]
    assert [one.message for one in breaches(made.bench, pointer)] == ["the journal segment is gone"]
    assert find(made.bench)[TABLE].finding == "damaged"


async def test_a_daemon_that_runs_on_while_pointers_are_recovered_knows_its_segment_by_the_other_name() -> None:
    made = await upgraded(("old",))
    bench = made.bench
    async with bench.daemon("stays"):
        with version("old"):
            await made.send(append("before"))
        assert made.copied() == made.swept() > 0
        (restored,) = [one.pointer for one in find(bench).values()]
        assert restored is not None
        reading = Pointers(bench.zookeeper.connect())
        now = await reading.read(TABLE)
        assert restored.journal_head != now.pointer.journal_head
        await reading.swap([PointerChange(table=TABLE, pointer=restored, expected=now.version)], leases=())
        await made.send(append("after"))
    await made.check()


async def test_a_checkpoint_may_be_named_by_either_location() -> None:
    made = await upgraded(("old",))
    bench = made.bench
    assert made.copied() > 0
    segment = (await bench.journal())[-1]
    assert segment.batch.previous_checkpoint is not None
    named = msgspec.structs.replace(
        segment.batch, previous_checkpoint=both_locations(segment.batch.previous_checkpoint)[0]
    )
    bench.files.replace(segment.location, pack_segment(msgspec.structs.replace(segment, batch=named)))
    assert breaches(bench, (await pointers(bench))[TABLE]) == []
    await made.check()


async def test_a_transaction_and_a_rename_across_both_folders_are_whole() -> None:
    made = Upgraded()
    bench, other = made.bench, "db.other"
    with version("old"):
        async with bench.daemon("old"):
            await made.send(create())
            await made.send(create(other))
            await made.send(transaction(append("t"), append("t", table=other)))
    async with bench.daemon("new"):
        await made.send(transaction(append("u"), append("u", table=other)))
        await made.send(RenameTable(intent_id=new_id(), table=other, new_name="db.renamed"))
    for home in (HOME, f"{WAREHOUSE}/db/other"):
        assert copy_old_journal(bench.files, home, limits=bench.limits) > 0
        for one in list(bench.files.list(f"{home}/{OLD_JOURNAL_FOLDER}")):
            bench.files.delete(one.location)
    before = await pointers(bench)
    found = find(bench)
    assert {name: one.finding for name, one in found.items()} == dict.fromkeys(before, "restore")
    lose_servers(bench)
    await recover(bench)
    now = await pointers(bench)
    for name, pointer in now.items():
        verdict = check_table(pointer, files=bench.files, limits=bench.limits, pointer_of=now.__getitem__)
        assert [f for f in verdict.findings if f.message != "the data file is gone"] == [], name
    await made.check()


@pytest.mark.parametrize("folder", ["old", "new"])
def test_pause_notes_of_either_folder_are_read_and_removed(folder: Version) -> None:
    bench = Workbench()
    notes = PauseNotes(bench.files)
    notes.write(HOME, TABLE, Pause(by="ann", reason="a move", since_ms=5), token="a")
    (note,) = [one.location for one in bench.files.list(HOME)]
    later = note.replace("0000000000005-a", "0000000000006-b")
    if folder == "old":
        later = later.replace("/_journal/", "/journal/")
    again = bench.files.read(note, bytes_max=1000).replace(b"a move", b"a repair")
    bench.files.create(later, again)
    newest = notes.newest(HOME, TABLE)
    assert newest is not None
    assert newest.reason == "a repair"
    notes.remove(HOME)
    assert notes.newest(HOME, TABLE) is None
    assert list(bench.files.list(HOME)) == []
