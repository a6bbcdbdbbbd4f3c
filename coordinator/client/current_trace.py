"""The trace that the program is in, if it uses OpenTelemetry: intents carry it, and their commits are found by it."""

from __future__ import annotations

import sys
from typing import Any, Final

TRACING: Final = "opentelemetry.trace"
"""A program that has not imported it is in no span."""


def current_traceparent() -> str | None:
    """Return the current span as a W3C ``traceparent``; None outside of any."""
    tracing: Any = sys.modules.get(TRACING)
    if tracing is None:
        return None
    span = tracing.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
