"""The peer: PyIceberg with a SQL catalog on SQLite, appending files that exist already, one a commit.

It gets what favours it: fast append (no merging), no check for duplicates, no upload of data, and it does not sync its
files to disk. As a program (``-m tests.bench.pyiceberg_peer '<Plan as JSON>'``) it is N processes on one table.
"""

from __future__ import annotations

import logging
import multiprocessing
import random
import sys
import time
import uuid
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import msgspec
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV1, TableMetadataV2, TableMetadataV3
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, StringType, TimestamptzType
from sqlalchemy.exc import OperationalError

from tests.bench.data_files import COLUMNS, TS_ID, FileFacts, make_facts

TABLE = "bench.peer"
LOCKED_S = 60
"""How long a process waits for SQLite's lock."""

_TYPES: dict[str, type[IcebergType]] = {
    "long": LongType, "double": DoubleType, "string": StringType, "timestamptz": TimestamptzType,
}  # fmt: skip

RETRIES = {
    "commit.retry.num-retries": "1000",
    "commit.retry.min-wait-ms": "10",
    "commit.retry.max-wait-ms": "1000",
}
"""Its own retries, more of them and sooner than by default: by default most writers give up."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes do; the first `warm_up_s` are not measured. `patched`: without its copies of metadata."""

    folder: str
    writers: int
    seconds: float
    warm_up_s: float = 1.0
    patched: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Commits within the measured time, the latency of each, and swaps tried for all commits."""

    seconds: float
    committed: int
    latencies_ms: list[float]
    attempts: int
    all_committed: int
    gave_up: int

    @property
    def rate(self) -> float:
        """Commits a second."""
        return self.committed / self.seconds


def open_catalog(folder: Path) -> SqlCatalog:
    """The catalog in a folder."""
    return SqlCatalog("peer", uri=f"sqlite:///{folder}/catalog.db?timeout={LOCKED_S}", warehouse=f"file://{folder}")


def create_table(folder: Path) -> Table:
    """The table, empty, in a catalog of its own."""
    folder.mkdir(parents=True)
    catalog = open_catalog(folder)
    catalog.create_namespace("bench")
    schema = Schema(*(NestedField(n, name, _TYPES[type_]()) for n, (name, type_) in enumerate(COLUMNS.items(), 1)))
    spec = PartitionSpec(PartitionField(TS_ID, 1000, DayTransform(), "ts_day"))
    return catalog.create_table(TABLE, schema, partition_spec=spec, properties=RETRIES)


def data_file(facts: FileFacts, path: str) -> DataFile:
    """The file as PyIceberg's manifests hold it."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(facts.day),
        record_count=facts.records,
        file_size_in_bytes=facts.size,
        column_sizes=facts.column_sizes,
        value_counts=facts.value_counts,
        null_value_counts=facts.null_counts,
        nan_value_counts=facts.nan_counts,
        lower_bounds=facts.lower,
        upper_bounds=facts.upper,
        split_offsets=[4],
    )
    file.spec_id = 0
    return file


def append(table: Table, file: DataFile) -> None:
    """One file, one snapshot; `table` is as it was after."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(file)


def copy_no_metadata_deeply() -> None:
    """Patch most of its own cost out: each attempt copies the whole metadata object, with all snapshots in it."""
    for kind in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        copied = kind.model_copy

        def shallow(self: Any, *, copied: Any = copied, deep: bool = False, **named: Any) -> Any:
            return copied(self, **named)

        kind.model_copy = shallow  # type: ignore[method-assign]


def _write(plan: Plan, number: int, start: Barrier, results: SimpleQueue[Any]) -> None:
    rng = random.Random(f"peer/{number}")
    facts = [make_facts(rng) for _ in range(16)]
    table = open_catalog(Path(plan.folder)).load_table(TABLE)
    attempts = _count_attempts(table)
    start.wait()
    measure_from = time.monotonic() + plan.warm_up_s
    ends_at = measure_from + plan.seconds
    latencies: list[float] = []
    done = gave_up = 0
    while (started := time.monotonic()) < ends_at:
        file = data_file(facts[done % len(facts)], f"{table.location()}/data/{uuid.uuid4().hex}.parquet")
        while True:
            try:
                append(table, file)
                break
            except (CommitFailedException, OperationalError):
                gave_up += 1
                table.refresh()
        done += 1
        now = time.monotonic()
        if measure_from <= now < ends_at:
            latencies.append((now - started) * 1000)
    results.put((latencies, done, gave_up, attempts[0]))


def _count_attempts(table: Table) -> list[int]:
    count, commit = [0], table._do_commit

    def counted(*arguments: Any, **named: Any) -> None:
        count[0] += 1
        commit(*arguments, **named)

    table._do_commit = counted  # type: ignore[method-assign]
    return count


def main() -> None:
    """Fork the writers, once everything is imported, and print what they did."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    if plan.patched:
        copy_no_metadata_deeply()
    create_table(Path(plan.folder))
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(plan.writers), context.SimpleQueue()
    processes = [context.Process(target=_write, args=(plan, n, start, results)) for n in range(plan.writers)]
    for process in processes:
        process.start()
    told = [results.get() for _ in processes]
    for process in processes:
        process.join()
    latencies = [latency for one in told for latency in one[0]]
    result = Result(
        seconds=plan.seconds, committed=len(latencies), latencies_ms=latencies, attempts=sum(one[3] for one in told),
        all_committed=sum(one[1] for one in told), gave_up=sum(one[2] for one in told),
    )  # fmt: skip
    sys.stdout.buffer.write(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
