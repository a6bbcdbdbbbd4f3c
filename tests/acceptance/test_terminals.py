"""On a narrow terminal every command shows the ids and numbers that a wide one shows, whole."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from typing import Final

import pytest

from tests.acceptance.stack import Stack
from tests.acceptance.test_servers_away import COMMANDS, filled

WIDE: Final = 400
SILENT_S: Final = 15.0
LOOKS: Final = frozenset({
    "conflicts", "doctor", "events", "explain", "fsck", "journal", "outcome", "recover", "reservations", "shard",
    "status", "tables", "top", "version",
})  # fmt: skip
LOOKS_AT_SOMETHING: Final = frozenset({"check", "dropped", "files", "history", "list", "plan", "show"})
CHANGES: Final = (
    "file append", "schema add-column", "tag create", "branch create", "table drop", "property set", "begin",
    "consumer set", "submit",
)  # fmt: skip
"""Some of all kinds, so that there is something to look at: commits, rejections, references, reservations."""

PROGRAM: Final = """
import json, shlex, sys
from firn.coordinator.cli.main import run
for line in json.loads(sys.argv[1]):
    print(f"\\x1e{line}\\x1f", flush=True)
    run(shlex.split(line))
    sys.stdout.flush()
"""
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WHOLE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\d.])\d{10,}(?![\d.])")
"""Ids of intents and batches, and of snapshots."""


def is_a_look(line: str) -> bool:
    first, *others = line.split()
    return first in LOOKS or (bool(others) and others[0] in LOOKS_AT_SOMETHING and first != "completion")


def on_a_terminal(stack: Stack, lines: Sequence[str], *, columns: int) -> dict[str, str]:
    """What each command shows on a terminal of so many columns, without colors."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {**os.environ, **stack.environment(), "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)], stdin=terminal, stdout=terminal, stderr=terminal,
        env=environment, cwd=stack.folder,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    try:
        while select.select([controller], [], [], SILENT_S)[0] and (part := os.read(controller, 65536)):
            shown += part
    except OSError:  # the other end was closed: on Linux that is how a terminal ends
        pass
    if process.poll() is None:
        process.terminate()
    os.close(controller)
    assert process.wait(timeout=20) == 0, shown[-2000:]
    text = _ESCAPES.sub("", shown.decode()).replace("\r", "")
    pieces = re.split("\x1e(.*?)\x1f", text, flags=re.DOTALL)[1:]
    return dict(zip((line.replace("\n", "") for line in pieces[::2]), pieces[1::2], strict=True))


@pytest.mark.timeout(180)
def test_no_command_crops_what_it_shows(stack: Stack) -> None:
    stack.daemon()
    places = filled(stack)
    looks = [shlex.join(shlex.split(line.format(**places))) for line in COMMANDS if is_a_look(line)]
    assert len(looks) > 30
    on_a_terminal(stack, [line.format(**places) for line in COMMANDS if line.startswith(CHANGES)], columns=WIDE)

    wide = on_a_terminal(stack, looks, columns=WIDE)
    assert wide.keys() == set(looks)
    assert sum(len(_WHOLE.findall(shown)) for shown in wide.values()) > 30, "hardly an id is shown: nothing is tested"
    for columns in (80, 120):
        narrow = on_a_terminal(stack, looks, columns=columns)
        cropped = {
            line: sorted(set(_WHOLE.findall(shown)) - set(_WHOLE.findall(narrow[line]))) for line, shown in wide.items()
        }
        assert {line: ids for line, ids in cropped.items() if ids} == {}, f"at {columns} columns"
        assert [line for line in looks if "…" in narrow[line]] == [], f"at {columns} columns"
