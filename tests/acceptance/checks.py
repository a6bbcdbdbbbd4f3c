"""What must hold of a table after any fault: by what it stores, by its journal, and as other engines read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
from pyiceberg.table import StaticTable

from firn.coordinator.tables.table_reader import TableReader
from firn.model.journal import Decided, Segment
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.table_properties import SNAPSHOTS_MAX
from firn.storage.journal import JournalFiles
from firn.storage.local_files import LocalFiles
from tests.acceptance.stack import DaemonProcess, Stack
from tests.acceptance.writers import Told

FILES: Final = LocalFiles()
FSCK_S: Final = 600.0
"""It reads every version of the metadata; thousands of them, after a long load, take minutes."""


def check_exactly_once(stack: Stack, table: str, told: Sequence[Told], *, count: int, deep: bool = False) -> str:
    """All of `told` is committed, and in the table exactly once; the metadata location of the table."""
    wrong = [t for t in told if t.status != "committed"]
    assert not wrong, f"{len(wrong)} not committed, the first: {wrong[0]}"
    assert len({t.intent_id for t in told}) == len({t.file for t in told}) == count
    location = stack.pointer(table).metadata_location
    metadata = TableReader(FILES, limits=Limits()).metadata(location)
    live = live_files(metadata)
    doubled = [path for path, times in Counter(live).items() if times > 1]
    assert not doubled, f"{len(doubled)} files are live more than once: {doubled[:3]}"
    expected = {t.file for t in told}
    assert set(live) == expected, (
        f"{len(expected - set(live))} committed files are missing: {sorted(expected - set(live))[:3]}; "
        f"{len(set(live) - expected)} are live that nobody was told of: {sorted(set(live) - expected)[:3]}"
    )
    check_journal(stack, table, metadata, told)
    fsck = stack.firn("fsck", table, *(["--deep"] if deep else []), timeout_s=FSCK_S)
    assert fsck.returncode == 0, f"{fsck.stdout}\n{fsck.stderr}"
    return location


def live_files(metadata: TableMetadata) -> list[str]:
    """Live data files of the current snapshot, read from storage; one that is there twice is listed twice."""
    snapshot = metadata.current_snapshot
    if snapshot is None:
        return []
    reader = TableReader(FILES, limits=Limits())
    manifests = reader.manifests(metadata, snapshot)
    return [e.data_file.file_path for m in manifests for e in reader.entries(metadata, m) if e.is_live]


def journal(stack: Stack, table: str) -> list[Segment]:
    """The table's journal, oldest first."""
    files = JournalFiles(FILES, bytes_max=Limits().journal_bytes_max)
    return list(files.walk(stack.pointer(table).journal_head))[::-1]


def check_journal(stack: Stack, table: str, metadata: TableMetadata, told: Sequence[Told]) -> None:
    """The journal decides each intent once, and says what the writers were told. Its chain is fsck's business."""
    segments = journal(stack, table)
    tokens = [segment.batch.lock_token for segment in segments]
    assert tokens == sorted(tokens), "a batch was swapped in under an older lock than the one before it"
    decided: dict[str, Decided] = {}
    for segment in segments:
        for record in segment.decided:
            assert record.intent_id not in decided, f"{record.intent_id} was decided twice"
            decided[record.intent_id] = record
    kept = SNAPSHOTS_MAX.sane(metadata.properties)  # of which a load may have more
    numbers = sorted(snapshot.sequence_number for snapshot in metadata.snapshots)
    thinned_until = numbers[-kept // 2] if len(numbers) >= kept else 0  # half of what is kept are the newest
    for one in told:
        outcome: Any = decided[one.intent_id].outcome
        assert (outcome.snapshot_id, outcome.sequence_number) == (one.snapshot_id, one.sequence_number)
        expired = outcome.sequence_number < thinned_until
        assert expired or metadata.snapshot_by_id(outcome.snapshot_id) is not None


def check_readers(location: str, told: Sequence[Told]) -> None:
    """PyIceberg and DuckDB read the same rows: those that the writers were told of."""
    expected = (sum(t.rows for t in told), sum(t.id_sum for t in told))
    assert duckdb_sums(location) == (*expected, expected[0])
    ids = StaticTable.from_metadata(location).scan(selected_fields=("id",)).to_arrow().column("id").to_pylist()
    assert (len(ids), sum(ids)) == expected
    assert len(set(ids)) == len(ids)


def duckdb_sums(location: str) -> tuple[int, int, int]:
    """Rows, sum of ids and number of different ids, as DuckDB reads the table."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false", "threads": "2"}) as connection:
        for package, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
            folder = Path(package.__file__).parent / "extensions" / f"v{duckdb.__version__}"
            connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
        query = f"SELECT count(*), sum(id)::BIGINT, count(DISTINCT id) FROM iceberg_scan('{location}')"
        row = connection.execute(query).fetchone()
    assert row is not None
    return row


def check_log(daemon: DaemonProcess, *, warnings: Sequence[str] = (), errors: Sequence[str] = ()) -> None:
    """Nothing in the log but what these events allow, and no traceback at all."""
    text = daemon.log()
    assert "Traceback" not in text, text[text.index("Traceback") - 2000 :][:5000]
    unexpected = [r for r in daemon.log_records("error", "critical") if r["event"] not in errors]
    allowed = (*warnings, *ALWAYS)
    unexpected += [r for r in daemon.log_records("warning") if r["event"] not in allowed and not _is_loss(r, warnings)]
    assert not unexpected, f"{daemon.name} logged: {unexpected[:5]}"


ALWAYS: Final = ("zookeeper.world-writable",)
"""Tests use a ZooKeeper without credentials."""


def _is_loss(record: dict[str, Any], warnings: Sequence[str]) -> bool:
    """Return whether a record names the loss of a connection, also in kazoo's words, where that is expected."""
    if record["event"] == "store trouble":
        return ("zookeeper session" if record["store"] == "zookeeper" else "intake waits") in warnings
    return "zookeeper session" in warnings and str(record.get("logger", "")).startswith("kazoo")
