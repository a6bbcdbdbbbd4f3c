"""A deployment with a REST catalog, and a recorder in front of it that every client of a test talks to."""

from __future__ import annotations

import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from firn.coordinator.cli.main import COMMANDS
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.coordinator.embedded.server import free_port
from tests.acceptance.stack import Stack
from tests.interop.rest_recorder import Recorder
from tests.interop.rest_specification import unknown_endpoints

READY_S: Final = 30.0


class RestStack(msgspec.Struct, frozen=True, kw_only=True):
    """What a test of the catalog needs."""

    stack: Stack
    recorder: Recorder

    @property
    def uri(self) -> str:
        """Where clients find the catalog: at the recorder."""
        return self.recorder.uri

    def check(self, table: str) -> None:
        """Fail unless fsck finds the table in order."""
        done = self.stack.firn("fsck", table, timeout_s=120)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@contextlib.contextmanager
def rest_stack(folder: Path, redis: RedisServer, zookeeper: ZooKeeperServer) -> Iterator[RestStack]:
    """Start a daemon with a catalog over an empty warehouse; at the end, fail if an answer broke the specification."""
    if "catalog" not in COMMANDS:
        pytest.skip("needs `firn catalog`, which this firn does not have")
    folder.mkdir(exist_ok=True)
    with Stack(folder, redis_server=redis, zookeeper_server=zookeeper) as stack:
        stack.redis.flushall()
        port = free_port()
        stack.daemon(CATALOG_PORT=str(port))
        target = f"http://127.0.0.1:{port}"
        configuration = _configuration(target, stack)
        assert unknown_endpoints(configuration["endpoints"]) == []
        with Recorder(target) as recorder:
            yield RestStack(stack=stack, recorder=recorder)
            faults = recorder.faults()
        assert not faults, f"{len(faults)} answers that the specification does not allow, the first: {faults[:10]}"


def _configuration(target: str, stack: Stack) -> dict[str, Any]:
    """Wait until the catalog answers; what it says of itself."""
    ends_at = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(f"{target}/v1/config", timeout=2) as answer:
                found: dict[str, Any] = msgspec.json.decode(answer.read())
                return found
        except (urllib.error.URLError, OSError):
            log = "".join(daemon.log()[-3000:] for daemon in stack.daemons.values())
            assert time.monotonic() < ends_at, f"no catalog at {target} in {READY_S} s:\n{log}"
            time.sleep(0.1)
