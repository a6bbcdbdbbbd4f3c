"""A streaming query that is killed again and again loses no row and doubles none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.spark import stream_program
from tests.spark.lake import Lake

FILES = 60
ROWS = 5
KILLS = 10


def started(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_query_killed_ten_times_writes_every_row_once(lake: Lake, tmp_path: Path) -> None:
    table = lake.create({"id": "long"})
    landing, checkpoint = tmp_path / "landing", tmp_path / "checkpoint"
    for number in range(FILES):
        rows = lake.spark.range(number * ROWS, (number + 1) * ROWS).coalesce(1)
        rows.write.mode("append").parquet(str(landing))
    settings = {f"spark.firn.{name}": value for name, value in lake.connection.options().items()}
    settings |= {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    command = [sys.executable, stream_program.__file__, table, str(landing), str(checkpoint)]
    command += [f"{name}={value}" for name, value in settings.items()]
    dice = random.Random(20260101)
    commits = checkpoint / "commits"
    for _ in range(KILLS):
        done = len(list(commits.glob("[0-9]*")))
        process = started(command)
        while len(list(commits.glob("[0-9]*"))) <= done and process.poll() is None:
            time.sleep(0.05)  # it runs: the next moment is as good as any
        time.sleep(dice.random())
        assert process.poll() is None, "it has come to its end before it was killed often enough"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert started(command).wait(900) == 0
    assert lake.ids(table) == list(range(FILES * ROWS))
