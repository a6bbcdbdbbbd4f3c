"""The stack that tests stand on leaves nothing running, however the tests end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.acceptance.stack import Stack

KILLED_SOON = """
import sys, time
from pathlib import Path
from tests.acceptance.stack import DaemonProcess

daemon = DaemonProcess("left", Path(sys.argv[1]), {"FIRN_REDIS_URL": sys.argv[2], "FIRN_ZOOKEEPER": sys.argv[3]})
daemon.start()
print(daemon.pid, flush=True)
time.sleep(600)
"""


def test_a_daemon_ends_with_tests_that_are_killed(stack: Stack) -> None:
    servers = (stack.redis_url, stack.zookeeper_server.hosts)
    tests = subprocess.Popen(
        [sys.executable, "-c", KILLED_SOON, str(stack.folder), *servers],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    with tests:
        assert tests.stdout is not None
        daemon = Path("/proc") / tests.stdout.readline().strip()
        assert daemon.exists()
        tests.kill()
    ends_at = time.monotonic() + 10
    while daemon.exists():
        assert time.monotonic() < ends_at, "it is still there"
        time.sleep(0.05)
