"""The demo's processes: writers, compactors, a deleter. Each reports its outcomes as JSON lines on standard output."""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from firn.coordinator.client import Client, TableView, Ticket, data_files_from_parquet
from firn.coordinator.demo.dataset import (
    TABLE,
    FileStats,
    customers_by_bucket,
    make_rows,
    read_files,
    write_file,
)
from firn.coordinator.demo.ending import end_with
from firn.coordinator.tables.table_reader import TableReader
from firn.model.content_file import content_file_of
from firn.model.datafile import DataFile
from firn.model.intent import ContentFile
from firn.model.limits import Limits
from firn.model.outcome import Committed, Rejected
from firn.storage.local_files import LocalFiles

Role = Literal["writer", "compactor", "deleter", "spark"]

IN_FLIGHT: Final = 4
"""Intents that one writer has out at a time."""

ROWS: Final = (200, 1_000)
ID_STRIDE: Final = 10**12
"""Ids of one writer; another's begin at the next multiple."""

COMPACT_FILES: Final = (4, 20)
"""A compaction takes at least and at most so many files of one partition."""

GIVE_UP_S: Final = 120.0
"""After the end of the run, how long an actor waits for outcomes that are still out."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome as its actor was told it. `added` and `removed` are by file location."""

    role: Role
    actor: str
    operation: str
    intent_id: str
    status: Literal["committed", "rejected", "unknown"]
    rule: str | None = None
    latency_ms: float
    added: dict[str, FileStats] = {}
    removed: list[str] = []


class Sent:
    """An intent on its way. Its latency ends when its outcome comes, not when its actor looks at it."""

    def __init__(self, ticket: Ticket, *, started: float) -> None:
        self.ticket = ticket
        self._started = started
        self._ended: float | None = None
        ticket.add_done_callback(self._end)

    def _end(self, _: Ticket) -> None:
        self._ended = time.monotonic()

    @property
    def latency_ms(self) -> float:
        """Until the outcome came; until now, when it has not, or only just."""
        return ((self._ended or time.monotonic()) - self._started) * 1000


class Actor:
    """What all roles share: a client, a clock, a dice, and the telling of outcomes."""

    def __init__(self, role: Role, number: int, *, redis_url: str, seconds: float) -> None:
        self.role: Role = role
        self.number = number
        self.name = f"{role}-{number}"
        self.client = Client(redis_url)
        self.rng = random.Random(f"{role}/{number}")  # noqa: S311 - makes data, no secrets
        self.ends_at = time.monotonic() + seconds
        self.reader = TableReader(LocalFiles(), limits=Limits())

    @property
    def goes_on(self) -> bool:
        """Whether the run still lasts."""
        return time.monotonic() < self.ends_at

    def view(self) -> TableView:
        """The table as it is now."""
        return self.client.table(TABLE)

    def live_files(self, view: TableView) -> list[DataFile]:
        """The live data files of the head that `view` shows."""
        snapshot = view.metadata.current_snapshot
        if snapshot is None:
            return []
        manifests = self.reader.manifests(view.metadata, snapshot)
        entries = (e for m in manifests for e in self.reader.entries(view.metadata, m))
        return [e.data_file for e in entries if e.is_live]

    def tell(
        self,
        sent: Sent,
        *,
        operation: str,
        added: dict[str, FileStats] | None = None,
        removed: Sequence[str] = (),
    ) -> None:
        """Wait for the outcome and report it."""
        outcome = sent.ticket.result(max(1.0, self.ends_at - time.monotonic()) + GIVE_UP_S)
        status: Literal["committed", "rejected", "unknown"] = "unknown"
        if isinstance(outcome, Committed):
            status = "committed"
        elif isinstance(outcome, Rejected):
            status = "rejected"
        report = Report(
            role=self.role,
            actor=self.name,
            operation=operation,
            intent_id=sent.ticket.intent_id,
            status=status,
            rule=outcome.rule if isinstance(outcome, Rejected) else None,
            latency_ms=sent.latency_ms,
            added=added or {},
            removed=list(removed),
        )
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()


def run_writer(actor: Actor) -> None:
    """Write Parquet files and append them, a few intents ahead of their outcomes."""
    buckets = customers_by_bucket()
    view = actor.view()
    next_id = actor.number * ID_STRIDE
    out: deque[tuple[Sent, dict[str, FileStats]]] = deque()
    while actor.goes_on or out:
        if not actor.goes_on or len(out) >= IN_FLIGHT:
            sent, added = out.popleft()
            actor.tell(sent, operation="append", added=added)
            continue
        count = actor.rng.randrange(*ROWS)
        rows = make_rows(view, first_id=next_id, count=count, customers=actor.rng.choice(buckets), rng=actor.rng)
        next_id += count
        path, stats = write_file(view, rows, prefix=actor.name)
        files = data_files_from_parquet([str(path)], view)
        started = time.monotonic()
        sent = Sent(actor.client.append(TABLE, files, writer=actor.name), started=started)
        out.append((sent, {files[0].file_path: stats}))


def run_compactor(actor: Actor) -> None:
    """Rewrite the small files of one partition into one; now and then the one that the other compactor takes, too."""
    while actor.goes_on:
        view = actor.view()
        partitions: dict[tuple[object, ...], list[DataFile]] = {}
        for file in actor.live_files(view):
            partitions.setdefault(file.partition, []).append(file)
        ripe = sorted((p for p in partitions.values() if len(p) >= COMPACT_FILES[0]), key=len, reverse=True)
        if not ripe:
            time.sleep(0.2)
            continue
        chosen = ripe[0] if actor.rng.random() < 0.4 else actor.rng.choice(ripe[:12])
        _compact(actor, view, chosen[: COMPACT_FILES[1]])
        time.sleep(actor.rng.uniform(0.1, 0.4))


def _compact(actor: Actor, view: TableView, chosen: list[DataFile]) -> None:
    removed = [content_file_of(file, view.metadata) for file in chosen]
    try:
        rows = read_files(view, removed)
    except FileNotFoundError:
        return  # nobody deletes files in the demo; on a table with expiry this is how a stale plan shows
    path, stats = write_file(view, rows, prefix=actor.name)
    added = data_files_from_parquet([str(path)], view)
    assert view.metadata.current_snapshot_id is not None
    started = time.monotonic()
    ticket = actor.client.replace(
        TABLE,
        removed=removed,
        added=added,
        base_snapshot_id=view.metadata.current_snapshot_id,
        writer=actor.name,
        priority="maintenance",
    )
    actor.tell(
        Sent(ticket, started=started),
        operation="replace",
        added={added[0].file_path: stats},
        removed=[file.file_path for file in removed],
    )


def run_deleter(actor: Actor) -> None:
    """Delete a few whole files at a time."""
    while actor.goes_on:
        view = actor.view()
        files = actor.live_files(view)
        if len(files) < 20:
            time.sleep(0.2)
            continue
        chosen: list[ContentFile] = [
            content_file_of(file, view.metadata) for file in actor.rng.sample(files, actor.rng.randrange(1, 4))
        ]
        started = time.monotonic()
        ticket = actor.client.delete_files(
            TABLE, chosen, base_snapshot_id=view.metadata.current_snapshot_id or 0, writer=actor.name
        )
        removed = [file.file_path for file in chosen]
        actor.tell(Sent(ticket, started=started), operation="delete-files", removed=removed)
        time.sleep(actor.rng.uniform(0.3, 0.9))


ROLES: Final[dict[Role, Callable[[Actor], None]]] = {  # Spark is a program of its own (`spark_part`)
    "writer": run_writer,
    "compactor": run_compactor,
    "deleter": run_deleter,
}


def main(arguments: Sequence[str]) -> None:
    """``actors.py ROLE NUMBER REDIS_URL SECONDS PARENT``."""
    name, number, redis_url, seconds, parent = arguments
    end_with(int(parent))
    role = next(role for role in ROLES if role == name)
    actor = Actor(role, int(number), redis_url=redis_url, seconds=float(seconds))
    try:
        ROLES[role](actor)
    finally:
        actor.client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
