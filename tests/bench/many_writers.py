"""Row `writers-16`: sixteen writers on one table, closed loop, against as many processes with PyIceberg."""

from __future__ import annotations

import msgspec

from tests.bench import lean_writers, pyiceberg_peer
from tests.bench.deployment import deployment, run_program
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options

WRITERS = 16
TIMES_SECONDS = 3
"""So many times `Options.seconds` everybody writes, half a minute by default: a history slows down who copies it."""

PEER_S_MAX = 600.0
PEER = f"PyIceberg, {WRITERS} processes, SQL catalog on SQLite, fast append, own retries"
PATCHED = f"{PEER}, its deep copies of metadata patched out"
KEEPS_ALL = {"firn.expire-on-commit": "false"}


def writers_16(options: Options) -> list[Measurement]:
    """Commits a second, and the latency that one in a hundred exceeds; with default retention and without any.

    PyIceberg expires nothing by itself.
    """
    seconds = TIMES_SECONDS * options.seconds
    with deployment() as firn:
        ours = firn.drive("bench.writers", writers=WRITERS, seconds=seconds)
        batch = firn.daemon.intents_per_batch()
        whole = firn.drive("bench.whole", writers=WRITERS, seconds=seconds, properties=KEEPS_ALL)
        firn.daemon.stop()
        plan = pyiceberg_peer.Plan(folder=str(firn.folder / "peer"), writers=WRITERS, seconds=seconds)
        theirs = _peer(plan)
        patched = _peer(msgspec.structs.replace(plan, folder=str(firn.folder / "patched"), patched=True))
    assert theirs.committed, "the peer committed nothing in the time"
    assert patched.committed, "the patched peer committed nothing in the time"
    note = (
        f"{batch:.1f} intents a batch; {theirs.attempts / theirs.all_committed:.1f} attempts a commit of the peer's, "
        f"{theirs.gave_up} given up"
    )
    return [
        _rate("writers-16", ours, theirs, peer=PEER, target=350, note=note),
        _p99(ours, theirs),
        _rate("writers-16-nothing-expired", whole, theirs, peer=PEER, target=180, note="every snapshot is kept"),
        _rate("writers-16-patched-peer", ours, patched, peer=PATCHED, target=None, note="default retention"),
    ]


def _peer(plan: pyiceberg_peer.Plan) -> pyiceberg_peer.Result:
    return run_program("tests.bench.pyiceberg_peer", plan, answer=pyiceberg_peer.Result, timeout_s=PEER_S_MAX)


def _rate(
    name: str,
    ours: lean_writers.Result,
    theirs: pyiceberg_peer.Result,
    *,
    peer: str,
    target: float | None,
    note: str,
) -> Measurement:
    assert ours.committed, ours.first_failure
    return measured(
        name, value=ours.rate, unit="commits/s", peer=theirs.rate, peer_name=peer, target=target, n=ours.committed,
        note=f"{note}; p99 {percentile(ours.latencies_ms, 99):.1f} ms", failures=ours.failures,
    )  # fmt: skip


def _p99(ours: lean_writers.Result, theirs: pyiceberg_peer.Result) -> Measurement:
    p50, peer_p50 = median(ours.latencies_ms), median(theirs.latencies_ms)
    return measured(
        "writers-16-p99", value=percentile(ours.latencies_ms, 99), unit="ms", peer=percentile(theirs.latencies_ms, 99),
        peer_name=PEER, target=400, n=ours.committed, failures=ours.failures,
        note=f"p50 {p50:.1f} against {peer_p50:.0f} ms, of commits that ended in the time",
    )  # fmt: skip
