"""How commands end: exit codes, and every error as one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from firn.coordinator.cli.text import one_line
from firn.model.errors import FirnError, InvalidInput, Misconfigured, RejectedError, Unavailable

EXIT_OK: Final = 0
EXIT_NO: Final = 1
"""The answer is no: a rejected intent, a breach found, something that does not exist, a daemon that failed."""

EXIT_USAGE: Final = 2
"""Wrong usage, wrong settings, or input that cannot be right."""

EXIT_UNAVAILABLE: Final = 3
"""A server does not answer, or an outcome could not be learnt."""

EXIT_LEFT_BEHIND: Final = 4
"""A daemon that was told to end has given everything up, and left calls behind in which a store hangs."""

EXIT_INTERRUPTED: Final = 130


def exit_code_of(error: FirnError) -> int:
    """The exit code of a command that ended with this error."""
    if isinstance(error, RejectedError):
        return EXIT_NO
    if isinstance(error, Misconfigured | InvalidInput):
        return EXIT_USAGE
    return EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_NO


def worst_of(codes: Iterable[int]) -> int:
    """The exit code of a command over several tables: a missing answer counts more than a no, and that than a yes."""
    return max(codes, default=EXIT_OK)


def complaint(error: BaseException) -> str:
    """The error as the one line that is shown of it."""
    if isinstance(error, FirnError):
        return f"firn: {one_line(str(error))}"
    return f"firn: internal error: {type(error).__name__}: {one_line(str(error))} (firn --debug … shows where)"
