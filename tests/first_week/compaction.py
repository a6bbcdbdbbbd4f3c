"""A compaction that takes its time: a program for `tests.first_week`, run as ``compaction.py '<Plan as JSON>'``.

It runs in the environment that firn was installed into. It reads the table with PyIceberg, as a job of another engine
does, rewrites the files that it has found, and commits on the snapshot that it has read: minutes ago, if told so.
"""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from pathlib import Path
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from firn import Client, Committed, Rejected, TableView, arrow_schema, data_files_from_parquet

PATIENCE_S = 180.0
SPARED = "corrections"
"""Files of the job that rewrites its own, in their names: left alone."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which half of a table's files is compacted, by their names, and when (Unix time) it is submitted."""

    redis_url: str
    table: str
    submit_at: float
    half: int = 0
    reserve: bool = True


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it: the age of its base in seconds, and how many snapshots the table has had since."""

    status: str
    base_snapshot_id: int = 0
    base_age_s: float = 0.0
    snapshots_since: int = 0
    base_expired: bool = False
    removed: int = 0
    added: int = 0
    rule: str = ""
    message: str = ""
    disturbed: int = 0


def compact(plan: Plan, client: Client) -> Compacted:
    """Plan now, submit when it is time."""
    began = time.time()
    base = client.table(plan.table)
    assert base.snapshot_id is not None, f"{plan.table} is empty"
    static = StaticTable.from_metadata(base.metadata_location)
    found = sorted(task.file.file_path for task in static.scan(snapshot_id=base.snapshot_id).plan_files())
    files = [path for path in found if SPARED not in Path(path).name and crc32(path.encode()) % 2 == plan.half]
    assert files, f"{plan.table} has no file to compact"
    with contextlib.ExitStack() as work:
        reservation = None
        if plan.reserve:
            reservation = work.enter_context(
                client.begin(
                    plan.table, files=files, base_snapshot_id=base.snapshot_id, holder="compaction",
                    purpose="compact small files",
                )
            )  # fmt: skip
        time.sleep(max(0.0, plan.submit_at - time.time()))
        target = rewritten(files, base)
        now = client.table(plan.table)
        options = {} if reservation is None else {"reservation_id": reservation.reservation_id}
        answer = client.replace(
            plan.table, removed=files, added=data_files_from_parquet([target], base),
            base_snapshot_id=base.snapshot_id, writer="compaction", **options,  # type: ignore[arg-type]
        ).result(PATIENCE_S)  # fmt: skip
        disturbed = 0 if reservation is None else len(reservation.disturbances)
    return Compacted(
        status={Committed: "committed", Rejected: "rejected"}.get(type(answer), "unknown"),
        base_snapshot_id=base.snapshot_id,
        base_age_s=time.time() - began,
        snapshots_since=now.metadata.last_sequence_number - base.metadata.last_sequence_number,
        base_expired=now.metadata.snapshot_by_id(base.snapshot_id) is None,
        removed=len(files),
        added=1,
        rule=answer.rule if isinstance(answer, Rejected) else "",
        message=answer.message if isinstance(answer, Rejected) else "",
        disturbed=disturbed,
    )


def rewritten(files: list[str], base: TableView) -> Path:
    """One file of the rows of many."""
    target = Path(base.location) / "data" / f"compacted-{uuid.uuid4()}.parquet"
    schema = arrow_schema(base.schema)
    rows = pa.concat_tables((pq.ParquetFile(path).read() for path in files), promote_options="default")
    columns = [rows[name] if name in rows.column_names else pa.nulls(len(rows), schema.field(name).type)
               for name in schema.names]  # fmt: skip
    pq.write_table(pa.table(columns, schema=schema).sort_by("id"), target)
    return target


def main() -> int:
    """Compact, and print what became of it."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    pa.set_cpu_count(1)
    with Client(plan.redis_url) as client:
        done = compact(plan, client)
    print(msgspec.json.encode(done).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
