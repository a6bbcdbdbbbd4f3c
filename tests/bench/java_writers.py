"""Row `writers-16-java`: sixteen writers on one table, closed loop, against as many threads with Iceberg Java."""

from __future__ import annotations

from tests.bench.deployment import deployment
from tests.bench.java_peer import JavaPeer
from tests.bench.many_writers import TIMES_SECONDS, WRITERS
from tests.bench.measurement import Measurement, measured, median, percentile
from tests.bench.options import Options
from tests.interop.features import ICEBERG_JAVA

WARM_UP_S = 15.0
"""A JVM compiles at first; firn's writers have one second."""

PEER = f"Iceberg Java {ICEBERG_JAVA}, {WRITERS} threads of a JVM, JDBC catalog in its memory, fast append, own retries"


def writers_16_java(options: Options) -> list[Measurement]:
    """Commits a second, and the latency that one in a hundred exceeds."""
    seconds = TIMES_SECONDS * options.seconds
    with deployment() as firn:
        peer = JavaPeer(firn.folder / "java")
        ours = firn.drive("bench.writers", writers=WRITERS, seconds=seconds)
        firn.daemon.stop()
        theirs = peer.run(firn.folder / "peer", writers=WRITERS, seconds=seconds, warm_up_s=WARM_UP_S)
    assert ours.committed, ours.first_failure
    assert theirs.committed, "the peer committed nothing in the time"
    p99, peer_p99 = percentile(ours.latencies_ms, 99), percentile(theirs.latencies_ms, 99)
    note = (
        f"p50 {median(ours.latencies_ms):.1f} against {median(theirs.latencies_ms):.0f} ms, p99 {p99:.1f} against "
        f"{peer_p99:.0f} ms; {theirs.gave_up} given up by the peer"
    )
    return [
        measured(
            "writers-16-java", value=ours.rate, unit="commits/s", peer=theirs.rate, peer_name=PEER, target=50,
            n=ours.committed, note=note, failures=ours.failures,
        )
    ]  # fmt: skip
