"""Row `writers-64-echo`: 64 writers on one table, against the same writers and a loop that only answers them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from firn.model.sharding import shard_of
from firn.storage.intent_streams import SHARDS_DEFAULT, StreamNames
from tests.bench import lean_writers
from tests.bench.deployment import deployment, run_program
from tests.bench.measurement import PROJECT, Measurement, measured, median, percentile
from tests.bench.options import Options
from tests.bench.processor_time import processor_time

WRITERS = 64
P99_MS_MAX = 40.0
ECHO_TABLE = "bench.echo"
PEER = "the echo ceiling: same writers, a loop that only takes, answers and acknowledges"


def writers_64_echo(options: Options) -> list[Measurement]:
    """Commits a second, between two measurements of the ceiling."""
    with deployment() as firn:
        before = echo(firn.redis_url, "echo-before", writers=WRITERS, seconds=options.seconds / 2)
        with processor_time() as used:
            ours = firn.drive("bench.writers", writers=WRITERS, seconds=options.seconds)
        batch = firn.daemon.intents_per_batch()
        after = echo(firn.redis_url, "echo-after", writers=WRITERS, seconds=options.seconds / 2)
    assert ours.committed, ours.first_failure
    p50, p99 = median(ours.latencies_ms), percentile(ours.latencies_ms, 99)
    row = measured(
        "writers-64-echo", value=ours.rate, unit="commits/s", peer=(before.rate + after.rate) / 2, peer_name=PEER,
        target=0.45, n=ours.committed, failures=ours.failures,
        note=f"{batch:.1f} intents a batch; ceiling {before.rate:.0f}/s before, {after.rate:.0f}/s after; "
        f"{used.note(ours.all_committed)}",
    )  # fmt: skip
    echo_p99 = percentile(before.latencies_ms + after.latencies_ms, 99)
    latency = measured(
        "writers-64-p99", value=p99, unit="ms", peer=P99_MS_MAX, peer_name=f"the limit of {P99_MS_MAX:g} ms",
        target=1, n=ours.committed, failures=ours.failures, note=f"p50 {p50:.1f} ms; p99 of the ceiling {echo_p99:.1f}",
    )  # fmt: skip
    return [row, latency]


def echo(redis_url: str, prefix: str, *, writers: int, seconds: float) -> lean_writers.Result:
    """What lean writers of one table have when their intents are only answered."""
    plan = lean_writers.Plan(
        redis_url=redis_url, tables=[(ECHO_TABLE, "/nowhere")], shards=SHARDS_DEFAULT, writers=writers,
        seconds=seconds, prefix=prefix,
    )  # fmt: skip
    with answering(redis_url, prefix):
        result = run_program("tests.bench.lean_writers", plan, answer=lean_writers.Result, timeout_s=seconds + 120)
    assert not result.failures, result.first_failure
    return result


@contextmanager
def answering(redis_url: str, prefix: str) -> Iterator[None]:
    """Whatever is submitted for `ECHO_TABLE` is answered meanwhile."""
    stream = StreamNames(prefix).intents(shard_of(ECHO_TABLE, shards=SHARDS_DEFAULT))
    with answering_program("tests.bench.echo", redis_url, stream):
        yield


@contextmanager
def answering_program(module: str, *arguments: str) -> Iterator[None]:
    """A program of this folder runs meanwhile, from when it says that it is ready."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=PROJECT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
