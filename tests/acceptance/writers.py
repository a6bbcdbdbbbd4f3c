"""Many writer processes: a program for tests, run as ``writers.py '<WriterPlan as JSON>'``.

Importing Arrow fifty times would take most of a test's time, so this process imports once and forks; every writer is
a process of its own, with its own client. Each outcome is reported as one line on standard output, when it is told.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import time
import traceback
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from firn.coordinator.client.data_files import data_files_from_parquet
from firn.coordinator.client.sync_client import Client, Ticket
from firn.coordinator.client.table_view import TableView
from firn.model.outcome import Committed, Rejected
from firn.storage.local_files import LocalFiles
from firn.storage.parquet_schema import arrow_schema

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
ID_STRIDE = 1_000_000
"""Row ids of one writer; another's begin at the next multiple."""


class WriterPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the writers are to do. `pause_s` is about how long each rests after each append.

    Once there is a file called `until`, each ends with the append it is at.
    """

    redis_url: str
    table: str
    metadata_location: str
    writers: int = 50
    appends: int = 20
    rows: int = 10
    in_flight: int = 1
    pause_s: float = 0.0
    seed: float = 0
    resubmit_after_s: float = 1.0
    timeout_s: float = 90.0
    until: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer was told of one append, and what it had appended. `at` and `sent_at` are the monotonic clock's."""

    writer: int
    intent_id: str
    file: str
    rows: int
    id_sum: int
    status: str
    message: str = ""
    snapshot_id: int | None = None
    sequence_number: int | None = None
    attempts: int
    sent_at: float
    at: float


def write(plan: WriterPlan, number: int) -> None:
    """The life of one writer."""
    rng = random.Random(f"{plan.seed}/{number}")
    view = TableView.from_metadata(plan.metadata_location, LocalFiles(), name=plan.table)
    out: deque[tuple[Ticket, Told]] = deque()
    with Client(plan.redis_url, resubmit_after_s=plan.resubmit_after_s) as client:
        for turn in range(plan.appends):
            if plan.until is not None and Path(plan.until).exists():
                break
            file, id_sum = _write_file(plan, view, number, turn, rng=rng)
            files = data_files_from_parquet([file], view)
            sent_at = time.monotonic()
            ticket = client.append(plan.table, files, writer=f"writer-{number}")
            out.append((ticket, Told(
                writer=number, intent_id=ticket.intent_id, file=str(file), rows=plan.rows, id_sum=id_sum,
                status="unknown", attempts=0, sent_at=sent_at, at=0,
            )))  # fmt: skip
            if len(out) >= plan.in_flight:
                _tell(*out.popleft(), timeout_s=plan.timeout_s)
            if plan.pause_s:
                time.sleep(rng.uniform(0, 2 * plan.pause_s))
        while out:
            _tell(*out.popleft(), timeout_s=plan.timeout_s)


def _write_file(plan: WriterPlan, view: TableView, number: int, turn: int, *, rng: random.Random) -> tuple[Path, int]:
    first = number * ID_STRIDE + turn * plan.rows
    ids = list(range(first, first + plan.rows))
    day = FIRST_DAY + timedelta(days=rng.randrange(3))
    columns = {
        "id": ids,
        "ts": [day + timedelta(microseconds=rng.randrange(86_400_000_000)) for _ in ids],
        "writer": [f"writer-{number}"] * plan.rows,
    }
    path = Path(view.location) / "data" / f"{number:02d}-{turn:04d}-{rng.randbytes(4).hex()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=arrow_schema(view.schema)), path)
    return path, sum(ids)


def _tell(ticket: Ticket, told: Told, *, timeout_s: float) -> None:
    answer = ticket.result(timeout_s)
    told = msgspec.structs.replace(told, at=time.monotonic(), attempts=ticket._waiting.attempts)
    match answer:
        case Committed():
            told = msgspec.structs.replace(
                told, status="committed", snapshot_id=answer.snapshot_id, sequence_number=answer.sequence_number
            )
        case Rejected():
            told = msgspec.structs.replace(told, status="rejected", message=f"{answer.rule}: {answer.message}")
        case _:
            told = msgspec.structs.replace(told, message=answer.reason)
    os.write(1, msgspec.json.encode(told) + b"\n")  # one write: lines of several processes do not mix


def main() -> int:
    """Fork the writers and wait for them; 1 if any failed."""
    plan = msgspec.json.decode(sys.argv[1], type=WriterPlan)
    pa.set_cpu_count(1)
    pa.table({"warm": [FIRST_DAY]})  # imports all that Arrow converts Python values with
    gc.freeze()  # or every child's first collection copies the parent's memory
    children = []
    for number in range(plan.writers):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                write(plan, number)
                code = 0
            except BaseException:  # noqa: BLE001 - a forked child must not return into the parent's code
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
