"""The trace that the program is in, if it has OpenTelemetry: intents carry it, and their commits are found by it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _tracing_if_installed() -> Any:
    try:
        return import_module("opentelemetry.trace")
    except ImportError:
        return None


opentelemetry: Any = _tracing_if_installed()


def current_traceparent() -> str | None:
    """The current span as a W3C ``traceparent``; None outside of any, or without the package opentelemetry-api."""
    if opentelemetry is None:
        return None
    span = opentelemetry.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
