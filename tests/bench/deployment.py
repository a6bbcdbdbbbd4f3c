"""What a row runs on: real Redis and ZooKeeper, and one daemon, each a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from firn.coordinator.client import Client, TableView
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.model.outcome import Committed
from firn.storage.intent_streams import SHARDS_DEFAULT
from tests.bench import lean_writers
from tests.bench.daemon import FIRN_SERVE, READY_S, Daemon, running_daemon
from tests.bench.data_files import SCHEMA, SPEC
from tests.bench.folder import bench_folder
from tests.bench.measurement import PROJECT

SESSION_TIMEOUT_S = 60
"""A row may stop the daemon's clock while a queue fills."""

CREATED_AT_ONCE = 16
CREATE_S = 120.0

T = TypeVar("T")


class Deployment:
    """Servers and a daemon for one row, and a folder for whatever else it needs."""

    def __init__(self, folder: Path, *, redis_url: str, zookeeper_hosts: str, daemon: Daemon) -> None:
        self.folder = folder
        self.redis_url = redis_url
        self.zookeeper_hosts = zookeeper_hosts
        self.daemon = daemon
        self.locations: dict[str, str] = {}

    def restart(self) -> None:
        """Another daemon in the place of this one, which ends in good order."""
        self.daemon.restart()

    def client(self) -> Client:
        """A client; close it."""
        return Client(self.redis_url)

    def create_table(self, table: str, properties: Mapping[str, str] | None = None) -> TableView:
        """A new table of 20 columns, empty."""
        with self.client() as client:
            created = client.create_table(table, SCHEMA, partition_spec=SPEC, properties=properties or {}).result(
                READY_S
            )
            assert isinstance(created, Committed), created
            view = client.table(table)
        self.locations[table] = view.location
        return view

    def check_total(self, table: str, *, files: int) -> None:
        """The table has exactly the files that writers were told of."""
        with self.client() as client:
            snapshot = client.table(table).metadata.current_snapshot
        assert snapshot is not None
        assert snapshot.summary is not None
        found = int(snapshot.summary["total-data-files"])
        assert found == files, f"{files} files were committed by their outcomes, the table has {found}"

    def check_totals(self, tables: Sequence[str], *, files: int) -> None:
        """The tables have exactly so many files together."""
        found = 0
        with self.client() as client:
            for table in tables:
                snapshot = client.table(table).metadata.current_snapshot
                found += 0 if snapshot is None else int((snapshot.summary or {})["total-data-files"])
        assert found == files, f"{files} files were committed by their outcomes, the tables have {found}"

    def check_snapshots(self, table: str, *, snapshots: int) -> None:
        """The table has had exactly so many snapshots; each took a sequence number, and old ones expire meanwhile."""
        with self.client() as client:
            found = client.table(table).metadata.last_sequence_number
        assert found == snapshots, f"{snapshots} snapshots were committed by their outcomes, the table has had {found}"

    def drive(
        self, table: str, *, writers: int, seconds: float, properties: Mapping[str, str] | None = None
    ) -> lean_writers.Result:
        """Closed-loop writers on a table of their own; what they were told is checked against the table."""
        view = self.create_table(table, properties)
        result = self.drive_all([(table, view.location)], writers=writers, seconds=seconds)
        if not result.failures:
            self.check_total(table, files=result.all_committed)
        return result

    def create_tables(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """New tables and their locations, some made at once."""
        with self.client() as client:
            for first in range(0, len(names), CREATED_AT_ONCE):
                some = names[first : first + CREATED_AT_ONCE]
                made = [client.create_table(name, SCHEMA, partition_spec=SPEC) for name in some]
                outcomes = [one.result(CREATE_S) for one in made]
                assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
            location = client.table(names[0]).location
        namespace, _, short = names[0].rpartition(".")
        assert location.endswith(f"/{namespace}/{short}"), location
        warehouse = location.removesuffix(f"/{namespace}/{short}")
        return [(name, f"{warehouse}/{name.replace('.', '/')}") for name in names]

    def drive_all(
        self, tables: Sequence[tuple[str, str]], *, writers: int, seconds: float, every_s: float = 0.0
    ) -> lean_writers.Result:
        """Closed-loop writers on tables that are there, which take turns."""
        plan = lean_writers.Plan(
            redis_url=self.redis_url,
            tables=list(tables),
            shards=SHARDS_DEFAULT,
            writers=writers,
            seconds=seconds,
            every_s=every_s,
        )
        return run_program("tests.bench.lean_writers", plan, answer=lean_writers.Result, timeout_s=seconds + 180)


@contextmanager
def servers() -> Iterator[tuple[Path, dict[str, str]]]:
    """A new folder, empty at the end, and Redis and ZooKeeper: their addresses as settings without ``FIRN_``."""
    with (
        bench_folder() as folder,
        RedisServer(fsync="everysec") as redis_server,
        ZooKeeperServer() as zookeeper_server,
    ):
        yield folder, {"REDIS_URL": redis_server.url, "ZOOKEEPER": zookeeper_server.hosts}


@contextmanager
def deployment(
    settings: Mapping[str, str] | None = None, *, program: Sequence[str] = FIRN_SERVE
) -> Iterator[Deployment]:
    """Servers and a daemon in a new folder, empty at the end; `settings` without ``FIRN_``, over the defaults."""
    with servers() as (folder, addresses):
        own = {**addresses, "ZOOKEEPER_SESSION_TIMEOUT_S": str(SESSION_TIMEOUT_S), **(settings or {})}
        with running_daemon(folder, own, program=program) as daemon:
            yield Deployment(
                folder, redis_url=addresses["REDIS_URL"], zookeeper_hosts=addresses["ZOOKEEPER"], daemon=daemon
            )


def run_program(module: str, plan: msgspec.Struct, *, answer: type[T], timeout_s: float) -> T:
    """Run a program of this folder to its end; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", module, msgspec.json.encode(plan).decode()],
        cwd=PROJECT, capture_output=True, timeout=timeout_s, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return msgspec.json.decode(done.stdout, type=answer)
