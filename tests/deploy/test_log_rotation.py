"""The shipped settings of logrotate and journald: a daemon logs on through a turn of its log, and nothing grows."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.fleet import Fleet
from tests.deploy.programs import needed
from tests.deploy.servers import DEPLOY, Quorum, wait_until

SHIPPED = DEPLOY / "logrotate" / "firn"
JOURNALD = DEPLOY / "systemd" / "journald.conf.d" / "firn.conf"


def rotation_of(folder: Path) -> Path:
    """The shipped file for the logs in a folder."""
    text = SHIPPED.read_text()
    assert text.count("/var/log/firn/*.log") == 1
    path = folder / "logrotate.conf"
    path.write_text(text.replace("/var/log/firn/*.log", f"{folder}/*.log"))
    path.chmod(0o644)
    return path


def rotate(folder: Path, *options: str) -> str:
    """Run logrotate on the shipped file; what it says."""
    done = subprocess.run(
        [needed("logrotate"), "--state", str(folder / "state"), *options, str(rotation_of(folder))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "error" not in told.lower(), told
    return told


def test_logrotate_takes_the_shipped_file(tmp_path: Path) -> None:
    (tmp_path / "firn.log").write_text("a line\n")
    told = rotate(tmp_path, "--debug")
    assert re.search(r"rotating pattern: \S+/\*\.log\s+after 1 days", told)
    assert "(14 rotations)" in told
    assert (tmp_path / "firn.log").read_text() == "a line\n", "a debug run changes nothing"


def test_journald_keeps_a_bounded_log() -> None:
    settings = configparser.ConfigParser()
    settings.optionxform = str  # type: ignore[method-assign,assignment]
    settings.read(JOURNALD)
    assert settings.sections() == ["Journal"]
    assert {"SystemMaxUse", "SystemKeepFree", "MaxRetentionSec"} <= set(settings["Journal"])
    unit = (DEPLOY / "systemd" / "firn.service").read_text()
    assert "StandardError=journal" in unit


@pytest.mark.acceptance
def test_a_daemon_logs_on_through_a_turn(tmp_path: Path, acl_redis: int, secrets: Path, quorum: Quorum) -> None:
    """What it said before is whole in the turned file, what it says after is whole in the new one."""
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o750)
    fleet = Fleet(tmp_path, redis_port=acl_redis, secrets=secrets, quorum=quorum)
    log = logs / "firn.log"
    environment = {**fleet.environment, "FIRN_DAEMON_ID": "firn-a", "FIRN_HTTP_PORT": "-1"}
    with log.open("ab") as appended:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "firn", "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=appended
        )
    try:
        wait_until(lambda: "daemon started" in log.read_text(), what="the daemon has started")
        rotate(logs, "--force")
        daemon.terminate()
        daemon.wait(timeout=30)
    finally:
        daemon.kill()
        daemon.wait()
    (turned,) = logs.glob("firn.log-*.gz")
    before = subprocess.run(["gzip", "-dc", str(turned)], capture_output=True, text=True, check=True).stdout
    said = [json.loads(line)["event"] for text in (before, log.read_text()) for line in text.splitlines()]
    assert "daemon started" in before
    assert "daemon started" not in log.read_text()
    assert said[-1] == "daemon stopped"
