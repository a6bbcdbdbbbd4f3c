"""The benchmarks: ``python -m tests.bench [ROW …]``. See ``docs/benchmarks.md``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence

import msgspec
from rich.console import Console

from tests.bench.backlog import backlog_batching_peer, backlog_encoded, backlog_json
from tests.bench.client_echo import client_echo
from tests.bench.commands import commands
from tests.bench.cost_growth import cost_growth
from tests.bench.echo_ceiling import writers_64_echo
from tests.bench.floors import floors
from tests.bench.folder import wait_for_inodes
from tests.bench.foreign_commit import foreign_commit
from tests.bench.ids_ahead import ids_ahead
from tests.bench.install import install
from tests.bench.java_writers import writers_16_java
from tests.bench.many_tables import memory_1000_tables, tables_64
from tests.bench.many_writers import writers_16
from tests.bench.measurement import Measurement, commit, not_measured, notes_of, table_of
from tests.bench.metadata_bytes import metadata_bytes
from tests.bench.named_files import delete_100_of_100k_cold, delete_100_of_100k_warm
from tests.bench.one_writer import one_writer
from tests.bench.options import Options
from tests.bench.path_index import path_index_bytes
from tests.bench.restarted import writers_64_restarted
from tests.bench.slow_store import slow_store
from tests.bench.snapshots_per_swap import snapshots_per_swap
from tests.bench.soak import soak
from tests.bench.spark_pipeline import spark_delete_dv, spark_read_one_column, spark_write, spark_write_partitioned
from tests.bench.stages import stages
from tests.bench.takeover import takeover

ROWS: dict[str, Callable[[Options], list[Measurement]]] = {
    "one-writer": one_writer,
    "writers-16": writers_16,
    "writers-16-java": writers_16_java,
    "writers-64-echo": writers_64_echo,
    "client-echo": client_echo,
    "backlog-json": backlog_json,
    "backlog-encoded": backlog_encoded,
    "backlog-batching-peer": backlog_batching_peer,
    "snapshots-per-swap": snapshots_per_swap,
    "slow-store": slow_store,
    "delete-100-of-100k-warm": delete_100_of_100k_warm,
    "delete-100-of-100k-cold": delete_100_of_100k_cold,
    "cost-growth": cost_growth,
    "foreign-commit": foreign_commit,
    "path-index-bytes": path_index_bytes,
    "ids-ahead": ids_ahead,
    "metadata-bytes": metadata_bytes,
    "tables-64": tables_64,
    "memory-1000-tables": memory_1000_tables,
    "stages": stages,
    "takeover": takeover,
    "commands": commands,
    "writers-64-restarted": writers_64_restarted,
    "floors": floors,
    "install": install,
    "soak": soak,
    "spark-write-10m": spark_write,
    "spark-write-partitioned": spark_write_partitioned,
    "spark-read-one-column": spark_read_one_column,
    "spark-delete-dv": spark_delete_dv,
}

TABLE_WIDTH = 110
"""Characters that the table takes where output is no terminal."""


def main(arguments: Sequence[str]) -> int:
    """Run rows and print them; 1 when one could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=Options().seconds, help="of each closed loop (%(default)g)")
    parser.add_argument("--intents", type=int, default=Options().intents, help="in the backlog (%(default)s)")
    parser.add_argument("--files", type=int, default=Options().files, help="in a large table (%(default)s)")
    parser.add_argument(
        "--rows", type=int, default=Options().rows, dest="spark_rows", help="through Spark (%(default)s)"
    )
    parser.add_argument("--minutes", type=float, default=Options().minutes, help="of the soak (%(default)g)")
    parser.add_argument("--json", action="store_true", help="only the JSON lines, no table")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    unknown = [row for row in chosen.rows if row not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if chosen.seconds <= 0 or min(chosen.intents, chosen.spark_rows) < 1 or chosen.files < 10_000:
        parser.error("--seconds, --intents and --rows must be more than nothing, --files 10000 or more")
    if chosen.minutes < 1:
        parser.error("--minutes must be 1 or more")
    progress = Console(stderr=True)
    progress.print(f"measuring {commit()}", highlight=False)
    options = Options(
        seconds=chosen.seconds, intents=chosen.intents, files=chosen.files, rows=chosen.spark_rows,
        minutes=chosen.minutes,
    )  # fmt: skip
    done: list[Measurement] = []
    wait_for_inodes()
    for row in chosen.rows or ROWS:
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        progress.print(f"{row} …  (load {load})", highlight=False)
        done += _measure(row, options)
    if not chosen.json:
        console = Console()
        console.width = max(console.width, TABLE_WIDTH)
        console.print(table_of(done))
        for note in notes_of(done):
            console.print(note, markup=False, highlight=False, soft_wrap=True)
    for measurement in done:
        print(msgspec.json.encode(measurement).decode())
    return int(any(measurement.error for measurement in done))


def _measure(row: str, options: Options) -> list[Measurement]:
    """One row; what goes wrong in it is said in its place."""
    try:
        return ROWS[row](options)
    except Exception as error:  # noqa: BLE001 - the other rows are measured all the same
        traceback.print_exc()
        return [not_measured(row, f"{type(error).__name__}: {error}"[:500])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
