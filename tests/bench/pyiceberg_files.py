"""The peer on a table of many files: PyIceberg appends a thousand a commit, and deletes named ones.

As a program: ``-m tests.bench.pyiceberg_files '<Plan as JSON>'``, a process of its own for each plan, so that nothing
is cached but what the plan itself has read.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import msgspec
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from tests.bench import pyiceberg_peer
from tests.bench.data_files import make_facts

VARIETY = 256


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """First `appends` of `batch` files each to a new table, if any; then a delete for each of `deletes`.

    A delete is a range of numbers of files. `patched`: as in `pyiceberg_peer`.
    """

    folder: str
    appends: int = 0
    batch: int = 1000
    deletes: list[tuple[int, int]] = []
    patched: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What the appends took together, and each delete."""

    append_s: float
    delete_ms: list[float]


def run(plan: Plan) -> Result:
    """Do it. Opening the table counts as part of the first delete, where nothing was appended."""
    if plan.patched:
        pyiceberg_peer.copy_no_metadata_deeply()
    folder, append_s, started = Path(plan.folder), 0.0, time.monotonic()
    if plan.appends:
        table = pyiceberg_peer.create_table(folder)
        made = _files(table, plan.appends * plan.batch)
        started = time.monotonic()
        for first in range(0, len(made), plan.batch):
            append_all(table, made[first : first + plan.batch])
        append_s = time.monotonic() - started
        started = time.monotonic()
    else:
        table = pyiceberg_peer.open_catalog(folder).load_table(pyiceberg_peer.TABLE)
    took: list[float] = []
    for first, last in plan.deletes:
        files = _files(table, last, first=first)
        if took or plan.appends:
            started = time.monotonic()
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
            for file in files:
                update.delete_data_file(file)
        took.append((time.monotonic() - started) * 1000)
    return Result(append_s=append_s, delete_ms=took)


def append_all(table: Table, files: list[DataFile]) -> None:
    """Many files, one snapshot."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        for file in files:
            update.append_data_file(file)


def _files(table: Table, last: int, *, first: int = 0) -> list[DataFile]:
    rng = random.Random("files")
    facts = [make_facts(rng) for _ in range(VARIETY)]
    return [
        pyiceberg_peer.data_file(facts[n % VARIETY], f"{table.location()}/data/{n:08d}.parquet")
        for n in range(first, last)
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(run(msgspec.json.decode(sys.argv[1], type=Plan))))
