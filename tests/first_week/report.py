"""What a week came to: the record, what in it must not be, and the table of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tests.bench.measurement import percentile
from tests.first_week.compaction import Compacted
from tests.first_week.load import Told
from tests.first_week.observations import MEGABYTE, Disk, History, Rows

LONG_BASE: Final = {True: "reserved", False: "not reserved"}


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that firn was installed into."""

    extras: tuple[str, ...]
    packages: int
    bytes: int
    seconds: float
    index: bool


class Upgraded(msgspec.Struct, frozen=True, kw_only=True):
    """The rolling upgrade: from which commit, when (Unix time), and how `firn status` ended after it.

    `dead_letters` are those that the older version had written.
    """

    older: str
    began: float
    ended: float
    status: int
    dead_letters: int


class Maintained(msgspec.Struct, frozen=True, kw_only=True):
    """A run of maintenance."""

    seconds: float
    exit_code: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All that was measured. `disk_at_upgrade` is what the older version left; `disk_before` is before maintenance."""

    commit: str
    python: str
    minutes: float
    installed: Installed
    upgraded: Upgraded | None
    told: list[Told]
    compacted: dict[bool, Compacted]
    maintained: list[Maintained]
    disk_at_upgrade: Disk
    disk_before: Disk
    disk: Disk
    peaks: dict[str, int]
    rows: dict[str, Rows] = {}
    history: dict[str, History] = {}
    alerts: dict[str, float] | None = None
    dead_letters: int = 0
    redis_bytes: int = 0
    servers_bytes: int = 0
    codes: dict[str, int] = {}
    fsck_s: float = 0.0
    errors: dict[str, int] = {}

    @property
    def committed(self) -> list[Told]:
        """Outcomes of all that was committed."""
        return [one for one in self.told if one.status == "committed"]

    @property
    def letters_of_older(self) -> int:
        """Dead letters that the older version wrote; it did so of refused wishes, too."""
        return 0 if self.upgraded is None else self.upgraded.dead_letters

    @property
    def unmeant(self) -> list[Told]:
        """Outcomes that nobody wanted: unknown, refused and not meant to be, or committed and meant to be refused."""
        return [one for one in self.told if one.status != ("rejected" if one.meant else "committed")]

    @property
    def wrong(self) -> list[str]:
        """What must not be, in sentences."""
        found = [
            f"{one.writer}: {one.operation} on {one.table} {one.status}: {one.message}" for one in self.unmeant[:5]
        ]
        for table, rows in self.rows.items():
            if rows.lost or rows.doubled or rows.unasked:
                found.append(f"{table}: {rows.lost} rows lost, {rows.doubled} doubled, {rows.unasked} not committed")
        for reserved, one in self.compacted.items():
            if one.status != "committed":
                found.append(f"the compaction that was {LONG_BASE[reserved]}: {one.status}, {one.rule}: {one.message}")
        found += [f"firn {name} ended with {code}" for name, code in self.codes.items() if code and name != "doctor"]
        found += [f"maintenance ended with {one.exit_code}" for one in self.maintained if one.exit_code]
        if self.upgraded is not None and self.upgraded.status:
            found.append(f"firn status ended with {self.upgraded.status} after the upgrade")
        if (letters := self.dead_letters - self.letters_of_older) > 0:
            found.append(f"{letters} dead letters")
        return found


def markdown(record: Record) -> str:
    """Return the record as a table."""
    lines = ["| what | measured |", "|---|---|"]
    lines += [f"| {what} | {value} |" for what, value in lines_of(record)]
    return "\n".join(lines)


def lines_of(record: Record) -> Sequence[tuple[str, str]]:
    """Return the lines of the table: what, and its value."""
    commits, disk = len(record.committed), record.disk
    beside = disk.beside_data
    return (
        ("firn", f"{record.commit}, Python {record.python}"),
        ("installed", installed_line(record.installed)),
        ("load", f"{record.minutes:.1f} minutes, {commits:,} commits, {commits / record.minutes / 60:.1f} a second"),
        ("latency of a commit", latency_line([one.seconds for one in record.committed])),
        ("upgrade, one daemon after the other", upgrade_line(record)),
        *(
            (f"compaction, base {LONG_BASE[reserved]}", compaction_line(one))
            for reserved, one in record.compacted.items()
        ),
        ("`firn maintain run --all --no-spark`", " and ".join(f"{one.seconds:.0f} s" for one in record.maintained)),
        ("disk: data", str(disk.data)),
        ("disk: metadata files", str(disk.metadata)),
        ("the same before the last maintenance", str(record.disk_before.metadata)),
        ("the same when the upgrade was done", str(record.disk_at_upgrade.metadata)),
        ("disk: manifests and lists", str(disk.manifests)),
        ("disk: journal", str(disk.journal)),
        ("disk: other files", str(disk.others)),
        ("disk: all beside the data", f"{beside / MEGABYTE:,.1f} MB, {beside / commits / 1000:,.1f} kB a commit"),
        ("disk: Redis and ZooKeeper", f"{record.servers_bytes / MEGABYTE:,.1f} MB"),
        ("memory: daemons, at most", peaks_line(record.peaks)),
        ("memory: Redis, at most", f"{record.redis_bytes / MEGABYTE:,.0f} MB"),
        *((f"history: {table}", history_line(one)) for table, one in record.history.items()),
        ("alerts that fired", alerts_line(record.alerts)),
        ("refused, as meant", refused_line([one for one in record.told if one.meant])),
        ("refused or unknown, not meant", refused_line(record.unmeant)),
        ("dead letters", f"{record.dead_letters}, {record.letters_of_older} of them by the older version"),
        ("rows", rows_line(record.rows)),
        ("errors in the daemons' logs", counted(record.errors)),
        ("`firn fsck --all`, `firn status`, `firn doctor`", codes_line(record)),
    )


def peaks_line(peaks: Mapping[str, int]) -> str:
    """Return the most that each daemon held, with its processes."""
    return ", ".join(f"{name} {peak / MEGABYTE:,.0f} MB" for name, peak in sorted(peaks.items()))


def history_line(one: History) -> str:
    """Return how far back a table's snapshots reach."""
    return (
        f"{one.snapshots:,} snapshots, the oldest {one.reach_s / 60:.1f} minutes old; "
        f"metadata file of {one.metadata_bytes / 1000:,.0f} kB"
    )


def codes_line(record: Record) -> str:
    """Return how the commands ended that look whether all is well."""
    ends = (f"{name} {'good' if code == 0 else f'ends with {code}'}" for name, code in record.codes.items())
    return f"{', '.join(ends)}; fsck took {record.fsck_s:.0f} s"


def installed_line(one: Installed) -> str:
    """Return what was installed, and from where."""
    source = "from the index" if one.index else "from packages of this machine"
    return (
        f"`firn[{','.join(one.extras)}]`: {one.packages} packages, {one.bytes / MEGABYTE:,.0f} MB, "
        f"{one.seconds:.0f} s {source}"
    )


def latency_line(seconds: Sequence[float]) -> str:
    """Return percentiles of latencies."""
    if not seconds:
        return "no commit"
    p50, p99 = (percentile(seconds, percent) * 1000 for percent in (50, 99))
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, most {max(seconds):.1f} s"


def upgrade_line(record: Record) -> str:
    """Return how the upgrade went, and what writers noticed of it."""
    one = record.upgraded
    if one is None:
        return "not tried"
    during = [told for told in record.committed if one.began <= told.at <= one.ended]
    times = sorted(told.at for told in during)
    gap = max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)
    return (
        f"from {one.older}: {one.ended - one.began:.0f} s, {len(during)} commits in them, "
        f"{latency_line([told.seconds for told in during])}, longest pause between two {gap:.1f} s"
    )


def compaction_line(one: Compacted) -> str:
    """Return what became of a compaction."""
    expired = "expired meanwhile" if one.base_expired else "still in the metadata"
    rule = f" by `{one.rule}`" if one.rule else ""
    return (
        f"{one.status}{rule}: {one.removed:,} files into {one.added}; base {one.base_age_s / 60:.1f} minutes and "
        f"{one.snapshots_since:,} snapshots old, {expired}"
    )


def alerts_line(alerts: Mapping[str, float] | None) -> str:
    """Return which alerts fired, and for how long."""
    if alerts is None:
        return "not measured: there is no Prometheus here"
    return ", ".join(f"{name} ({minutes:.1f} minutes)" for name, minutes in sorted(alerts.items())) or "none"


def refused_line(told: Sequence[Told]) -> str:
    """Return how much was refused, by rule."""
    return counted(Counter(one.rule or one.status for one in told))


def rows_line(rows: Mapping[str, Rows]) -> str:
    """Return whether all rows are there, once."""
    there, lost, doubled, unasked = (
        sum(getattr(one, name) for one in rows.values()) for name in ("there", "lost", "doubled", "unasked")
    )
    return f"{there:,} there; {lost} lost, {doubled} doubled, {unasked} that nobody committed"


def counted(found: Mapping[str, int]) -> str:
    """Return names with their numbers, most first."""
    most = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in most) or "none"
