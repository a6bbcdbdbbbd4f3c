"""What commands that make, change and drop tables and views share: submit, wait, say what became of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from firn.coordinator.cli.making import ask
from firn.coordinator.cli.reach import Reach
from firn.model import strict_json
from firn.model.errors import InvalidInput

if TYPE_CHECKING:
    from firn.model.intent import Intent

SCHEMA_BYTES_MAX: Final = 16 * 1024 * 1024


class Wait(msgspec.Struct, frozen=True):
    """How long to wait for the outcome (seconds), or that it is only asked what it would be."""

    timeout_s: float
    dry_run: bool


def waiting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--timeout`` and ``--dry-run``, as its argument `wait`."""

    @click.option("--dry-run", is_flag=True, help="Only say what would become of it now, and why; nothing is changed.")
    @click.option("--timeout", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds to wait.")
    @functools.wraps(command)
    def wrapped(*arguments: Any, timeout: float, dry_run: bool, **options: Any) -> None:
        command(*arguments, wait=Wait(timeout, dry_run), **options)

    return wrapped


def change(reach: Reach, intent: Intent, *, done: str, wait: Wait) -> int:
    """Submit one intent, wait, and say what became of it; the exit code."""
    return ask(reach, intent, done=done, timeout_s=wait.timeout_s, dry_run=wait.dry_run)


def schema_of(text: str) -> dict[str, Any]:
    """A schema from JSON, from a file that holds it, or from standard input."""
    if text.lstrip().startswith("{"):
        data, where = text.encode("utf-8", "surrogateescape"), "--schema"
    elif text == "-":
        data, where = sys.stdin.buffer.read(SCHEMA_BYTES_MAX + 1), "standard input"
    else:
        path, where = Path(text), text
        try:
            with path.open("rb") as file:
                data = file.read(SCHEMA_BYTES_MAX + 1)
        except OSError as error:
            raise InvalidInput(error.strerror or str(error), where=text) from error
    members = strict_json.loads(data, where=where, bytes_max=SCHEMA_BYTES_MAX)
    if not isinstance(members, dict):
        raise InvalidInput("is not a JSON object", where=where)
    return members
