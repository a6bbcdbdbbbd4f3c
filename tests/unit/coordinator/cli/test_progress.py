"""Long commands show how far they are on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from types import ModuleType

import pytest
from rich.console import Console

from firn.coordinator.cli import doctor, recover
from firn.coordinator.cli.output import Output
from firn.coordinator.cli.progress import INTERVAL_S, ProgressLine, showing_progress
from firn.coordinator.cli.progress_bars import progress_bars
from firn.coordinator.fsck.run import check_table
from firn.coordinator.recovery.run import Storage, survey
from firn.storage.pointers import Pointers
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.recovery.test_recover import lose_servers
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, append, create

COMMITS = 4
SEGMENTS = COMMITS + 1


class Seen:
    """Everything that was reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int | None]] = []

    def __call__(self, what: str, number: int, total: int | None) -> None:
        self.reports.append((what, number, total))

    def of(self, what: str) -> list[tuple[int, int | None]]:
        return [(number, total) for name, number, total in self.reports if name == what]


class TerminalError(io.StringIO):
    def isatty(self) -> bool:
        return True


async def with_commits(bench: CliBench) -> None:
    async with bench.daemon():
        await bench.commit(create(TABLE))
        for number in range(COMMITS):
            await bench.commit(append(f"f{number}"))


def up_to(count: int) -> list[tuple[int, int | None]]:
    return [(number, count) for number in range(1, count + 1)]


async def test_a_check_reports_each_segment_version_and_snapshot():
    bench, seen = CliBench(), Seen()
    await with_commits(bench)
    pointer = (await Pointers(bench.zookeeper.connect()).read(TABLE)).pointer
    verdict = check_table(pointer, files=bench.files, limits=bench.limits, progress=seen)
    assert seen.of("journal segment") == up_to(SEGMENTS) == up_to(verdict.checked.segments)
    assert seen.of("version") == up_to(verdict.checked.versions)
    assert seen.of("snapshot") == up_to(verdict.checked.snapshots)
    assert seen.of("file") == up_to(len(seen.of("file")))
    assert len(seen.of("file")) >= verdict.checked.files


async def test_a_recovery_reports_each_segment_and_table():
    bench, seen = CliBench(), Seen()
    await with_commits(bench)
    storage = Storage(bench.files, limits=bench.limits)
    journals = storage.journals([WAREHOUSE], progress=seen)
    survey(storage, journals, existing=(), witness=lambda _: None, progress=seen)
    found = [(number, None) for number in range(1, SEGMENTS + 1)]
    assert seen.of("journal segment") == [*found, *up_to(SEGMENTS)]
    assert seen.of("table") == [(1, 1)]


def seen_by(command: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that a command would draw on a terminal, in the order of their numbers."""
    texts: list[str] = []

    class Line(ProgressLine):
        def _draw(self, text: str, number: int, total: int | None) -> None:
            texts.append(text)

        def __call__(self, what: str, number: int, total: int | None) -> None:
            texts.append(f"{what} {number} of {total}")

    monkeypatch.setattr(command, "showing_progress", lambda _: nullcontext(Line(None)))
    return texts


async def test_the_last_step_of_a_recovery_reports_each_pointer_and_what_redis_is_told(monkeypatch):
    bench, texts = CliBench(), seen_by(recover, monkeypatch)
    await with_commits(bench)
    lose_servers(bench)
    assert (await bench.firn("recover", "--location", WAREHOUSE, "--yes")).code == 0
    assert texts[-2:] == ["pointer 1 of 1", "table announced in Redis 1 of 1"]


async def test_doctor_reports_each_check_and_each_pointer(monkeypatch):
    bench, texts = CliBench(), seen_by(doctor, monkeypatch)
    await with_commits(bench)
    await bench.firn("doctor")
    assert {"Redis", "ZooKeeper", "daemons", "warehouse"} <= set(texts)
    assert texts[-1] == "pointer 1 of 1"


@pytest.mark.parametrize(
    "arguments",
    [("fsck", TABLE), ("fsck", "--all"), ("recover", "--location", WAREHOUSE), ("doctor",)],
)
@pytest.mark.parametrize("as_json", [False, True])
async def test_pipes_get_nothing_of_it(arguments: Sequence[str], as_json: bool):
    bench = CliBench()
    await with_commits(bench)
    if arguments[0] == "recover":
        lose_servers(bench)
    said = await bench.firn(*arguments, *(["--json"] if as_json else []))
    assert said.out
    assert "\x1b" not in said.out
    plain = ("firn: looking for journals below", "firn: 5 journal segments of 1 name")
    assert [line for line in said.err.splitlines() if not line.startswith(plain)] == []


@pytest.mark.parametrize(
    ("terminal", "as_json", "shows"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_only_a_terminal_gets_it_and_not_with_json(monkeypatch, terminal: bool, as_json: bool, shows: bool):
    stream = TerminalError() if terminal else io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with showing_progress(Output(as_json=as_json, file=io.StringIO())) as progress:
        progress("version", 1, 2_900)
    assert ("version 1 of 2,900" in stream.getvalue()) is shows
    assert bool(stream.getvalue()) is shows


def drawn(*reports: tuple[str, int, int | None], width: int = 80, name: str = "db.events") -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, _environ={"TERM": "xterm"})
    with progress_bars(console) as bars:
        progress = ProgressLine(bars)
        progress.within("table", 3, 12, name)
        for one in reports:
            progress(*one)
        bars.refresh()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_line_says_which_table_and_how_far():
    assert "table 3 of 12, db.events: version 1 of 2,900" in drawn(("version", 1, 2_900))
    assert "table 3 of 12, db.events: journal segment 1 " in drawn(("journal segment", 1, None))


def test_a_long_name_is_folded_and_its_control_characters_are_not_written():
    text = drawn(("version", 1, 2), name="db." + "n" * 90 + "\x07[red]")
    assert "…" not in text
    assert text.count("n" * 10) >= 9
    assert "\x07" not in text
    assert "[red]" in text.replace("\n", "")


def test_a_million_reports_are_drawn_a_few_times():
    began_s = time.monotonic()
    text = drawn(*(("file", number, 100_000) for number in range(1, 100_001)))
    took_s = time.monotonic() - began_s
    assert "of 100,000" in text
    assert text.count("table 3 of 12") <= 10 + 2 * took_s / INTERVAL_S + 10 * took_s  # rich draws ten times a second


INTERRUPTED = """
import time
from firn.coordinator.cli.output import Output
from firn.coordinator.cli.progress import showing_progress
with showing_progress(Output(as_json=False)) as progress:
    for number in range(1, 1000):
        progress("version", number, 1000)
        time.sleep(0.05)
"""


def test_an_interrupted_line_is_removed_and_the_cursor_is_there_again():
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(terminal)
    text = b""
    while not re.search(rb"version \d+ of 1,000", text):
        text += os.read(controller, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while part := os.read(controller, 4096):
            text += part
    except OSError:  # the other end was closed: on Linux that is how a terminal ends
        pass
    os.close(controller)
    out, _ = process.communicate(timeout=20)
    assert out == b""
    assert process.returncode != 0
    line, _, rest = text.rpartition(b"\x1b[2K")
    assert b"version" in line
    assert b"\x1b[?25h" in line + rest
    assert b" of 1,000" not in rest
