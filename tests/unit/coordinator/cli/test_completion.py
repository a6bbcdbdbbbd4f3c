"""Shells complete commands, options and choices, and do not wait for Arrow to do it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete, get_completion_class

from firn.coordinator.cli.completion import COMPLETE_VARIABLE, SHELLS
from firn.coordinator.cli.connectors import Connectors
from firn.coordinator.cli.main import firn
from firn.coordinator.cli.name_lookup import ANSWER_S
from firn.coordinator.config import Settings
from firn.model.errors import Unavailable
from firn.storage.sessions import encode_name


def completed(*words: str) -> list[str]:
    """What could come in the place of the last word."""
    completer = ShellComplete(firn, {}, "firn", COMPLETE_VARIABLE)
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


def test_commands_of_every_depth_are_completed() -> None:
    assert completed("pau") == ["pause"]
    assert set(completed("re")) >= {"renew", "reservations", "resume", "recover"}
    assert completed("dead-letters", "r") == ["retry"]
    assert "create" in completed("table", "c")


def test_options_and_their_choices_are_completed() -> None:
    assert completed("recover", "--miss") == ["--missing-only"]
    assert completed("tables", "--sort", "m") == ["moved", "manifests"]
    assert completed("--de") == ["--debug"]


def test_nothing_is_made_up() -> None:
    assert completed("tables", "--sort", "xyz") == []
    assert completed("xyz") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "firn", "completion", shell], capture_output=True, text=True, timeout=60, check=True
    )
    assert f"{COMPLETE_VARIABLE}={shell}_complete" in said.stdout
    kind = get_completion_class(shell)
    assert kind is not None
    assert said.stdout.strip() == kind(firn, {}, "firn", COMPLETE_VARIABLE).source().strip()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_a_real_bash_completes_a_command(tmp_path: Path) -> None:
    command = tmp_path / "firn"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m firn "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(firn completion bash)"; COMP_WORDS=(firn dr); COMP_CWORD=1; _firn_completion firn; '
        'echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path.cwd())}
    said = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert said.stdout.strip() == "drain"


def test_completing_a_command_imports_nothing_heavy() -> None:
    environment = {**os.environ, COMPLETE_VARIABLE: "bash_complete", "COMP_WORDS": "firn dr", "COMP_CWORD": "1"}
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "firn"], env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout.split() == ["plain,drain"]
    assert not {name for name in ("pyarrow", "redis", "kazoo") if f" {name}\n" in said.stderr}


NAMES = ["db.events", "db.event-log", "db.x y", "db.$(touch)", "db.`a`", "db.it's", 'db."q"', "db.a\nb", "другой.стол"]


class Tables:
    """A session of a ZooKeeper that knows these tables."""

    async def children(self, _path: str) -> list[str]:
        return [encode_name(name) for name in NAMES]


@asynccontextmanager
async def session_there(_settings: Settings) -> AsyncIterator[Any]:
    yield Tables()


def session_away(_settings: Settings) -> Any:
    raise Unavailable("no ZooKeeper answers")


@asynccontextmanager
async def session_hangs(_settings: Settings) -> AsyncIterator[Any]:
    await asyncio.sleep(60)
    yield


def completed_with(session: Any, *words: str) -> list[str]:
    completer = ShellComplete(firn, {"obj": Connectors(session=session)}, "firn", COMPLETE_VARIABLE)
    return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    "command",
    [
        *(("table", "show"), ("table", "history"), ("journal",), ("fsck",), ("pause",), ("tables",), ("shard",)),
        *(
            ("conflicts", "--table"),
            ("branch", "create"),
            ("schema", "add-column"),
            ("consumer", "list"),
            ("lock", "show"),
        ),
    ],
)
def test_names_of_tables_are_completed_wherever_a_table_is_named(command: tuple[str, ...]) -> None:
    """A name that a shell would read as more than a name is never put on its line."""
    assert completed_with(session_there, *command, "db.") == ["db.event-log", "db.events"]
    assert completed_with(session_there, *command, "д") == ["другой.стол"]


def test_no_name_of_a_table_is_offered_for_a_branch() -> None:
    assert completed_with(session_there, "branch", "create", "db.events", "db.") == []


@pytest.mark.parametrize("session", [session_away, session_hangs])
def test_nothing_is_completed_or_said_while_zookeeper_is_away(session: Any, capfd: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert completed_with(session, "table", "show", "") == []
    assert time.monotonic() - began < 10 * ANSWER_S
    assert capfd.readouterr() == ("", "")
