"""`firn spark` where Redis and ZooKeeper ask for certificates and a password: it is let in as the daemon is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.stack import DaemonProcess
from tests.integration.tls_servers import Sealed, sealed_servers
from tests.spark.test_spark_commands import QUICK_START, START_S

TABLE = "demo.sealed"


@pytest.fixture
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    with sealed_servers(tmp_path_factory.mktemp("sealed")) as running:
        yield running


def test_a_command_is_let_in_with_secrets_from_files(sealed: Sealed) -> None:
    """Which it needs in its own process, for the client and for maintenance, and never tells Spark."""
    environment = sealed.environment()
    for name in ("FIRN_REDIS_URL", "FIRN_ZOOKEEPER_AUTH", "FIRN_ZOOKEEPER_TLS_KEY_PASSWORD"):
        secret = sealed.folder / name.lower()
        secret.write_text(environment.pop(name) + "\n")
        environment[f"{name}_FILE"] = str(secret)

    def firn(*arguments: str) -> Any:
        command = [sys.executable, "-m", "firn", *arguments, "--json"]
        done = subprocess.run(
            command, env=environment, cwd=sealed.folder, capture_output=True, text=True, timeout=START_S, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return json.loads(done.stdout)

    daemon = DaemonProcess("sealed", sealed.folder, environment).start()
    try:
        told = firn("spark", "submit-demo", "--table", TABLE, "--rows", "60", *QUICK_START)
        assert (told["rows-appended"], told["rows-in-table"]) == (60, 60)
        assert firn("spark", "expire", TABLE, "--older-than", "0s")["answer"]["status"] == "committed"
        assert [plan["health"]["table"] for plan in firn("maintain", "plan", TABLE)["plans"]] == [TABLE]
    finally:
        daemon.end()
