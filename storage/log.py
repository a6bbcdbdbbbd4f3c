"""Loggers that load structlog with their first line: most commands write none, and it takes longer than they do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

_LIBRARY: Final = "structlog"

_ERRORS: Final = frozenset({"error", "exception", "critical"})
"""Methods of a logger whose lines are written by a program that writes only errors."""

_prepare: list[Callable[[], None]] = []
"""What configures structlog as soon as it is loaded, in a program that writes only errors; at most one."""


class Logger:
    """A structlog logger; each method of one is looked up when it is used."""

    def __getattr__(self, name: str) -> Any:
        is_new = _LIBRARY not in sys.modules
        if is_new and _prepare and name not in _ERRORS:
            return _drop
        library = importlib.import_module(_LIBRARY)
        if is_new:
            for prepare in _prepare:
                prepare()
        return getattr(library.get_logger(), name)


def get_logger() -> Logger:
    """Return a logger, without loading structlog."""
    return Logger()


def log_errors_only(prepare: Callable[[], None]) -> None:
    """Drop every line below an error without loading structlog; `prepare` has structlog do the same once it is loaded.

    It runs at once if structlog is loaded, else before the first error.
    """
    if _LIBRARY in sys.modules:
        prepare()
    else:
        _prepare[:] = [prepare]


def _drop(*_: Any, **__: Any) -> None:
    """Write nothing: a line below an error."""
