"""Processor time is counted of what this process has started, by program, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.processor_time import Time, Used, processor_time

BUSY_S = 0.3
BURN = f"import time\nwhile time.process_time() < {BUSY_S}: pass\nprint('done', flush=True)\ninput()"


def _burning(*names: str) -> subprocess.Popen[bytes]:
    """A program with these words on its command line, which works for `BUSY_S` and then waits."""
    return subprocess.Popen(
        [sys.executable, "-c", BURN, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    process.communicate(b"\n", timeout=30)


def test_what_a_server_and_a_daemon_use_is_counted_under_their_names() -> None:
    with processor_time() as used:
        processes = [_burning("/opt/valkey-server"), _burning("firn serve"), _burning("something else")]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"done\n"
    for process in processes:
        _end(process)
    assert set(used.programs) == {"Redis", "daemon"}
    assert all(time.total_s >= 0.8 * BUSY_S for time in used.programs.values()), used


def test_what_was_used_before_does_not_count() -> None:
    process = _burning("/opt/valkey-server")
    assert process.stdout is not None
    assert process.stdout.readline() == b"done\n"
    with processor_time() as used:
        pass
    _end(process)
    assert used.programs["Redis"].total_s < BUSY_S / 2


def test_what_processes_of_others_use_does_not_count() -> None:
    spawn = "import subprocess as s, sys; print(s.Popen(sys.argv[1:], stdout=s.DEVNULL).pid, flush=True)"
    orphan = [sys.executable, "-c", "import time; time.sleep(30)", "valkey-server"]
    done = subprocess.run([sys.executable, "-c", spawn, *orphan], stdout=subprocess.PIPE, check=True, timeout=30)
    try:
        with processor_time() as used:
            pass
        assert "Redis" not in used.programs, "its parent has ended, so it is not ours any more"
    finally:
        subprocess.run(["kill", done.stdout.decode().strip()], check=True)


def test_the_note_says_how_many_commits_there_would_be_without_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    used = Used({"daemon": Time(5.0, 1.0), "writing files": Time(2.0, 1.0), "Redis": Time(1.0, 0.5)})
    note = used.note(1_000)
    assert "daemon 5,000 (1,000 kernel), writing files 2,000 (1,000 kernel), Redis 1,000 (500 kernel)" in note
    assert note.endswith("2 cores busy at 1,000 a second")


@pytest.mark.parametrize("used", [Used(), Used({"Redis": Time()}), Used({"daemon": Time(1.0, 0.0)})])
def test_what_is_not_known_is_said_and_stops_no_row(used: Used) -> None:
    assert used.note(1) == "processor time by program is not known"


def test_a_system_without_a_list_of_processes_is_measured_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.bench.processor_time.PROCESSES", tmp_path / "nothing")
    with processor_time() as used:
        pass
    assert used.programs == {}
