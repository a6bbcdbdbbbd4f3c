"""`firn demo` runs from nothing to its proof."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from firn.coordinator.demo.spark_part import PROGRAM, SparkLine

pytestmark = pytest.mark.alone

READY = "Everything is still running"
ACTORS = "starting 1 writer"
GONE_S = 20.0

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
        [sys.executable, "-m", PROGRAM, "redis://127.0.0.1:1", "1", str(os.getpid())],
        cwd=tmp_path, env=environment, input=b"", capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    (line,) = done.stdout.splitlines()
    told = msgspec.json.decode(line, type=SparkLine)
    assert told.stage == "skipped"
    assert "Spark needs Java" in told.text


def started(mark: str) -> dict[int, str]:
    """The command lines of all processes that have the mark in their environment, by process id."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark.encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


@contextmanager
def demo(tmp_path: Path, mark: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "DEMO_MARK": mark, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(
        [sys.executable, "-m", "firn", "demo", "--no-spark", "--writers", "1", *options],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield running
    finally:
        running.kill()
        running.communicate()
        for pid in started(mark):
            os.kill(pid, signal.SIGKILL)


def read_until(running: subprocess.Popen[str], words: str) -> None:
    assert running.stdout is not None
    said = []
    for line in running.stdout:
        said.append(line)
        if words in line:
            return
    pytest.fail(f"it ended before it said {words!r}: {''.join(said)[-2000:]}")


def wait_until_gone(mark: str) -> None:
    ends_at = time.monotonic() + GONE_S
    while left := started(mark):
        assert time.monotonic() < ends_at, left
        time.sleep(0.1)


def test_a_signal_ends_a_demo_that_was_kept_and_all_that_it_started(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with demo(tmp_path, mark, "--seconds", "1", "--keep") as running:
        read_until(running, READY)
        assert any("firn serve" in command for command in started(mark).values())
        running.send_signal(signal.SIGTERM)
        assert running.wait(GONE_S) == 143
        wait_until_gone(mark)
    assert list(tmp_path.iterdir()) == [], "its folder is still there"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_demo_that_is_ended_at_work_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    with demo(tmp_path, mark, "--seconds", "600") as running:
        read_until(running, ACTORS)
        while not any("demo.actors" in command for command in started(mark).values()):
            time.sleep(0.05)
        running.send_signal(number)
        code = running.wait(GONE_S)
        wait_until_gone(mark)
    assert code == {signal.SIGHUP: 129, signal.SIGKILL: -9}[number]


def test_a_child_of_the_demo_ends_with_it(tmp_path: Path) -> None:
    """Also one that waits for something that will not come, as Spark does for servers that are gone."""
    child = (
        "import os, sys, time; from firn.coordinator.demo.ending import end_with; "
        "end_with(int(sys.argv[1])); print(os.getpid(), flush=True); time.sleep(600)"
    )
    parent = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}, str(os.getpid())])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        process = Path("/proc") / running.stdout.readline().strip()
        running.kill()
    ends_at = time.monotonic() + GONE_S
    while process.exists():
        assert time.monotonic() < ends_at, "it is still there"
        time.sleep(0.05)
