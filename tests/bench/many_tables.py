"""Rows of many tables: `tables-64`, a writer on each of 64, and `memory-1000-tables`, each with an intent a second."""

from __future__ import annotations

from tests.bench import zookeeper_peer
from tests.bench.deployment import deployment, run_program
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options
from tests.bench.processor_time import processor_time

WRITERS = 64
BUSY_TABLES = 1_000
MEGABYTE = 1_000_000
MEMORY_MB_MAX = 300.0
PEER = f"ZooKeeper's check-and-set rate: {WRITERS} at once, nothing else"


def tables_64(options: Options) -> list[Measurement]:
    """Commits a second, each a swap of its own, between two measurements of what ZooKeeper can."""
    with deployment() as firn:
        tables = firn.create_tables([f"bench.many_{n}" for n in range(WRITERS)])
        plan = zookeeper_peer.Plan(hosts=f"{firn.zookeeper_hosts}", writers=WRITERS, seconds=options.seconds / 2)
        with processor_time() as used:
            ours = firn.drive_all(tables, writers=WRITERS, seconds=options.seconds)
        batch = firn.daemon.intents_per_batch()
        if not ours.failures:
            firn.check_totals([name for name, _ in tables], files=ours.all_committed)
        firn.daemon.stop()
        theirs = run_program("tests.bench.zookeeper_peer", plan, answer=zookeeper_peer.Result, timeout_s=300)
    assert ours.committed, ours.first_failure
    note = (
        f"{batch:.2f} intents a swap; p50 {median(ours.latencies_ms):.0f} ms, p99 "
        f"{percentile(ours.latencies_ms, 99):.0f} ms; {used.note(ours.all_committed)}"
    )
    return [
        measured(
            "tables-64", value=ours.rate, unit="commits/s", peer=theirs.rate, peer_name=PEER, target=0.5,
            n=ours.committed, note=note, failures=ours.failures,
        )
    ]  # fmt: skip


def memory_1000_tables(options: Options) -> list[Measurement]:
    """Resident memory of the daemon at the end; `--seconds` says how long histories get."""
    with deployment() as firn:
        before = firn.daemon.memory_bytes()
        tables = firn.create_tables([f"bench.busy_{n}" for n in range(BUSY_TABLES)])
        ours = firn.drive_all(tables, writers=BUSY_TABLES, seconds=options.seconds, every_s=1.0)
        after = firn.daemon.memory_bytes()
        forgotten = firn.daemon.metrics()["firn_table_states_forgotten_total"]
        if not ours.failures:
            firn.check_totals([name for name, _ in tables], files=ours.all_committed)
    note = (
        f"{before / MEGABYTE:.0f} MB before there were tables; {options.seconds:g} s, {ours.rate:.0f} intents a second "
        f"of the {BUSY_TABLES} wanted; {forgotten:.0f} times a table was forgotten and read again; p99 "
        f"{percentile(ours.latencies_ms, 99) if ours.latencies_ms else 0:.0f} ms. {ours.first_failure}"
    )
    return [
        measured(
            "memory-1000-tables", value=after / MEGABYTE, unit="MB", peer=MEMORY_MB_MAX,
            peer_name=f"the limit of {MEMORY_MB_MAX:g} MB", target=1, n=BUSY_TABLES, note=note, failures=ours.failures,
        )
    ]  # fmt: skip
