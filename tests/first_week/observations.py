"""What is measured of a deployment from outside: memory, disk, history, rows, alerts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Self

import msgspec
import numpy as np
import pyarrow.dataset as ds
from pyiceberg.table import StaticTable

from tests.deploy.prometheus import ask
from tests.first_week.deployment import Daemon
from tests.first_week.load import ROWS, Told

SAMPLE_S: Final = 3.0
MEGABYTE: Final = 1_000_000


class Size(msgspec.Struct):
    """Files of one kind."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one more."""
        self.files += 1
        self.bytes += size

    def __str__(self) -> str:
        return f"{self.bytes / MEGABYTE:,.1f} MB in {self.files:,} files"


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a warehouse, by kind."""

    data: Size
    metadata: Size
    manifests: Size
    journal: Size
    others: Size

    @property
    def beside_data(self) -> int:
        """Bytes of all that is not data."""
        return self.metadata.bytes + self.manifests.bytes + self.journal.bytes + self.others.bytes


def disk_of(warehouse: Path) -> Disk:
    """Walk a warehouse while it is written to; what goes meanwhile is not counted."""
    found = Disk(data=Size(), metadata=Size(), manifests=Size(), journal=Size(), others=Size())
    for folder, _, names in os.walk(warehouse):
        inside = Path(folder).relative_to(warehouse).parts
        for name in names:
            try:
                size = Path(folder, name).stat().st_size
            except FileNotFoundError:
                continue
            kind_of(found, inside, name).add(size)
    return found


def kind_of(disk: Disk, folder: Sequence[str], name: str) -> Size:
    """Return which kind a file is of."""
    if "data" in folder:
        return disk.data
    if "_journal" in folder or "journal" in folder:
        return disk.journal
    if name.endswith(".metadata.json"):
        return disk.metadata
    return disk.manifests if name.endswith(".avro") else disk.others


def size_below(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Memory:
    """The most that daemons held, each with its processes, from entering to leaving."""

    def __init__(self, daemons: Sequence[Daemon]) -> None:
        self._daemons = daemons
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory")
        self.peaks: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def forget(self) -> None:
        """Begin anew: other versions run from now on."""
        self.peaks = {}

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            for daemon in self._daemons:
                held = sum(map(proportional_bytes, with_children(daemon.pid)))
                self.peaks[daemon.name] = max(held, self.peaks.get(daemon.name, 0))


def with_children(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except OSError:  # the thread has ended
                continue
    return found


def proportional_bytes(pid: int) -> int:
    """Return a process's memory, of what it shares its share; nothing once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


class History(msgspec.Struct, frozen=True):
    """Snapshots of a table, how far back (seconds) the oldest is, and the table's metadata file in bytes."""

    snapshots: int
    reach_s: float
    metadata_bytes: int


def history_of(location: str) -> History:
    """Read a table's history as another engine does."""
    snapshots = StaticTable.from_metadata(location).snapshots()
    oldest = min((snapshot.timestamp_ms for snapshot in snapshots), default=time.time() * 1000)
    return History(len(snapshots), time.time() - oldest / 1000, Path(location).stat().st_size)


class Rows(msgspec.Struct, frozen=True):
    """Rows of a table against what writers heard: there, committed and missing, there more often or never committed."""

    there: int
    lost: int
    doubled: int
    unasked: int


def rows_of(location: str, table: str, told: Iterable[Told]) -> Rows:
    """Compare the rows that are in a table with those that its writers were told of."""
    expected = expected_versions(one for one in told if one.table == table and one.status == "committed")
    static = StaticTable.from_metadata(location)
    paths = [task.file.file_path for task in static.scan().plan_files()]
    found = np.empty((0, 2), dtype=np.int64)
    if paths:
        read = ds.dataset(paths, format="parquet").to_table(columns=["id", "version"])
        columns = [read.column(name).to_numpy().astype(np.int64) for name in ("id", "version")]
        found = np.stack(columns, axis=1)
    there = found[:, 0] * 2 + found[:, 1]
    firsts = np.array(sorted(expected), dtype=np.int64)
    versions = np.array([expected[first] for first in sorted(expected)], dtype=np.int64)
    wanted = ((firsts[:, None] + np.arange(ROWS, dtype=np.int64)) * 2 + versions[:, None]).ravel()
    unique = np.unique(there)
    return Rows(
        there=len(there),
        lost=len(np.setdiff1d(wanted, unique)),
        doubled=len(there) - len(unique),
        unasked=len(np.setdiff1d(unique, wanted)),
    )


def expected_versions(committed: Iterable[Told]) -> dict[int, int]:
    """Return the files whose rows are in the table, by their first row, with the version of their rows."""
    added: set[tuple[int, int]] = set()
    removed: dict[int, int] = {}
    for one in committed:
        added |= set(one.added)
        for first in one.removed:
            removed[first] = removed.get(first, 0) + 1
    versions: dict[int, list[int]] = {}
    for first, version in added:
        versions.setdefault(first, []).append(version)
    return {first: max(some) for first, some in versions.items() if len(some) > removed.get(first, 0)}


def alerts_fired(prometheus: str, *, minutes: float) -> dict[str, float]:
    """Return the alerts that fired at any time, with for how many minutes; without the one that always does."""
    window = f"{round(minutes * 60)}s"
    expression = f'max by (alertname) (count_over_time(ALERTS{{alertstate="firing", severity!="none"}}[{window}]))'
    every_s = 5.0
    return {
        series["metric"]["alertname"]: int(float(series["value"][1])) * every_s / 60
        for series in ask(prometheus, expression)
    }
