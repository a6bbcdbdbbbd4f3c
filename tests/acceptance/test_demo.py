"""`firn demo` runs from nothing to its proof."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from firn.coordinator.demo.spark_part import PROGRAM, SparkLine

pytestmark = pytest.mark.alone

LAST_LINE = re.compile(r"proof: ok rows=(\d+) committed=(\d+) rejected=(\d+)")


def test_the_demo_ends_with_a_proof_that_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "firn", "demo", "--seconds", "4", "--writers", "3"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    for said in ("append (Spark)", "replace (Spark)", "Spark: compacted", "Spark: reads"):
        assert said in done.stdout
    found = LAST_LINE.fullmatch(done.stdout.splitlines()[-1])
    assert found, done.stdout[-500:]
    rows, committed, _ = map(int, found.groups())
    assert rows > 0
    assert committed > 0
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "the demo leaves something behind where it was started"


def test_spark_takes_no_part_in_the_demo_without_a_java_for_it(tmp_path: Path) -> None:
    """The program says why; everything else of the demo is as it was."""
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, "redis://127.0.0.1:1", "1"],
        cwd=tmp_path, env=environment, input=b"", capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    (line,) = done.stdout.splitlines()
    told = msgspec.json.decode(line, type=SparkLine)
    assert told.stage == "skipped"
    assert "Spark needs Java" in told.text
