"""Row `path-index-bytes`: what the daemon remembers of where each live file is, in bytes of memory a file.

As a program (``-m tests.bench.path_index '<Plan as JSON>'``) it reads a large table as the daemon does when it first
commits to it, and says by how much its memory has grown.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

import msgspec

from firn.coordinator.table_reader import TableReader
from firn.model.limits import Limits
from firn.storage.file_stores import open_files
from tests.bench.big_table import write_big_table
from tests.bench.deployment import run_program
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

BYTES_MAX = 16.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The table's metadata file."""

    metadata: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Live files, and bytes that all of the index takes."""

    files: int
    index_bytes: int


def path_index_bytes(options: Options) -> list[Measurement]:
    """Bytes a file."""
    with tempfile.TemporaryDirectory(prefix="firn-bench-") as folder:
        metadata = write_big_table(Path(folder) / "big", files=options.files)
        found = run_program("tests.bench.path_index", Plan(metadata=metadata), answer=Result, timeout_s=1200)
    assert found.files == options.files
    return [
        measured(
            "path-index-bytes", value=found.index_bytes / found.files, unit="bytes", peer=BYTES_MAX,
            peer_name=f"the limit of {BYTES_MAX:g} bytes", target=1, n=found.files,
            note="what a process has that is gone when the index is; names of manifests are the list's",
        )
    ]  # fmt: skip


def measure(plan: Plan) -> Result:
    """Build the index, and look at what goes when it is dropped: what else was read stays in neither number."""
    reader = TableReader(open_files({"file": {}}), limits=Limits(manifest_cache_bytes_max=0))
    metadata = reader.metadata(plan.metadata)
    assert metadata.current_snapshot_id is not None
    head = reader.head(metadata, metadata.current_snapshot_id)
    files = sum(manifest.live_files_count or 0 for manifest in reader.manifests(metadata, metadata.snapshots[-1]))
    gc.collect()
    with_index = _allocated()
    del head.live
    gc.collect()
    return Result(files=files, index_bytes=with_index - _allocated())


def _allocated() -> int:
    """Bytes of every object that the collector can reach and of what they refer to, counted once."""
    seen: set[int] = set()
    left, total = list(gc.get_objects()), 0
    while left:
        one = left.pop()
        if id(one) in seen or one is seen or one is left:
            continue
        seen.add(id(one))
        total += sys.getsizeof(one, 0)
        left += gc.get_referents(one)
    return total


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(msgspec.json.decode(sys.argv[1], type=Plan))))
