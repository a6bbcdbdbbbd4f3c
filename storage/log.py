"""Loggers that load structlog with their first line: most commands write none, and it takes longer than they do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

_LIBRARY: Final = "structlog"

_prepare: list[Callable[[], None]] = []
"""What configures structlog as soon as it is loaded; at most one."""


class Logger:
    """A structlog logger; each method of one is looked up when it is used."""

    def __getattr__(self, name: str) -> Any:
        is_new = _LIBRARY not in sys.modules
        library = importlib.import_module(_LIBRARY)
        if is_new:
            for prepare in _prepare:
                prepare()
        return getattr(library.get_logger(), name)


def get_logger() -> Logger:
    """Return a logger, without loading structlog."""
    return Logger()


def configure_when_loaded(prepare: Callable[[], None]) -> None:
    """Run `prepare` when structlog is loaded: at once if it is, else before the first line."""
    if _LIBRARY in sys.modules:
        prepare()
    else:
        _prepare[:] = [prepare]
