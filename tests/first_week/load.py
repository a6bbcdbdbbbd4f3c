"""Mixed load from one process of users' code: a program for `tests.first_week`, run as ``load.py '<Plan as JSON>'``.

It runs in the environment that firn was installed into, and imports nothing that is not there. Eight writers append, a
job corrects what it has appended, another deletes old files, one job does what is refused, and one adds a column. Each
outcome is one line of JSON on standard output. Once there is a file called `until`, all end with what they are at.
"""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn import (
    Client,
    Committed,
    ContentFile,
    FirnError,
    Rejected,
    TableView,
    Ticket,
    arrow_schema,
    data_files_from_parquet,
)

ORDERS: Final = "shop.orders"
CLICKS: Final = "shop.clicks"
AUDIT: Final = "ops.audit_log"
TABLES: Final = (ORDERS, CLICKS, AUDIT)

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "ts", "type": "timestamptz", "required": True},
        {"id": 3, "name": "writer", "type": "string", "required": False},
        {"id": 4, "name": "amount", "type": "double", "required": False},
        {"id": 5, "name": "version", "type": "int", "required": True},
    ],
}
SPEC: Final[dict[str, Any]] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"}],
}

DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""Of every row, so that one compacted file has one partition."""

ROWS: Final = 200
"""Of a file: some five kilobytes, as writers have that commit every half second."""

ID_STRIDE: Final = 1_000_000_000
"""Row ids of one writer; another's begin at the next multiple."""

APPENDERS: Final = (ORDERS, ORDERS, ORDERS, CLICKS, CLICKS, CLICKS, AUDIT, AUDIT)
CORRECTIONS: Final = "corrections"

SHARES: Final = {"append": 0.85, "correct": 0.05, "delete": 0.05, "refused": 0.05}
"""Of the rate, in rounds; a round of corrections is two commits, one of refused wishes none."""

DELETED_AT_ONCE: Final = 5
VIEW_S: Final = 20.0
"""How long a writer describes its files for a table as it has seen it."""

PATIENCE_S: Final = 180.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the load is. Writers are numbered from `first`; `keep_s` is how old files are when they are deleted.

    `create`: the tables are not there yet, and are made with these `properties`. `column_at`: when (Unix time) they get
    another column.
    """

    redis_url: str
    rate: float
    until: str
    first: int = 0
    keep_s: float = 60.0
    create: bool = False
    properties: dict[str, str] = {}
    column_at: float | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one wish: how long it took, when it came, and which files (by their first row id) it changed.

    `added` are pairs of a first row id and the version of its rows; `meant` is whether it was meant to be refused.
    """

    writer: str
    operation: str
    table: str
    status: str
    seconds: float
    at: float
    rule: str = ""
    message: str = ""
    meant: bool = False
    added: list[tuple[int, int]] = []
    removed: list[int] = []


class File(msgspec.Struct, frozen=True):
    """A data file that a writer has made."""

    first: int
    version: int
    path: str
    described: tuple[ContentFile, ...]
    at: float


class Load:
    """What the jobs of one process share."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._lock = threading.Lock()
        self.old_clicks: deque[File] = deque()

    @property
    def ended(self) -> bool:
        """Whether nothing is to be begun any more."""
        return Path(self.plan.until).exists()

    def rounds(self, share: float) -> Iterator[int]:
        """Yield numbers at a share of the rate; what falls behind is not made up for."""
        every_s = 1 / (self.plan.rate * share)
        at, number = time.monotonic() + random.uniform(0, every_s), 0
        while True:
            time.sleep(max(0.0, min(every_s, at - time.monotonic())))
            if self.ended:
                return
            if time.monotonic() >= at:
                yield number
                number += 1
                at = max(at + every_s, time.monotonic())

    def asks(
        self, writer: str, operation: str, table: str, submit: Callable[[], Ticket], *, added: tuple[File, ...] = (),
        removed: tuple[File, ...] = (), meant: bool = False,
    ) -> Any:  # fmt: skip
        """Submit a wish, wait for its outcome, and print it."""
        began = time.monotonic()
        answer = submit().result(PATIENCE_S)
        status = "committed" if isinstance(answer, Committed) else "unknown"
        rule = message = ""
        if isinstance(answer, Rejected):
            status, rule, message = "rejected", answer.rule, answer.message
        told = Told(
            writer=writer, operation=operation, table=table, status=status, seconds=time.monotonic() - began,
            at=time.time(), rule=rule, message=message, meant=meant,
            added=[(file.first, file.version) for file in added], removed=[file.first for file in removed],
        )  # fmt: skip
        with self._lock:
            sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
            sys.stdout.buffer.flush()
        return answer


class Writer:
    """A client of its own that writes files for one table."""

    def __init__(self, load: Load, name: str, number: int, table: str) -> None:
        self.load = load
        self.name = name
        self.table = table
        self.client = Client(load.plan.redis_url)
        self._next = (load.plan.first + number) * ID_STRIDE
        self._view: TableView | None = None
        self._seen_at = 0.0

    def view(self) -> TableView:
        """The table as it was some seconds ago."""
        if self._view is None or time.monotonic() - self._seen_at > VIEW_S:
            self._view, self._seen_at = self.client.table(self.table), time.monotonic()
        return self._view

    def new_file(self) -> File:
        """A file of rows that nobody has written before."""
        self._next += ROWS
        return self.file(self._next - ROWS, version=0)

    def file(self, first: int, *, version: int) -> File:
        """A file of these rows."""
        view = self.view()
        schema = arrow_schema(view.schema)
        columns: dict[str, list[Any]] = {
            "id": list(range(first, first + ROWS)),
            "ts": [DAY + timedelta(seconds=second) for second in range(ROWS)],
            "writer": [self.name] * ROWS,
            "amount": [random.random() for _ in range(ROWS)],
            "version": [version] * ROWS,
        }
        rows = {name: columns.get(name, [None] * ROWS) for name in schema.names}
        path = Path(view.location) / "data" / f"{self.name}-{uuid.uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows, schema=schema), path)
        return File(first, version, str(path), tuple(data_files_from_parquet([path], view)), time.monotonic())

    def append(self, file: File) -> Any:
        """Append a file."""
        return self.load.asks(
            self.name, "append", self.table,
            partial(self.client.append, self.table, file.described, writer=self.name), added=(file,),
        )  # fmt: skip


def append_on(writer: Writer) -> None:
    """Append a file a round."""
    for _ in writer.load.rounds(SHARES["append"] / len(APPENDERS)):
        file = writer.new_file()
        if isinstance(writer.append(file), Committed) and writer.table == CLICKS:
            writer.load.old_clicks.append(file)


def correct_on(writer: Writer) -> None:
    """Append a file, and put corrected rows in its place."""
    for _ in writer.load.rounds(SHARES["correct"]):
        file = writer.new_file()
        appended = writer.append(file)
        if not isinstance(appended, Committed):
            continue
        better = writer.file(file.first, version=1)
        writer.load.asks(
            writer.name, "overwrite", writer.table,
            partial(
                writer.client.overwrite, writer.table, base_snapshot_id=appended.snapshot_id, removed=[file.path],
                added=better.described, conflict_filter=f"writer = '{writer.name}'", writer=writer.name,
            ),
            added=(better,), removed=(file,),
        )  # fmt: skip


def delete_on(writer: Writer) -> None:
    """Delete the oldest files of the clicks, some at once."""
    old = writer.load.old_clicks
    for _ in writer.load.rounds(SHARES["delete"]):
        some: list[File] = []
        while old and len(some) < DELETED_AT_ONCE and time.monotonic() - old[0].at > writer.load.plan.keep_s:
            some.append(old.popleft())
        if some:
            writer.load.asks(
                writer.name, "delete-files", CLICKS,
                partial(writer.client.delete_files, CLICKS, [file.path for file in some], writer=writer.name),
                removed=tuple(some),
            )  # fmt: skip


def wish_on(writer: Writer) -> None:
    """Ask for what every team asks for once: each is refused, and changes nothing."""
    client, table = writer.client, writer.table
    live = writer.new_file()
    writer.append(live)
    gone = str(Path(writer.view().location) / "data" / "never-written.parquet")
    wishes: tuple[tuple[str, Callable[[], Ticket]], ...] = (
        ("create-table", partial(client.create_table, table, SCHEMA, writer=writer.name)),
        ("delete-files", partial(client.delete_files, table, [gone], writer=writer.name)),
        ("append", partial(client.append, table, live.described, writer=writer.name)),
        ("update-schema", client.update_schema(table, base=writer.view()).drop_column("no_such_column").submit),
        ("drop-table", partial(client.drop_table, "shop.no_such_table", writer=writer.name)),
    )
    for number in writer.load.rounds(SHARES["refused"]):
        operation, submit = wishes[number % len(wishes)]
        writer.load.asks(writer.name, operation, table, submit, meant=True)


def change_schema(writer: Writer) -> None:
    """Add a column when it is time, while the others write."""
    at = writer.load.plan.column_at
    if at is None:
        return
    while time.time() < at:
        if writer.load.ended:
            return
        time.sleep(0.2)
    for table in TABLES:
        more = writer.client.update_schema(table, base=writer.client.table(table)).add_column("note", "string")
        writer.load.asks(writer.name, "update-schema", table, more.submit)


def patiently(job: Callable[[Writer], None], writer: Writer) -> None:
    """Do a job; go on with it when a server does not answer a question. Intents are the client's business."""
    while True:
        try:
            return job(writer)
        except FirnError as error:
            print(f"{writer.name}: {error}", file=sys.stderr, flush=True)
            time.sleep(1)


def main() -> int:
    """Run all jobs until they are to end; 1 when one broke off."""
    load = Load(msgspec.json.decode(sys.argv[1], type=Plan))
    pa.set_cpu_count(1)
    if load.plan.create:
        with Client(load.plan.redis_url) as client:
            for table in TABLES:
                client.create_table(table, SCHEMA, partition_spec=SPEC, properties=load.plan.properties).committed(60)
    jobs: list[tuple[Callable[[Writer], None], str, str]] = [
        *((append_on, f"{table.rpartition('.')[2]}-{number}", table) for number, table in enumerate(APPENDERS)),
        (correct_on, CORRECTIONS, ORDERS),
        (delete_on, "retention", CLICKS),
        (wish_on, "newcomer", AUDIT),
        (change_schema, "modeller", ORDERS),
    ]
    broken: list[str] = []

    def run(job: Callable[[Writer], None], writer: Writer) -> None:
        try:
            patiently(job, writer)
        except Exception:  # noqa: BLE001 - the others go on, and it is reported at the end
            traceback.print_exc()
            broken.append(writer.name)
        finally:
            writer.client.close()

    threads = [
        threading.Thread(target=run, args=(job, Writer(load, name, number, table)))
        for number, (job, name, table) in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
