"""Two daemons on the shipped configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.stack import DaemonProcess
from tests.deploy.servers import DEPLOY, Quorum, url_of


class Fleet:
    """Two daemons on the shipped configuration; only addresses and the warehouse are this machine's."""

    def __init__(
        self, folder: Path, *, redis_port: int, secrets: Path, quorum: Quorum, settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        url = folder / "redis-url"
        url.write_text(url_of(redis_port, secrets, "daemon"))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "FIRN_CONFIG": str(DEPLOY / "firn.toml"),
            "FIRN_REDIS_URL_FILE": str(url),
            "FIRN_ZOOKEEPER_AUTH_FILE": str(secrets / "zookeeper-auth"),
            "FIRN_HTTP_TOKEN_FILE": str(secrets / "http-token"),
            "FIRN_HTTP_HOST": "127.0.0.1",
            "FIRN_ZOOKEEPER": quorum.hosts,
            "FIRN_WAREHOUSE": str(folder / "warehouse"),
            **(settings or {}),
        }
        self.daemons = [
            DaemonProcess(name, folder, {**self.environment, "FIRN_DAEMON_ID": name}) for name in ("firn-a", "firn-b")
        ]

    def firn(self, *arguments: str) -> str:
        """The output of a `firn` command that must succeed."""
        done = self.tried(*arguments)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def tried(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What became of a `firn` command."""
        return subprocess.run(
            [sys.executable, "-m", "firn", *arguments],
            env={**self.environment, "COLUMNS": "160"}, cwd=self._folder, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
