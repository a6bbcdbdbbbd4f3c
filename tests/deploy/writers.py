"""Writers at work on several tables through whatever is broken: what they were told, and the proof that it is true."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from firn import Client, Committed, Rejected, arrow_schema, data_files_from_parquet
from firn.model.errors import FirnError

SCHEMA: Final[dict[str, Any]] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "writer", "type": "string", "required": False},
    ],
}
ROWS: Final = 10
PAUSE_S: Final = 0.25
PATIENCE_S: Final = 120.0
ID_STRIDE: Final = 1_000_000


class Appended(msgspec.Struct, frozen=True):
    """An append that was answered: its rows' ids begin with `first`."""

    table: str
    first: int
    answer: Any


class Writers:
    """One thread a writer, each appending to its table; they are numbered from `first`, and so are their rows.

    ``with`` ends them, and waits for the last answers.
    """

    def __init__(self, url: str, tables: Sequence[str], *, first: int = 0) -> None:
        self.appended: list[Appended] = []
        self.refusals: Counter[str] = Counter()
        self._client = Client(url, resubmit_after_s=2.0)
        self._stop = threading.Event()
        self.count = len(tables)
        self._threads = [
            threading.Thread(target=self._write, args=(table, f"writer-{number}", number * ID_STRIDE))
            for number, table in enumerate(tables, start=first)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def committed(self, table: str) -> list[int]:
        """Ids of every row of a table that a writer was told is committed."""
        found = [a.first for a in list(self.appended) if a.table == table and isinstance(a.answer, Committed)]
        return sorted(first + offset for first in found for offset in range(ROWS))

    def _write(self, table: str, writer: str, first: int) -> None:
        while not self._stop.wait(PAUSE_S):
            try:
                view = self._client.table(table)
                path = written(Path(view.location) / "data", view.schema, writer=writer, first=first)
                files = data_files_from_parquet([path], view)
            except (FirnError, OSError) as error:  # no place, no Redis: nothing was submitted
                self.refusals[type(error).__name__] += 1
                continue
            answer = self._client.append(table, files, writer=writer).result(PATIENCE_S)
            if isinstance(answer, Rejected):
                self.refusals[answer.rule] += 1
            self.appended.append(Appended(table=table, first=first, answer=answer))
            first += ROWS


def written(folder: Path, schema: Any, *, writer: str, first: int) -> Path:
    """A new Parquet file of `ROWS` rows; none is left behind where there is no room for it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid.uuid4()}.parquet"
    rows = {"id": list(range(first, first + ROWS)), "writer": [writer] * ROWS}
    try:
        pq.write_table(pa.table(rows, schema=arrow_schema(schema)), path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def check_rows(all_writers: Sequence[Writers], table: str, *, metadata_location: str) -> int:
    """PyIceberg reads every row that somebody was told is committed, once, and no other; how many."""
    appended = [one for writers in all_writers for one in writers.appended if one.table == table]
    unknown = [one for one in appended if not isinstance(one.answer, Committed | Rejected)]
    assert unknown == [], "somebody was never told"
    scan = StaticTable.from_metadata(metadata_location).scan(selected_fields=("id",))
    ids = sorted(scan.to_arrow().column("id").to_pylist())
    committed = sorted(row for writers in all_writers for row in writers.committed(table))
    assert ids == committed, f"{len(ids)} rows are there, {len(committed)} were committed"
    return len(ids)


def wait_for_commits(writers: Writers, tables: Sequence[str], *, timeout_s: float = 60.0) -> None:
    """Wait until something that is appended from now on is committed to each of these tables."""
    before = {table: len(writers.committed(table)) for table in tables}
    ends_at = time.monotonic() + timeout_s
    while behind := [table for table in tables if len(writers.committed(table)) <= before[table]]:
        assert time.monotonic() < ends_at, f"nothing is committed to {behind}; {writers.refusals}"
        time.sleep(0.1)
