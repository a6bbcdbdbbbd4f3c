"""Small files and silent connections that would cost gigabytes, minutes and every file descriptor."""

from __future__ import annotations

import gzip
import json
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any, Final

from firn.model.identifiers import uuid7
from firn.model.intent import Intent, RegisterTable, encode_intent
from firn.model.operations.upkeep import UpdateProperties
from firn.model.outcome import Committed, Outcome, Rejected, decode_outcome
from firn.model.sharding import shard_of
from tests.acceptance.stack import SHARDS, DaemonProcess, Stack

MEMORY_BYTES_MAX: Final = 1024**3
"""What a daemon may have held at its peak: each bomb takes five times as much when it is decoded."""

OTHERS_WAIT_S: Final = 10.0
"""What a commit of another table may take: it took more than a minute."""

DESCRIPTORS_MAX: Final = 400
HALF_OPEN: Final = 1_010

BOMBS: Final[dict[str, bytes]] = {
    "zzz": b'{"format-version":2,"zzz":[' + b"[]," * 33_000_000 + b"[]]}",
    "properties": b'{"properties":{' + b",".join(b'"p%07d":"v"' % n for n in range(6_000_000)) + b"}}",
}


def test_bombs_of_metadata_are_refused_and_nobody_notices(stack: Stack) -> None:
    daemon = stack.daemon("a")
    stack.create_table()
    pid, ended = daemon.pid, threading.Event()
    waits: list[float] = []
    others = threading.Thread(target=commit_on, args=(stack, ended, waits))
    others.start()
    try:
        for member, text in BOMBS.items():
            location = plant(stack.warehouse / member, text)
            intent = RegisterTable(intent_id=new_id(), table=f"db.{member}", metadata_location=location)
            outcome = outcome_of(stack, intent, within_s=60)
            assert isinstance(outcome, Rejected), outcome
            assert (outcome.rule, outcome.hint) == ("metadata-too-large", "fix")
            assert f"{location}.{member}" in outcome.message
    finally:
        ended.set()
        others.join(60)
    stack.wait_settled()
    assert waits
    assert max(waits) < OTHERS_WAIT_S
    assert (daemon.running, daemon.pid) == (True, pid)
    assert peak_bytes(daemon) < MEMORY_BYTES_MAX
    assert daemon.log_records("error") == []


def test_half_open_connections_stop_neither_commits_nor_readiness(stack: Stack) -> None:
    daemon = stack.daemon("a")
    stack.create_table()
    crowd = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(HALF_OPEN)]
    try:
        for one in crowd[::2]:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n") if not is_ended(one) else None
        assert daemon.open_files() < DESCRIPTORS_MAX
        assert daemon.get("/readyz") is not None
        stack.redis_server.kill()
        stack.redis_server.start()
        assert isinstance(outcome_of(stack, properties(0), within_s=30), Committed)
        daemon.wait_ready()
    finally:
        for one in crowd:
            one.close()
    about = [record for record in daemon.log_records("warning", "error") if "http" in record["event"]]
    assert [record["event"] for record in about] == ["http connections ended"]


def commit_on(stack: Stack, ended: threading.Event, waits: list[float]) -> None:
    """Commit to a table of its own, one after the other, and note how long each commit took."""
    number = 0
    while not ended.is_set():
        began, number = time.monotonic(), number + 1
        outcome_of(stack, properties(number), within_s=60)
        waits.append(time.monotonic() - began)


def properties(number: int) -> UpdateProperties:
    return UpdateProperties(intent_id=new_id(), table="db.events", updates={"n": str(number)})


def plant(folder: Path, text: bytes) -> str:
    """The location of a small metadata file that unpacks to this text."""
    path = folder / "metadata" / "00001-a.gz.metadata.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text, 6))
    return str(path)


def outcome_of(stack: Stack, intent: Intent, *, within_s: float) -> Outcome:
    """Queue an intent, without a client that would submit it again, and wait for its outcome."""
    stack.redis.xadd(stack.names.intents(shard_of(intent.table, shards=SHARDS)), {"intent": encode_intent(intent)})
    ends_at = time.monotonic() + within_s
    while time.monotonic() < ends_at:
        data: Any = stack.redis.get(stack.names.outcome(intent.intent_id))
        if data is not None:
            return decode_outcome(data)
        time.sleep(0.01)
    raise AssertionError(f"no outcome of {json.dumps(intent.table)} within {within_s} s")


def peak_bytes(daemon: DaemonProcess) -> int:
    """The most memory that the daemon has held."""
    lines = Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def is_ended(connection: socket.socket) -> bool:
    """Whether the daemon has ended the connection."""
    connection.setblocking(False)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.setblocking(True)


def new_id() -> str:
    return uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))
