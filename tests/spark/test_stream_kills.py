"""A streaming query that is killed again and again loses no row and doubles none."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark import stream_program
from tests.spark.lake import Lake

ROWS = 5
FILES_PER_LIFE = 6
"""A life ends with its second file on the way, or a few later: this many files last for all lives."""

LIFE_S = 300.0

# What a life costs is Java's start: a better compiler and generated code are never earned back.
QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


def started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output)


def killed(process: subprocess.Popen[bytes]) -> None:
    """End it and the Java that it started, if they are there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_a_query_killed_at_random_writes_every_row_once(lake: Lake, tmp_path: Path, kills: int) -> None:
    table = lake.create({"id": "long"})
    landing, checkpoint, log = tmp_path / "landing", tmp_path / "checkpoint", tmp_path / "stream.log"
    landing.mkdir()
    files = FILES_PER_LIFE * kills
    for number in range(files):
        ids = pa.table({"id": range(number * ROWS, (number + 1) * ROWS)})
        pq.write_table(ids, landing / f"{number:03}.parquet")
    settings = {f"spark.firn.{name}": value for name, value in lake.connection.options().items()} | QUICK_START
    command = [sys.executable, stream_program.__file__, table, str(landing), str(checkpoint)]
    command += [f"{name}={value}" for name, value in settings.items()]
    dice = random.Random(20260101)
    commits = checkpoint / "commits"
    for _ in range(kills):
        done = len(list(commits.glob("[0-9]*")))
        process = started(command, log)
        ends_at = time.monotonic() + LIFE_S
        while len(list(commits.glob("[0-9]*"))) <= done and process.poll() is None and time.monotonic() < ends_at:
            time.sleep(0.05)  # it has committed a batch in this life: the next moment is as good as any
        time.sleep(dice.random())
        ended = process.poll()
        killed(process)
        assert ended is None, f"it ended by itself, with {ended}:\n{log.read_text(errors='replace')[-3000:]}"
    last = started(command, log)
    try:
        assert last.wait(LIFE_S) == 0, log.read_text(errors="replace")[-3000:]
    finally:
        killed(last)
    assert lake.ids(table) == list(range(files * ROWS))
