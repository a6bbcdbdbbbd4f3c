"""Shells complete commands, options and choices, and do not wait for Arrow to do it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class

from firn.coordinator.cli.completion import COMPLETE_VARIABLE, SHELLS
from firn.coordinator.cli.main import firn


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
