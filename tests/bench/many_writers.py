"""Row `writers-16`: sixteen writers on one table, closed loop, against as many processes with PyIceberg."""

from __future__ import annotations

from tests.bench import pyiceberg_peer
from tests.bench.deployment import deployment, run_program
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options

WRITERS = 16
PEER_S_MAX = 600.0
PEER = f"PyIceberg, {WRITERS} processes, SQL catalog on SQLite, fast append, own retries"


def writers_16(options: Options) -> list[Measurement]:
    """Commits a second, and the latency that one in a hundred exceeds."""
    with deployment() as firn:
        ours = firn.drive("bench.writers", writers=WRITERS, seconds=options.seconds)
        batch = firn.daemon.intents_per_batch()
        firn.daemon.stop()
        plan = pyiceberg_peer.Plan(folder=str(firn.folder / "peer"), writers=WRITERS, seconds=options.seconds)
        theirs = run_program("tests.bench.pyiceberg_peer", plan, answer=pyiceberg_peer.Result, timeout_s=PEER_S_MAX)
    assert ours.committed, ours.first_failure
    assert theirs.committed, "the peer committed nothing in the time"
    p50, p99 = median(ours.latencies_ms), percentile(ours.latencies_ms, 99)
    peer_p50, peer_p99 = median(theirs.latencies_ms), percentile(theirs.latencies_ms, 99)
    note = (
        f"{batch:.1f} intents a batch; {theirs.attempts / theirs.all_committed:.1f} attempts a commit of the peer's, "
        f"{theirs.gave_up} given up; firn expires nothing yet"
    )
    return [
        measured(
            "writers-16", value=ours.rate, unit="commits/s", peer=theirs.rate, peer_name=PEER, target=350,
            n=ours.committed, note=note, failures=ours.failures,
        ),
        measured(
            "writers-16-p99", value=p99, unit="ms", peer=peer_p99, peer_name=PEER, target=400, n=ours.committed,
            note=f"p50 {p50:.1f} against {peer_p50:.0f} ms, of commits that ended in the time", failures=ours.failures,
        ),
    ]  # fmt: skip
