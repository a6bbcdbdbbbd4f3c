"""Row `commands`: processor time of commands that look at a deployment, each in a process of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tests.bench.deployment import deployment
from tests.bench.measurement import Measurement, measured, median
from tests.bench.options import Options

TABLE: Final = "bench.commands"
TIMES: Final = 5
COMMANDS: Final = (
    ("version",),
    ("--help",),
    ("table", "list"),
    ("table", "show", TABLE),
    ("journal", TABLE),
    ("tables",),
    ("status",),
    ("conflicts",),
)
PEER: Final = "0.3 s, which nobody notices"
GOAL_S: Final = 0.3


def commands(_: Options) -> list[Measurement]:
    """Seconds of processor time of each command, user and system, on a table with a few commits."""
    with deployment() as firn:
        firn.drive(TABLE, writers=1, seconds=1)
        environment = {
            **os.environ, "FIRN_REDIS_URL": firn.redis_url, "FIRN_ZOOKEEPER": firn.zookeeper_hosts,
            "FIRN_WAREHOUSE": f"{firn.folder / 'warehouse'}",
        }  # fmt: skip
        nothing = median([_processor_s((sys.executable, "-c", "pass"), environment) for _ in range(TIMES)])
        return [
            measured(
                f"commands: firn {' '.join(command)}",
                value=median([
                    _processor_s((sys.executable, "-m", "firn", *command), environment) for _ in range(TIMES)
                ]),
                unit="s", peer=GOAL_S, peer_name=PEER, target=1.0, n=TIMES,
                note=f"an interpreter that does nothing takes {nothing:.3f} s",
            )
            for command in COMMANDS
        ]  # fmt: skip


def _processor_s(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=dict(environment), stdout=subprocess.DEVNULL, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
