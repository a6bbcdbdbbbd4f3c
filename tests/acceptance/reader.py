"""A reader of the documentation: a folder, a firn of their own, a shell and a Python, in which a page's blocks are run.

What a reader has is there: `firn`, `python` and `redis-cli` on the path, `firn serve --embedded` in another terminal,
and the project's folders. Addresses in the text are those that a machine without other servers has; here they are
replaced by those of the reader's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.documents import ROOT, Block

READY_S: Final = 60.0
BLOCK_S: Final = 90.0
END_S: Final = 40.0
SHELL: Final = ["bash", "-euo", "pipefail", "-c"]
LENT: Final = ("deploy", "docs", "grafana")
"""Folders of the project that commands name."""

PYTHON: Final = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    block, said, error = json.loads(line), io.StringIO(), None
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(block["text"], block["name"], "exec"), names)
        except BaseException:
            error = traceback.format_exc()
    print(json.dumps({"said": said.getvalue(), "error": error}), flush=True)
"""
"""A reader's Python, in which the blocks of a page follow one another."""

IN_SHORT: Final = re.compile(r"(…)|([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|(\d[\d.,]*)|(\s+)")


class Reader:
    """Somebody who follows a page with the programs of one environment: that of the tests, or another's `programs`."""

    def __init__(self, folder: Path, *, programs: Path | None = None) -> None:
        self.folder = folder
        own = Path(sys.executable).parent if programs is None else programs
        self._python_program = str(own / "python")
        for name in LENT:
            (folder / name).symlink_to(ROOT / name)
        on_path = [str(own)]
        if shutil.which("redis-cli") is None:
            (folder / ".bin").mkdir()
            stand_in = folder / ".bin" / "redis-cli"
            stand_in.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("redis_cli.py")}" "$@"\n'
            )
            stand_in.chmod(0o755)
            on_path.append(str(stand_in.parent))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRN_")},
            "PATH": os.pathsep.join([*on_path, os.environ["PATH"]]),
            "COLUMNS": "200",
        }
        self.errors = (folder / "serve.log").open("wb")
        self.daemon = subprocess.Popen(
            [str(own / "firn"), "serve", "--embedded"], cwd=folder, env=self.environment | {"FIRN_HTTP_PORT": "0"},
            stdout=self.errors, stderr=self.errors,
        )  # fmt: skip
        self._python: subprocess.Popen[str] | None = None
        self._addresses: dict[str, str] = {}

    def wait_ready(self) -> None:
        endpoints = self.folder / "data" / "endpoints.json"
        ends_at = time.monotonic() + READY_S
        while not endpoints.exists():
            assert self.daemon.poll() is None, self.log
            assert time.monotonic() < ends_at, self.log
            time.sleep(0.05)
        found = json.loads(endpoints.read_text())
        self._addresses = {
            "redis://127.0.0.1:6379/0": found["redis-url"],
            "127.0.0.1:2181": found["zookeeper-hosts"],
            "http://127.0.0.1:8080": found["http"],
        }

    @property
    def log(self) -> str:
        return (self.folder / "serve.log").read_text(errors="replace")[-3000:]

    def runs(self, block: Block) -> None:
        """Do what the block says, and compare what it prints with what it shows."""
        match block.language:
            case "python":
                self._runs_python(block)
            case "console":
                for command, shown in block.steps:
                    said = self._runs_shell(block, command)
                    if not block.sample:
                        check_printed(block, shown, said)
            case _:
                self._runs_shell(block, block.text)

    def _here(self, text: str) -> str:
        for usual, own in self._addresses.items():
            text = text.replace(usual, own)
        return text

    def _runs_shell(self, block: Block, command: str) -> str:
        done = subprocess.run(
            [*SHELL, self._here(command)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BLOCK_S, check=False,
        )  # fmt: skip
        assert done.returncode == block.exit_code, f"{block}: {command}\nended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _runs_python(self, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [self._python_program, "-c", PYTHON], cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self.errors, text=True,
            )  # fmt: skip
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps({"name": str(block), "text": self._here(block.text)}) + "\n")
        self._python.stdin.flush()
        answer: dict[str, Any] = json.loads(self._python.stdout.readline())
        assert answer["error"] is None, f"{block}:\n{answer['error']}\nit printed:\n{answer['said']}"

    def end(self) -> None:
        """Leave nothing behind."""
        if self._python is not None:
            assert self._python.stdin is not None
            self._python.stdin.close()
            self._python.wait(END_S)
            assert self._python.stdout is not None
            self._python.stdout.close()
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
        try:
            self.daemon.wait(END_S)
        finally:
            self.daemon.kill()
            self.errors.close()


def check_printed(block: Block, shown: list[str], said: str) -> None:
    """Each line shown was printed, in this order; numbers, ids and widths may differ, and ``…`` stands for anything."""
    printed: Iterator[str] = iter(said.splitlines())
    for line in shown:
        pattern = re.compile(like(line))
        assert any(pattern.fullmatch(one.strip()) for one in printed), (
            f"{block}: shows {line!r}, but it printed\n{said}"
        )


def like(line: str) -> str:
    """A regular expression for lines that say the same of other numbers."""
    out, at = [], 0
    line = line.strip()
    for found in IN_SHORT.finditer(line):
        out.append(re.escape(line[at : found.start()]))
        anything, uuid, number, _ = found.groups()
        out.append(".*" if anything else "[0-9a-f-]{36}" if uuid else r"\d[\d.,]*" if number else r"\s+")
        at = found.end()
    return "".join(out) + re.escape(line[at:])
