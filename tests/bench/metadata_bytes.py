"""Row `metadata-bytes`: what a commit writes beside its data, and what a table keeps of it, at 1, 10 and 100 a second.

All three rates are measured on one table whose history is as long as it gets, because the metadata file grows with it.
The least that any writer of the format needs for a commit does not depend on the data: a manifest, a manifest list, and
one metadata file that names the snapshots that the table keeps, compressed as far as zlib can.

The daemon removes a replaced file some minutes after a commit; nobody waits for that here. It is given a shorter time,
the files that are there at the end of each rate are compared with what the rule says, and the rule then says what there
is with the time that is set by default.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.storage.metadata_files import encode_metadata
from tests.bench.deployment import Deployment, deployment
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

TABLE = "bench.metadata_bytes"
RATES = (1, 10, 100)
FILL_S = 5.0
SNAPSHOTS_MIN = 1_300
"""Snapshots after which a table's history is as long as it gets by default."""

FILL_MAX = 60
KEPT_MS = 4_000
"""How long the daemon keeps replaced files in this row."""

LATE_S = 5.0
"""It removes them every two seconds, and a few may just have been replaced."""

TIMES_MAX = 3
"""How many times the least a commit may take."""

KILOBYTE, MEGABYTE = 1_000, 1_000_000


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes by kind of file that the daemon has written, and how many metadata files."""

    by_kind: dict[str, float]
    swaps: float

    def since(self, earlier: Written) -> Written:
        """Return what has come since."""
        by_kind = {kind: size - earlier.by_kind.get(kind, 0.0) for kind, size in self.by_kind.items()}
        return Written(by_kind=by_kind, swaps=self.swaps - earlier.swaps)


def metadata_bytes(options: Options) -> list[Measurement]:
    """Bytes that a commit writes, and that a table keeps, against the least at each rate."""
    lines: list[Measurement] = []
    with deployment({"LIMITS_REPLACED_METADATA_MS": str(KEPT_MS)}) as firn:
        folder = Path(firn.create_table(TABLE).location) / "metadata"
        tables = [(TABLE, str(folder.parent))]
        committed = _fill(firn, tables)
        for rate in RATES:
            before = _written(firn, folder)
            run = firn.drive_all(tables, writers=rate, seconds=max(options.seconds, LATE_S), every_s=1.0)
            committed += run.all_committed
            with firn.client() as client:
                metadata = client.table(TABLE).metadata
            written = _written(firn, folder).since(before)
            lines += _lines(metadata, folder, written, rate=rate, commits=run.all_committed, failures=run.failures)
        firn.check_total(TABLE, files=committed)
    return lines


def _fill(firn: Deployment, tables: Sequence[tuple[str, str]]) -> int:
    """Commit until the table has as many snapshots as it gets; how many commits there were."""
    committed = 0
    for _ in range(FILL_MAX):
        run = firn.drive_all(tables, writers=1, seconds=FILL_S)
        assert not run.failures, run.first_failure
        committed += run.all_committed
        if committed >= SNAPSHOTS_MIN:
            return committed
    raise AssertionError(f"{committed} commits in {FILL_MAX * FILL_S:.0f} s are too few for a long history")


def _written(firn: Deployment, folder: Path) -> Written:
    values = firn.daemon.metrics()
    by_kind = {
        kind: values[f'firn_written_bytes_total{{kind="{kind}"}}']
        for kind in ("manifest", "manifest-list", "metadata", "journal")
    }
    by_kind["merged manifest"] = float(sum(path.stat().st_size for path in folder.glob("*-merged.avro")))
    return Written(by_kind=by_kind, swaps=values['firn_written_files_total{kind="metadata"}'])


def _lines(
    metadata: TableMetadata, folder: Path, written: Written, *, rate: int, commits: int, failures: int
) -> list[Measurement]:
    """What was written and what is kept at one rate."""
    per_swap = {kind: size / written.swaps for kind, size in written.by_kind.items()}
    snapshot_bytes = per_swap["manifest"] + per_swap["manifest-list"]
    smallest = len(zlib.compress(encode_metadata(metadata), 9))
    value, least = sum(per_swap.values()), snapshot_bytes + smallest
    parts = ", ".join(f"{kind} {size / KILOBYTE:.1f}" for kind, size in per_swap.items())
    swaps_per_second = rate * written.swaps / commits
    late = _more_than_due(metadata, folder, swaps_per_second=swaps_per_second)
    kept_s = Limits().replaced_metadata_ms / 1000
    replaced = len(metadata.metadata_log) + swaps_per_second * kept_s
    history = len(metadata.snapshots) * snapshot_bytes
    kept = history + (1 + replaced) * per_swap["metadata"]
    return [
        measured(
            f"metadata-bytes-{rate}", value=value, unit="bytes", peer=least,
            peer_name="a manifest, a list and the smallest metadata file", target=1 / TIMES_MAX, n=commits,
            failures=failures + late,
            note=f"of each of {written.swaps:.0f} swaps of {commits} commits, {len(metadata.snapshots)} snapshots: "
            f"{parts} kB",
        ),
        measured(
            f"metadata-kept-{rate}", value=kept / MEGABYTE, unit="MB",
            peer=(history + (1 + replaced) * smallest) / MEGABYTE,
            peer_name="the same files, each metadata file as small as zlib makes it", target=1 / TIMES_MAX, n=commits,
            failures=failures + late,
            note=f"for good at {swaps_per_second:.1f} swaps a second: {history / MEGABYTE:.1f} MB of the snapshots, "
            f"and {1 + replaced:.0f} metadata files, {len(metadata.metadata_log)} of them in the log and those of "
            f"{kept_s:.0f} s; {late} files were there for longer than they should be",
        ),
    ]  # fmt: skip


def _more_than_due(metadata: TableMetadata, folder: Path, *, swaps_per_second: float) -> int:
    """Return how many metadata files there are beyond those that the rule lets be there."""
    most = 1 + len(metadata.metadata_log) + swaps_per_second * (KEPT_MS / 1000 + LATE_S) + 10
    return max(0, len(list(folder.glob("*.metadata.json"))) - round(most))
