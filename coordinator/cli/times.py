"""Times and lengths of time as they are typed: ``2h``, ``7d``, ``2026-11-21``, ``2026-11-21T15:30+02:00``."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any, Final

import click

_SPAN: Final = re.compile(r"([0-9]{1,9})\s*(ms|s|m|h|d|w)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def span_ms(text: str) -> int | None:
    """Milliseconds of ``30s``, ``15m``, ``1h``, ``7d``; None for anything else."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNITS_MS[found[2]]


class Span(click.ParamType[int]):
    """A length of time, as milliseconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds."""
        found = value if isinstance(value, int) else span_ms(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration: 30s, 15m, 1h, 7d", param, ctx)
        return found


class Moment(click.ParamType[int]):
    """A time, as Unix milliseconds: so long ago, or a date with or without a time of day, in UTC unless it says."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Unix milliseconds."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        ago = span_ms(text)
        if ago is not None:
            return now_ms() - ago
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{value!r} is no time: 1h, 7d (ago), 2026-11-21, 2026-11-21T15:30Z", param, ctx)
        return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
