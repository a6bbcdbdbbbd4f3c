"""Row `takeover`: a daemon is killed, and another goes on with its tables."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from pathlib import Path

from firn.coordinator.client import Client
from firn.model.outcome import Committed
from tests.bench.daemon import READY_S, Daemon, running_daemon
from tests.bench.data_files import SCHEMA, SPEC, content_file, make_facts
from tests.bench.deployment import servers
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

TABLE = "bench.takeover"
SESSION_TIMEOUT_S = 6
KILLS = 3
OUTCOME_S = 120.0
PEER = "the session timeout, after which ZooKeeper gives up a dead daemon's locks"


def takeover(_: Options) -> list[Measurement]:
    """Seconds from the kill of the daemon that has the table to the outcome of an intent that is submitted then."""
    with servers() as (folder, addresses), ExitStack() as stack:
        shared = {"ZOOKEEPER_SESSION_TIMEOUT_S": f"{SESSION_TIMEOUT_S}", "WAREHOUSE": f"{folder / 'warehouse'}"}
        daemons = [
            stack.enter_context(running_daemon(_folder(folder / name), {**addresses, **shared, "DAEMON_ID": name}))
            for name in ("a", "b")
        ]
        client = stack.enter_context(Client(addresses["REDIS_URL"]))
        client.create_table(TABLE, SCHEMA, partition_spec=SPEC).committed(READY_S)
        took_s = [_kill_owner(client, daemons) for _ in range(KILLS)]
    return [
        measured(
            "takeover", value=median(took_s), unit="s", peer=SESSION_TIMEOUT_S, peer_name=PEER, target=None, n=KILLS,
            note=f"two daemons, one killed; most {max(took_s):.1f} s",
        )
    ]  # fmt: skip


def _kill_owner(client: Client, daemons: list[Daemon]) -> float:
    """Kill whoever commits to the table, wait for the other's first commit, and start the killed one again."""
    before = [_won(daemon) for daemon in daemons]
    _append(client)
    (owner,) = (daemon for daemon, won in zip(daemons, before, strict=True) if _won(daemon) > won)
    owner.kill()
    killed_at = time.monotonic()
    _append(client)
    took_s = time.monotonic() - killed_at
    owner.restart()
    return took_s


def _append(client: Client) -> None:
    rng = random.Random()
    file = content_file(make_facts(rng), f"{client.table(TABLE).location}/data/{rng.getrandbits(64):016x}.parquet")
    assert isinstance(client.append(TABLE, [file]).result(OUTCOME_S), Committed)


def _won(daemon: Daemon) -> float:
    return daemon.metrics().get('firn_batches_total{result="won"}', 0.0)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
