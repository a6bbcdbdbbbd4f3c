"""How the pages write values: the templates' filters and functions. What is not known is ``?``, and never a number."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from firn.coordinator.config import TRACE_PLACE
from firn.coordinator.pages.units import told
from firn.model.amounts import plural
from firn.model.traceparent import trace_id_in

UNKNOWN: Final = "?"


def filters() -> dict[str, Callable[..., str]]:
    """Return the templates' filters by name."""
    return {
        "clock": clock, "iso": _iso, "seconds": seconds, "short": _short, "path": _path, "number": number,
        "amount": amount, "rate": rate, "ago": ago,
    }  # fmt: skip


def functions(trace_url: str | None) -> dict[str, Any]:
    """Return the templates' functions by name; `trace_url` is where traces are shown."""
    return {"trace_link": _trace_links(trace_url), "plural": plural}


def number(value: float | None) -> str:
    """Return a whole number with separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def amount(value: float | None, unit: str) -> str:
    """Return a value with a unit of `firn.coordinator.pages.units`."""
    return UNKNOWN if value is None else told(value, unit)


def rate(per_second: float | None) -> str:
    """Return how often something happens, a minute if that is less than once a second."""
    if per_second is None:
        return UNKNOWN
    return told(per_second, "ops") if per_second >= 1 or per_second == 0 else f"{told(per_second * 60, '')}/min"


def ago(timestamp_ms: int) -> str:
    """Return how long ago something was."""
    return told(max(0.0, round(time.time() - timestamp_ms / 1000)), "s")


def clock(timestamp_ms: int) -> str:
    """Return a time, UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def seconds(value: float | None) -> str:
    """Return a span of time; a dash where there is none."""
    if value is None:
        return "–"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{max(0.0, value):.1f} s"


def _iso(timestamp_ms: int) -> str:
    return clock(timestamp_ms).replace(" ", "T") + "Z"


def _short(time: str) -> str:
    """Return an event's time without the date's year and the zone, which is UTC everywhere here."""
    return time[5:23].replace("T", " ")


def _path(text: str) -> str:
    return quote(text, safe="")


def _trace_links(url: str | None) -> Callable[[str], str | None]:
    """Return where a trace is shown, None when that is set nowhere."""

    def link(trace: str) -> str | None:
        return None if url is None else url.replace(TRACE_PLACE, quote(trace_id_in(trace), safe=""))

    return link
