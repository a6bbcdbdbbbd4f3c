"""Logs: structured, one JSON object a line on standard error, safe to print.

Values come from outside (table names, paths, messages): JSON escapes their control characters, and long ones are cut.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from firn.coordinator.config import LogSettings

VALUE_CHARACTERS_MAX: Final = 2_000


def configure_logs(settings: LogSettings, *, daemon: str | None = None) -> None:
    """Set up structlog and the standard library's logging (kazoo, redis, aiohttp) to the same stream and form."""
    as_json = settings.format == "json" or (settings.format == "auto" and not sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _cut,
    ]
    # Tracebacks without the frames' variables, which structlog's own console form has: some of them are secrets.
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=True)
        if as_json
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    tail: list[Any] = [structlog.processors.format_exc_info, renderer] if as_json else [renderer]
    structlog.configure(
        processors=[*shared, *tail],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    if daemon is not None:
        structlog.contextvars.bind_contextvars(daemon=daemon)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=[
        structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail,
    ], foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared]))  # fmt: skip
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))


def _cut(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > VALUE_CHARACTERS_MAX:
            event[key] = value[:VALUE_CHARACTERS_MAX] + "…"
    return event
