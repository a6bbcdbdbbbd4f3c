"""What the dashboards ask of a Prometheus: series over time, values now, alerts. Bounded in time and size."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec
from yarl import URL

from firn.model.errors import Unavailable

TIMEOUT_S: Final = 5.0
"""Of one question, whatever Prometheus is busy with."""

PARALLEL_MAX: Final = 6
ANSWER_BYTES_MAX: Final = 8 * 2**20
REASON_MAX: Final = 300

SCRAPE_S_DEFAULT: Final = 15.0
"""How often Prometheus is taken to ask a daemon, where it does not say."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One series: its labels and its points, as seconds since 1970 and value; what is not finite is left out."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """From when to when, and how far apart points are, in seconds."""

    start: float
    end: float
    step: float


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert that is pending or firing."""

    name: str
    state: str
    severity: str = ""
    summary: str = ""
    description: str = ""
    runbook: str = ""
    """Path of the runbook in the project's repository, with an anchor."""
    runbook_url: str = ""
    active_at: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: Any = None
    error: str = ""


class Prometheus:
    """A Prometheus, or what speaks its query API, at `url`, which may carry user and password."""

    def __init__(self, url: str) -> None:
        told = URL(url)
        self._base = told.with_user(None)
        secret = f"{told.user}:{told.password or ''}".encode()
        self._headers = {} if told.user is None else {"Authorization": f"Basic {base64.b64encode(secret).decode()}"}
        self._session: aiohttp.ClientSession | None = None

    async def over_time(self, expression: str, span: Span) -> list[Series]:
        """The series of an expression. Raises Unavailable when Prometheus does not answer, or not with that."""
        asked = {"query": expression, "start": f"{span.start:.3f}", "end": f"{span.end:.3f}", "step": f"{span.step:g}"}
        data = await self._ask("api/v1/query_range", {**asked, "timeout": f"{TIMEOUT_S:g}s"})
        return [one for found in data["result"] if (one := _series(found["metric"], found["values"])) is not None]

    async def now(self, expression: str, *, at: float) -> list[Series]:
        """An expression's values at a moment, as series of one point, in Prometheus's order. Raises Unavailable."""
        asked = {"query": expression, "time": f"{at:.3f}", "timeout": f"{TIMEOUT_S:g}s"}
        data = await self._ask("api/v1/query", asked)
        if data["resultType"] == "scalar":
            return [one for one in [_series({}, [data["result"]])] if one is not None]
        return [one for found in data["result"] if (one := _series(found["metric"], [found["value"]])) is not None]

    async def values_of(self, label: str, *, metric: str, span: Span) -> list[str]:
        """Every value that a label of a metric had. Raises Unavailable."""
        asked = {"match[]": metric, "start": f"{span.start:.3f}", "end": f"{span.end:.3f}"}
        return sorted(await self._ask(f"api/v1/label/{label}/values", asked))

    async def alerts(self) -> list[Alert]:
        """Alerts that are pending or firing: those that page somebody first. Raises Unavailable."""
        data = await self._ask("api/v1/alerts", {})
        alerts = [_alert(found) for found in data["alerts"]]
        return sorted(alerts, key=lambda a: (a.state != "firing", a.severity != "page", a.severity != "ticket", a.name))

    async def scrape_s(self) -> float:
        """How often it asks daemons; what does not say so (a Prometheus behind something) is taken for the default."""
        try:
            data = await self._ask("api/v1/targets", {"state": "active"})
        except Unavailable:
            return SCRAPE_S_DEFAULT
        targets = [found for found in data["activeTargets"] if found["labels"].get("job") == "firn"]
        intervals = [_seconds(found.get("scrapeInterval", "")) for found in targets]
        return max((s for s in intervals if s is not None), default=SCRAPE_S_DEFAULT)

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, path: str, asked: Mapping[str, str]) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                connector=aiohttp.TCPConnector(limit=PARALLEL_MAX),
            )  # fmt: skip
        try:
            async with self._session.get(self._base.joinpath(*path.split("/")), params=asked) as response:
                status, data = response.status, await response.content.read(ANSWER_BYTES_MAX + 1)
                while len(data) <= ANSWER_BYTES_MAX and (more := await response.content.read(ANSWER_BYTES_MAX)):
                    data += more
        except (aiohttp.ClientError, OSError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise Unavailable(f"Prometheus at {self._base}: {reason}") from error
        if len(data) > ANSWER_BYTES_MAX:
            raise Unavailable(f"Prometheus at {self._base}: its answer has more than {ANSWER_BYTES_MAX:,} bytes")
        try:
            answer = msgspec.json.decode(data, type=_Answer)
        except msgspec.DecodeError as error:
            raise Unavailable(f"Prometheus at {self._base}: HTTP {status}, and no answer of its query API") from error
        if answer.status != "success":
            raise Unavailable(f"Prometheus at {self._base}: {answer.error[:REASON_MAX]}")
        return answer.data


def _series(labels: Mapping[str, str], stored: list[list[Any]]) -> Series | None:
    points = tuple((float(at), value) for at, text in stored if math.isfinite(value := float(text)))
    shown = {name: value for name, value in labels.items() if name != "__name__"}
    return Series(labels=shown, points=points) if points else None


def _alert(stored: Mapping[str, Any]) -> Alert:
    labels, notes = stored["labels"], stored["annotations"]
    return Alert(
        name=labels["alertname"], state=stored["state"], severity=labels.get("severity", ""),
        summary=notes.get("summary", ""), description=notes.get("description", ""), runbook=notes.get("runbook", ""),
        runbook_url=notes.get("runbook_url", ""), active_at=stored.get("activeAt", ""),
    )  # fmt: skip


def _seconds(text: str) -> float | None:
    """A duration as Prometheus writes it, such as ``1m30s``; None when it is none."""
    parts = _DURATION.findall(text)
    return sum(int(number) * _SIZES[unit] for number, unit in parts) or None


_SIZES: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+)(ms|[smhd])")
