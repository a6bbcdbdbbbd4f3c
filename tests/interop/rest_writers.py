"""Writers that race on one table through a REST catalog, each in a process of its own, with its client's retries off.

Processes are forked from a server that has imported this module: importing PyIceberg costs more than an append.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Final

import duckdb
import duckdb_extension_httpfs
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from tests.interop.readers import duckdb_connection

START_S: Final = 90.0
RACE_S: Final = 240.0
ROWS_PER_APPEND: Final = 3
SCHEMA: Final = pa.schema([pa.field("id", pa.int64()), pa.field("writer", pa.string())])
NO_RETRIES: Final = {"commit.retry.num-retries": "0"}

Writer = Callable[[str, str, int, int], None]
"""Catalog, table, number of the writer, appends."""


def race(write: Writer, uri: str, table: str, *, writers: int, appends: int) -> list[int]:
    """Let the writers append at once; the ids of all rows that they wrote. Raises the first writer's error, if any."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier = context.Barrier(writers)
    with ProcessPoolExecutor(writers, mp_context=context, initializer=_wait, initargs=(barrier,)) as pool:
        running = [pool.submit(write, uri, table, writer, appends) for writer in range(writers)]
        for one in running:
            one.result(RACE_S)
    return [row for writer in range(writers) for turn in range(appends) for row in ids(writer, turn)]


def ids(writer: int, turn: int) -> range:
    """Ids of the rows of one append; no two appends share any."""
    first = (writer * 1000 + turn) * ROWS_PER_APPEND
    return range(first, first + ROWS_PER_APPEND)


def append_with_pyiceberg(uri: str, table: str, writer: int, appends: int) -> None:
    """Load the table once: every append is based on what this writer knows, never on what is newest."""
    loaded = RestCatalog("race", uri=uri).load_table(table)
    for turn in range(appends):
        loaded.append(pa.table({"id": list(ids(writer, turn)), "writer": [str(writer)] * ROWS_PER_APPEND}, SCHEMA))


def insert_with_duckdb(uri: str, table: str, writer: int, appends: int) -> None:
    """One INSERT after the other, each a transaction of its own."""
    connection = attached_duckdb(uri)
    for turn in range(appends):
        rows = ", ".join(f"({row}, '{writer}')" for row in ids(writer, turn))
        connection.execute(f"INSERT INTO lake.{table} VALUES {rows}")


def append_with_either(uri: str, table: str, writer: int, appends: int) -> None:
    """Every second writer is a DuckDB."""
    (insert_with_duckdb if writer % 2 else append_with_pyiceberg)(uri, table, writer, appends)


def load_httpfs() -> duckdb.DuckDBPyConnection:
    """DuckDB with all that its REST client needs."""
    connection = duckdb_connection()
    folder = Path(duckdb_extension_httpfs.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    connection.execute(f"LOAD '{folder / 'httpfs'}.duckdb_extension'")
    return connection


def attached_duckdb(uri: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with the catalog attached as ``lake``."""
    connection = load_httpfs()
    connection.execute(f"ATTACH IF NOT EXISTS '' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    return connection


def _wait(barrier: Barrier) -> None:
    barrier.wait(START_S)
