"""Rows `path-index-bytes` and `path-index-cold`: what the daemon remembers of where each live file is, in bytes a file,
and what it costs to learn it from manifests.

As a program (``-m tests.bench.path_index '<Plan as JSON>'``) it reads a large table as the daemon does when it first
commits to it, and says by how much its memory has grown.
"""

from __future__ import annotations

import gc
import resource
import sys
import time

import msgspec

from firn.coordinator.tables.table_reader import TableReader
from firn.model.limits import Limits
from firn.storage.file_stores import open_files
from tests.bench.big_table import write_big_table
from tests.bench.deployment import run_program
from tests.bench.folder import bench_folder
from tests.bench.measurement import Measurement, measured
from tests.bench.options import Options

BYTES_MAX = 16.0
COLD_RATIO = 10
DECODED = 20
"""So many manifests are decoded for comparison."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The table's metadata file."""

    metadata: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Live files, bytes that all of the index takes, and the processor time of making it and of decoding entries."""

    files: int
    index_bytes: int
    index_cpu_s: float
    decoding_cpu_s: float


def path_index_bytes(options: Options) -> list[Measurement]:
    """Bytes a file, and processor time a thousand files."""
    with bench_folder() as folder:
        metadata = write_big_table(folder / "big", files=options.files)
        found = run_program("tests.bench.path_index", Plan(metadata=metadata), answer=Result, timeout_s=1200)
    assert found.files == options.files
    return [
        measured(
            "path-index-bytes", value=found.index_bytes / found.files, unit="bytes", peer=BYTES_MAX,
            peer_name=f"the limit of {BYTES_MAX:g} bytes", target=1, n=found.files,
            note="what a process has that is gone when the index is; names of manifests are the list's",
        ),
        measured(
            "path-index-cold", value=1e6 * found.index_cpu_s / found.files, unit="ms",
            peer=1e6 * found.decoding_cpu_s / found.files, peer_name="decoding the same manifests with fastavro",
            target=COLD_RATIO, n=found.files,
            note="processor time for a thousand files with metrics of 20 columns, reading and decompressing included",
        ),
    ]  # fmt: skip


def measure(plan: Plan) -> Result:
    """Build the index, and look at what goes when it is dropped: what else was read stays in neither number."""
    reader = TableReader(open_files({"file": {}}), limits=Limits(manifest_cache_bytes_max=0))
    metadata = reader.metadata(plan.metadata)
    assert metadata.current_snapshot_id is not None
    manifests = reader.manifests(metadata, metadata.snapshots[-1])
    files = sum(manifest.live_files_count or 0 for manifest in manifests)
    reader.head(metadata, metadata.current_snapshot_id)  # what is compiled once is no cost of a file's
    started = _cpu_s()
    head = reader.head(metadata, metadata.current_snapshot_id)
    index_cpu_s = _cpu_s() - started
    started = _cpu_s()
    decoded = sum(len(reader.entries(metadata, manifest)) for manifest in manifests[:DECODED])
    decoding_cpu_s = (_cpu_s() - started) * files / decoded
    gc.collect()
    with_index = _allocated()
    del head.live
    gc.collect()
    index_bytes = with_index - _allocated()
    return Result(files=files, index_bytes=index_bytes, index_cpu_s=index_cpu_s, decoding_cpu_s=decoding_cpu_s)


def _cpu_s() -> float:
    """Processor time of this process and of those that it has started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


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
