"""Both sides of a race on one table: what each has been told that it committed, and what the table must hold then."""

from __future__ import annotations

import itertools
import os
import random
import select
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from firn.coordinator.client import Client, TableView, data_files_from_parquet
from firn.coordinator.tables.table_reader import TableReader
from firn.model.ancestry import ancestors_of
from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed
from firn.storage.parquet_schema import arrow_schema
from tests.acceptance.checks import FILES, duckdb_sums
from tests.acceptance.stack import Stack

TABLE: Final = "db.raced"
SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "writer", "type": "string", "required": True},
    ],
}
BY_WRITER: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "writer", "transform": "identity"}],
}
ROWS: Final = 5
"""Rows of one append."""

STRIDE: Final = 1_000_000
"""Ids of one writer; another's begin at the next multiple."""

OUTCOME_S: Final = 60.0


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that its writer was told of: ids that it added or deleted, and its snapshot."""

    snapshot_id: int
    added: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()


def ids_of(writer: int, turn: int) -> list[int]:
    """The ids of one append."""
    return list(range(writer * STRIDE + turn * ROWS, writer * STRIDE + (turn + 1) * ROWS))


class FirnWriter(threading.Thread):
    """Appends through firn, and now and then deletes a file that it has appended, until it is told to end.

    `rest_s` is the longest rest between two commits: an engine that plans for long must have a chance to be first, too.
    """

    def __init__(self, stack: Stack, number: int, *, location: str, rest_s: float) -> None:
        super().__init__(daemon=True)
        self.steps: list[Step] = []
        self.error: BaseException | None = None
        self._stack, self._number = stack, number
        self._rng = random.Random(number)
        self._rest_s = rest_s
        self._ends = threading.Event()
        self._view = TableView.from_metadata(location, FILES, name=TABLE)

    def finish(self, timeout_s: float) -> list[Step]:
        """Tell it to end, and wait; its commits in order."""
        self._ends.set()
        self.join(timeout_s)
        assert not self.is_alive()
        assert self.error is None, self.error
        return self.steps

    def run(self) -> None:
        try:
            with self._stack.client() as client:
                self._write(client)
        except BaseException as error:  # noqa: BLE001 - a thread tells its test what it died of
            self.error = error

    def _write(self, client: Client) -> None:
        held: list[tuple[list[int], list[ContentFile]]] = []
        for turn in itertools.count():
            if self._ends.wait(self._rng.uniform(0, self._rest_s)):
                return
            if turn % 3 == 2:
                ids, files = held.pop(0)
                answer = client.delete_files(TABLE, files, writer=f"firn-{self._number}").committed(OUTCOME_S)
                self._note(answer, deleted=tuple(ids))
                continue
            ids = ids_of(self._number, turn)
            files = [self._file(ids)]
            answer = client.append(TABLE, files, writer=f"firn-{self._number}").committed(OUTCOME_S)
            self._note(answer, added=tuple(ids))
            held.append((ids, files))

    def _note(self, answer: Committed, **ids: tuple[int, ...]) -> None:
        assert answer.snapshot_id is not None
        self.steps.append(Step(snapshot_id=answer.snapshot_id, **ids))

    def _file(self, ids: list[int]) -> ContentFile:
        rows = {"id": ids, "writer": [f"firn-{self._number}"] * len(ids)}
        path = Path(self._view.location) / "data" / f"firn-{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows, schema=arrow_schema(self._view.schema)), path)
        (file,) = data_files_from_parquet([path], self._view)
        return file


class ForeignWriter:
    """Another engine as a process, which commits until it is told to end.

    It reports each commit that it was told of as a line with a `Step`.
    """

    def __init__(self, program: str, arguments: Sequence[str], folder: Path) -> None:
        self.steps: list[Step] = []
        self._ready = threading.Event()
        self._log = folder / f"{program}.log"
        path = Path(__file__).with_name(program)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(path), *arguments],
                env={**os.environ, "PYTHONPATH": str(path.parents[2])},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._listener.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    @property
    def error(self) -> str | None:
        """What it died of, if it did."""
        return None if self._process.poll() in {None, 0} else self._log.read_text()[-3000:]

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it begins."""
        assert self._ready.wait(timeout_s), self._log.read_text()[-3000:]
        assert self.error is None, self.error

    def finish(self, timeout_s: float) -> list[Step]:
        """Tell it to end, and wait; its commits in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout_s)
        self._listener.join(10)
        assert self.error is None, self.error
        return self.steps

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.steps.append(msgspec.json.decode(line, type=Step))
            self._ready.set()
        self._ready.set()


def wait_for(writers: Sequence[FirnWriter | ForeignWriter], commits: int, timeout_s: float) -> None:
    """Wait until each has been told of so many commits."""
    ends_at = time.monotonic() + timeout_s
    while any(len(writer.steps) < commits for writer in writers):
        for writer in writers:
            assert writer.error is None, writer.error
        assert time.monotonic() < ends_at, f"{[len(writer.steps) for writer in writers]} of {commits} commits"
        time.sleep(0.01)


def foreign_turns() -> Iterator[int]:
    """What a foreign writer does: say that it begins, then turn after turn, with rests, until its input ends."""
    print("ready", flush=True)
    turn = 0
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        yield turn
        turn += 1


def check_race(stack: Stack, steps: Sequence[Step], *, foreign: Sequence[Step]) -> TableMetadata:
    """What both sides were told is in the table exactly once, and its history is one line."""
    location = newest(stack)
    metadata = TableReader(FILES, limits=Limits()).metadata(location)
    line = [snapshot.snapshot_id for snapshot in ancestors_of(metadata, metadata.current_snapshot_id)]
    assert len(line) == len(metadata.snapshots), "a snapshot is not in the history of the head"
    missing = [step for step in (*steps, *foreign) if step.snapshot_id not in line]
    assert not missing, f"{len(missing)} commits were told and are not in the history, first {missing[0]}"
    assert len({step.snapshot_id for step in foreign}) == len(foreign)
    expected = {i for step in (*steps, *foreign) for i in step.added}
    expected -= {i for step in (*steps, *foreign) for i in step.deleted}
    found = StaticTable.from_metadata(location).scan(selected_fields=("id",)).to_arrow().column("id").to_pylist()
    assert sorted(found) == sorted(expected)
    assert duckdb_sums(location) == (len(expected), sum(expected), len(expected))
    check_versions(Path(location).parent, metadata)
    fsck = stack.firn("fsck", TABLE)
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"
    return metadata


def check_versions(folder: Path, newest: TableMetadata) -> None:
    """No version is missing, and each was made from the one before it."""
    numbers = sorted(int(path.name[1:].partition(".")[0]) for path in folder.glob("v*.metadata.json"))
    assert numbers == list(range(1, len(numbers) + 1))
    logged = [Path(entry.metadata_file).name for entry in newest.metadata_log]
    assert logged == [f"v{number}.metadata.json" for number in numbers[:-1]][-len(logged) :]


def newest(stack: Stack) -> str:
    """The table's newest version."""
    folder = stack.warehouse / "db" / "raced" / "metadata"
    return str(max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0])))


def turns_taken(metadata: TableMetadata) -> int:
    """How often the history goes from one side's commit to the other's."""
    sides = ["firn.batch-id" in (snapshot.summary or {}) for snapshot in metadata.snapshots]
    return sum(one != other for one, other in pairwise(sides))
