"""The week, from the installation to what it left."""

from __future__ import annotations

import platform
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import redis

from firn.coordinator.client import Client
from firn.storage.intent_streams import StreamNames
from tests.bench.measurement import commit
from tests.first_week import compaction, load
from tests.first_week.compaction import Compacted
from tests.first_week.deployment import Daemon, Deployment
from tests.first_week.load import ORDERS, TABLES, Told
from tests.first_week.observations import Memory, alerts_fired, disk_of, history_of, rows_of, size_below
from tests.first_week.report import Installed, Maintained, Record, Upgraded
from tests.installations import OLDER, Built, Installation, wheel_of_commit

EXTRAS: Final = ("demo", "maintain")
"""The daemon, its commands, maintenance, servers to run it on, and PyIceberg for the job that compacts."""

MISSED_BY_OLDER: Final = ("numpy",)
"""What the older version needs and does not declare."""

WRITERS_OF_OLDER: Final = 0
WRITERS: Final = 100
"""Numbers that writers begin with, before and after the upgrade."""

BOUNDED: Final = ("write.metadata.delete-after-commit.enabled=true", "write.metadata.compression-codec=gzip")
"""Properties of new tables that those of the older version lack."""

UPGRADED: Final = 1 / 15
PLANNED: Final = 1 / 8
MAINTAINED: Final = 1 / 2
COLUMN: Final = 0.6
SUBMITTED: Final = 7 / 8
MAINTAINED_AGAIN: Final = 0.9
"""Parts of the time after which something begins."""

END_S: Final = 240.0
PROGRAMS: Final = Path(__file__).parent


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how fast, and which commit is upgraded from (none if empty).

    `index`: packages are of a package index, and not those that are installed here. `snapshots_max`: snapshots that a
    table keeps, instead of the default; for a week so short that no base would expire.
    """

    minutes: float = 30.0
    rate: float = 20.0
    older: str = OLDER
    index: bool = True
    snapshots_max: int | None = None


class Working:
    """A program of users at work: what it prints is collected while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log
        self._lines: list[bytes] = []
        self._reader = threading.Thread(target=self._read, name=log.stem)
        self._reader.start()

    def done(self) -> list[bytes]:
        """Wait for its end; the lines that it has printed."""
        code = self._process.wait(END_S)
        self._reader.join()
        assert code == 0, f"{self._log.name} ended with {code}:\n{self._log.read_text()[-4000:]}"
        return self._lines

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._lines.extend(self._process.stdout)


class Week:
    """One week, in a folder of its own."""

    def __init__(self, folder: Path, wishes: Wishes, *, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._wishes = wishes
        self._say = say
        self._told: list[Told] = []

    def live(self) -> Record:
        """Install, deploy, work, upgrade, maintain; return what that came to."""
        wheel = Built(self._made("built"), commit=commit()).wheel
        self._say(f"installing {wheel.name} with {', '.join(EXTRAS)}")
        began = time.monotonic()
        firn = Installation(self._folder / "environment", wheel, EXTRAS, from_index=self._wishes.index)
        seconds = time.monotonic() - began
        if not self._wishes.index:  # as pip does otherwise; the first start of a daemon would do it
            subprocess.run([firn.bin / "python", "-m", "compileall", "-q", firn.site / "firn"], check=True)
        older = None
        if self._wishes.older:
            before = wheel_of_commit(self._wishes.older, self._made("older"))
            older = Installation(
                self._folder / "older-environment", before, beside=MISSED_BY_OLDER, from_index=self._wishes.index
            )
        installed = Installed(
            extras=EXTRAS, packages=firn.packages, bytes=firn.size_bytes, seconds=seconds, index=self._wishes.index
        )
        with Deployment(self._made("deployment"), servers_of=firn) as deployed:
            return self._work(deployed, firn, older, installed)

    def _work(
        self, deployed: Deployment, firn: Installation, older: Installation | None, installed: Installed
    ) -> Record:
        wishes, total_s = self._wishes, self._wishes.minutes * 60
        deployed.start(older or firn)
        deployed.watch()
        began = time.time()
        with Memory(deployed.daemons) as memory:
            self._say(f"{wishes.minutes:g} minutes of load begin")
            working = self._load(deployed, older or firn, WRITERS_OF_OLDER, create=True)
            self._until(began + total_s * UPGRADED)
            upgraded, left = None, disk_of(deployed.warehouse)
            if older is not None:
                upgraded = self._upgrade(deployed, firn)
                left = disk_of(deployed.warehouse)
                self._adopt(deployed, firn)
                self._enough(deployed, WRITERS_OF_OLDER)
                self._told += told_by(working)
                memory.forget()
                working = self._load(deployed, firn, WRITERS, column_at=began + total_s * COLUMN)
            self._until(began + total_s * PLANNED)
            jobs = {  # both at once, each of its half of the files
                reserve: self._compact(deployed, firn, began + total_s * SUBMITTED, reserve=reserve)
                for reserve in (True, False)
            }
            self._until(began + total_s * MAINTAINED)
            maintained = [self._maintain(deployed, firn)]
            self._until(began + total_s * SUBMITTED)
            compacted = {reserve: compacted_by(job) for reserve, job in jobs.items()}
            self._until(began + total_s * MAINTAINED_AGAIN)
            before = disk_of(deployed.warehouse)
            maintained.append(self._maintain(deployed, firn))
            self._until(began + total_s)
            self._enough(deployed, WRITERS_OF_OLDER)
            self._enough(deployed, WRITERS)
            self._told += told_by(working)
        self._say("the load has ended; looking at what it left")
        return self._record(deployed, firn, Record(
            commit=commit(), python=platform.python_version(), minutes=(time.time() - began) / 60,
            installed=installed, upgraded=upgraded, told=self._told,
            compacted=compacted, maintained=maintained, disk_at_upgrade=left, disk_before=before,
            disk=disk_of(deployed.warehouse), peaks=dict(memory.peaks),
        ))  # fmt: skip

    # -- what happens --------------------------------------------------------------------------------------------

    def _load(
        self,
        deployed: Deployment,
        firn: Installation,
        first: int,
        *,
        create: bool = False,
        column_at: float | None = None,
    ) -> Working:
        minutes, kept = self._wishes.minutes, self._wishes.snapshots_max
        plan = load.Plan(
            redis_url=deployed.redis_url, rate=self._wishes.rate, until=str(self._until_file(deployed, first)),
            first=first, keep_s=minutes * 60 / 15, create=create, column_at=column_at,
            properties={} if kept is None else {"firn.snapshots-max": str(kept)},
        )  # fmt: skip
        name = f"load-{first}"
        process = deployed.begins(firn, PROGRAMS / "load.py", msgspec.json.encode(plan), name=name)
        return Working(process, deployed.folder / f"{name}.log")

    def _compact(self, deployed: Deployment, firn: Installation, submit_at: float, *, reserve: bool) -> Working:
        self._say(f"a compaction of {ORDERS} is planned{' and reserved' if reserve else ''}")
        plan = compaction.Plan(
            redis_url=deployed.redis_url, table=ORDERS, submit_at=submit_at, half=int(reserve), reserve=reserve
        )
        name = f"compaction-{int(reserve)}"
        process = deployed.begins(firn, PROGRAMS / "compaction.py", msgspec.json.encode(plan), name=name)
        return Working(process, deployed.folder / f"{name}.log")

    def _upgrade(self, deployed: Deployment, firn: Installation) -> Upgraded:
        began = time.time()
        for daemon in deployed.daemons:
            self._say(f"{daemon.name} is upgraded")
            deployed.upgrade(daemon, firn)
        ended = time.time()
        time.sleep(1)
        status = deployed.runs(firn, "status")
        return Upgraded(
            older=self._wishes.older[:7], began=began, ended=ended, status=status.returncode,
            dead_letters=dead_letters(deployed.redis_url),
        )  # fmt: skip

    def _adopt(self, deployed: Deployment, firn: Installation) -> None:
        """Do with tables of before the upgrade what docs/operators.md says of their metadata files."""
        self._say("tables of the older version are maintained, and given the properties that new tables have")
        for table in TABLES:
            for arguments in (("maintain", "run", table, "--no-spark"), ("property", "set", table, *BOUNDED)):
                done = deployed.runs(firn, *arguments)
                if done.returncode:
                    self._say(f"firn {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")

    def _maintain(self, deployed: Deployment, firn: Installation) -> Maintained:
        self._say("firn maintain run --all --no-spark")
        began = time.monotonic()
        done = deployed.runs(firn, "maintain", "run", "--all", "--no-spark")
        if done.returncode:
            self._say(f"maintenance ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (deployed.folder / f"maintain-{began:.0f}.log").write_text(done.stdout + done.stderr)
        return Maintained(seconds=time.monotonic() - began, exit_code=done.returncode)

    def _until_file(self, deployed: Deployment, first: int) -> Path:
        return deployed.folder / f"enough-{first}"

    def _enough(self, deployed: Deployment, first: int) -> None:
        self._until_file(deployed, first).touch()

    def _until(self, at: float) -> None:
        time.sleep(max(0.0, at - time.time()))

    def _made(self, name: str) -> Path:
        (self._folder / name).mkdir()
        return self._folder / name

    # -- what it came to -----------------------------------------------------------------------------------------

    def _record(self, deployed: Deployment, firn: Installation, record: Record) -> Record:
        with Client(deployed.redis_url) as client:
            locations = {table: client.table(table).metadata_location for table in TABLES}
        fired = None
        if deployed.prometheus is not None:
            fired = alerts_fired(deployed.prometheus, minutes=record.minutes)
        with redis.Redis.from_url(deployed.redis_url) as connection:
            redis_bytes = connection.info("memory")["used_memory_peak"]
        self._say("reading every row")
        rows = {table: rows_of(location, table, self._told) for table, location in locations.items()}
        self._say("firn fsck --all, firn status, firn doctor")
        began = time.monotonic()
        codes = {"fsck": deployed.runs(firn, "fsck", "--all")}
        fsck_s = time.monotonic() - began
        codes |= {name: deployed.runs(firn, name) for name in ("status", "doctor")}
        for name, done in codes.items():
            (deployed.folder / f"{name}.log").write_text(done.stdout + done.stderr)
            if done.returncode:
                self._say(f"firn {name} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return msgspec.structs.replace(
            record, rows=rows, alerts=fired, dead_letters=dead_letters(deployed.redis_url), redis_bytes=redis_bytes,
            history={table: history_of(location) for table, location in locations.items()},
            servers_bytes=size_below(deployed.folder / "servers"),
            codes={name: done.returncode for name, done in codes.items()}, fsck_s=fsck_s,
            errors=dict(sum((Counter(troubles) for troubles in map(Daemon.troubles, deployed.daemons)), Counter())),
        )  # fmt: skip


def dead_letters(redis_url: str) -> int:
    """Return how many dead letters there are."""
    with redis.Redis.from_url(redis_url) as connection:
        return int(connection.xlen(StreamNames().dead_letters))


def told_by(working: Working) -> list[Told]:
    """Return the outcomes that a load's writers heard of."""
    return [msgspec.json.decode(line, type=Told) for line in working.done()]


def compacted_by(working: Working) -> Compacted:
    """Return what became of a compaction, also if its program broke off."""
    try:
        (line,) = working.done()
    except AssertionError as error:
        return Compacted(status="broken", message=str(error))
    return msgspec.json.decode(line, type=Compacted)
