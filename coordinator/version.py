"""The version of the installed distribution, and the commit that it was built from."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Final

VERSION: Final = version("firn")

UNKNOWN: Final = "unknown"
GIT_S: Final = 5.0


@cache
def build_commit() -> str:
    """Return the commit that this firn was built from, or that its source tree has checked out.

    A plus says that files differed from the commit. It is ``unknown`` for a build without git.
    """
    built = resources.files("firn") / "commit.txt"
    if built.is_file():
        return built.read_text(encoding="ascii").strip()
    return _checked_out(Path(__file__).resolve().parents[1])


def _checked_out(root: Path) -> str:
    if not (root / ".git").exists():
        return UNKNOWN
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not re.fullmatch(r"[0-9a-f]{12,40}", head):
        return UNKNOWN
    return head + ("+" if _git(root, "status", "--porcelain", "-uno") else "")


def _git(root: Path, *arguments: str) -> str:
    """Return what git says, or nothing where there is none, or it refuses."""
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607
            cwd=root,
            capture_output=True,
            text=True,
            timeout=GIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
