"""Numbers as people read them. Units have Grafana's names: ``s``, ``bytes``, ``Bps``, ``ops``, ``percentunit``."""

from __future__ import annotations

import math
from typing import Final

_THOUSANDS: Final = ("", "k", "M", "G", "T", "P")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONG: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SUFFIX: Final = {"ops": "/s", "Bps": "/s"}


def told(value: float, unit: str) -> str:
    """A value with its unit: ``1.2 MiB``, ``340 ms``, ``12 %``."""
    if not math.isfinite(value):
        return "–"
    if unit == "percentunit":
        return f"{_short(value * 100)} %"
    if unit == "s":
        return _span(value)
    if unit in {"bytes", "Bps"}:
        return _scaled(value, 1024, _BINARY) + _SUFFIX.get(unit, "")
    return _scaled(value, 1000, _THOUSANDS) + _SUFFIX.get(unit, "")


def base_of(unit: str) -> int:
    """What round numbers of a unit are multiples of."""
    return 1024 if unit in {"bytes", "Bps"} else 10


def _span(seconds: float) -> str:
    for size, name in _LONG:
        if abs(seconds) >= 2 * size:
            return f"{_short(seconds / size)} {name}"
    if seconds == 0 or abs(seconds) >= 1:
        return f"{_short(seconds)} s"
    if abs(seconds) >= 0.001:
        return f"{_short(seconds * 1e3)} ms"
    return f"{_short(seconds * 1e6)} µs"


def _scaled(value: float, base: int, names: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(names) - 1:
        value /= base
        power += 1
    return f"{_short(value)} {names[power]}".rstrip()


def _short(value: float) -> str:
    """Three digits that say something, and no zeros behind them."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
