"""The pages' routes: rendered on the server, escaped, without a script but the one that keeps them live."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp_sse import EventSourceResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from firn.coordinator.cli.explained import story_lines
from firn.coordinator.pages import formats
from firn.coordinator.pages.dashboard_pages import DashboardPages, runbook_of
from firn.coordinator.pages.documents import document_at
from firn.coordinator.pages.event_log import CHOICES, EVENTS_SHOWN, EventFilter
from firn.coordinator.pages.home import home_of
from firn.coordinator.pages.live import LiveEvents
from firn.coordinator.pages.prometheus import Prometheus
from firn.coordinator.pages.survey import EVENTS_MAX, Survey, TablePage
from firn.coordinator.pages.table_list import ORDERS
from firn.model.errors import FirnError, InvalidInput, NotFound
from firn.model.identifiers import check_table_name, is_intent_id
from firn.storage.intent_streams import IntentStreams
from firn.storage.log import get_logger

HERE: Final = Path(__file__).parent
PARALLEL_MAX: Final = 2
"""Pages that are gathered at a time: people wait before commits do. So many that read tables' files, too, and so many
dashboards: they wait for a store or for Prometheus, and must not keep the others waiting."""

HOME_POLL_S: Final = 3
TABLES_POLL_S: Final = 10
EVENTS_POLL_S: Final = 5
"""Of filtered events, for which many are looked through."""

STUCK_POLL_S: Final = 10
"""Of a table to which nothing is committed: no event will say that it goes on."""

QUERY_MAX: Final = 500
"""Characters of a filter."""

CONFLICTS_MAX: Final = 200
LIVE_PATH: Final = "/live"
PING_S: Final = 15.0

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """The pages of one daemon."""

    def __init__(
        self,
        survey: Survey,
        streams: IntentStreams,
        *,
        daemon: str,
        prometheus: Prometheus | None = None,
        trace_url: str | None = None,
    ) -> None:
        self._survey = survey
        self._streams = streams
        self._daemon = daemon
        self._live = LiveEvents(streams)
        self._log = get_logger()
        self._turn = asyncio.Semaphore(PARALLEL_MAX)
        self._tables_turn = asyncio.Semaphore(PARALLEL_MAX)
        self._dashboards_turn = asyncio.Semaphore(PARALLEL_MAX)
        self._dashboards = DashboardPages(prometheus, page=self._page)
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals.update(formats.functions(trace_url), runbook_of=runbook_of)
        self._templates.filters.update(formats.filters())

    def add_to(self, app: web.Application) -> None:
        """Add the pages to the daemon's HTTP server."""
        for path, handler in (
            ("/", self._home),
            ("/tables", self._tables),
            ("/conflicts", self._conflicts),
            ("/events", self._events),
        ):
            app.router.add_get(path, self._guarded(handler, self._turn))
        for path, handler in (("/tables/{table}", self._table), ("/intents/{intent}", self._intent)):
            app.router.add_get(path, self._guarded(handler, self._tables_turn))
        for path, handler in (
            ("/dashboards", self._dashboards.overview),
            ("/dashboards/{dashboard}", self._dashboards.dashboard),
            ("/docs/{path:.+}", self._document),
        ):
            app.router.add_get(path, self._guarded(handler, self._dashboards_turn))
        app.router.add_get(LIVE_PATH, self._follow)
        app.router.add_get("/static/{name}", self._static)
        app.on_response_prepare.append(_secure)
        app.on_shutdown.append(self._close)

    def sign_in_page(self, *, wrong: bool) -> web.Response:
        """Where a browser is asked for the token."""
        text = self._templates.get_template("sign_in.html").render(wrong=wrong)
        return web.Response(text=text, content_type="text/html", status=401)

    async def _close(self, _app: web.Application) -> None:
        await self._live.close()
        await self._survey.close()
        await self._dashboards.close()

    def _guarded(self, handler: _Handler, turn: asyncio.Semaphore) -> _Handler:
        """Errors as pages, and no more of them at a time than the commits can bear."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            async with turn:
                try:
                    return await handler(request)
                except NotFound as error:
                    return self._page("error.html", status=404, title="Not found", message=str(error))
                except FirnError as error:
                    return self._page("error.html", status=503, title="Not now", message=str(error))
                except Exception as error:  # noqa: BLE001 - a page of ours that fails must say so, and leave a trace
                    self._log.exception("page failed", path=request.path)
                    message = f"A mistake of firn's: {type(error).__name__}. The daemon's log has the details."
                    return self._page("error.html", status=500, title="This page failed", message=message)

        return guarded

    def _page(self, template: str, *, status: int = 200, here: str = "", **values: Any) -> web.Response:
        known = {"daemon": self._daemon, "here": here, "subject": None, "poll": 0, "on_events": True}
        text = self._templates.get_template(template).render({**known, **values})
        return web.Response(text=text, content_type="text/html", status=status, headers={"Cache-Control": "no-store"})

    async def _home(self, _request: web.Request) -> web.Response:
        (fleet, conflicts), (alerts, trouble) = await asyncio.gather(self._survey.fleet(), self._dashboards.alerts())
        return self._page(
            "home.html", here="/", poll=HOME_POLL_S, home=home_of(fleet, conflicts), depths=self._survey.depths(),
            alerts=alerts, alerts_trouble=trouble,
        )  # fmt: skip

    async def _tables(self, request: web.Request) -> web.Response:
        contains, text, order = (_asked(request, name) for name in ("contains", "page", "sort"))
        page = max(1, int(text)) if text.isdecimal() and len(text) < 7 else 1
        order = order if order in ORDERS else ORDERS[0]
        found = await self._survey.tables.page(contains=contains, page=page, order=order)
        return self._page(
            "tables.html", here="/tables", poll=TABLES_POLL_S, on_events=False, found=found, contains=contains
        )

    async def _table(self, request: web.Request) -> web.Response:
        name = _table_named(request.match_info["table"])
        page = await self._survey.table(name)
        history = {item.snapshot_id: item for item in page.history}
        poll = STUCK_POLL_S if page.trouble or page.unread or page.paused else 0
        return self._page("table.html", subject=name, poll=poll, page=page, history=history, total=_totals(page))

    async def _conflicts(self, request: web.Request) -> web.Response:
        filters = {name: _asked(request, name) for name in ("table", "rule", "writer")}
        conflicts = await self._survey.conflicts(
            table=filters["table"], rule=filters["rule"], writer=filters["writer"], limit=CONFLICTS_MAX
        )
        by_rule = Counter(conflict.outcome.rule for conflict in conflicts).most_common(12)
        return self._page(
            "conflicts.html", here="/conflicts", conflicts=conflicts, filters=filters, by_rule=by_rule,
            events_max=EVENTS_MAX,
        )  # fmt: skip

    async def _events(self, request: web.Request) -> web.Response:
        wanted = EventFilter(**{name: _asked(request, name).strip() for name in EventFilter.__struct_fields__})
        return self._page(
            "events.html", here="/events", poll=EVENTS_POLL_S if wanted.is_set else 0, on_events=not wanted.is_set,
            lines=await self._survey.event_lines(wanted), filter=wanted, choices=CHOICES, events_max=EVENTS_MAX,
            shown_max=EVENTS_SHOWN,
        )  # fmt: skip

    async def _intent(self, request: web.Request) -> web.Response:
        intent_id = request.match_info["intent"]
        if not is_intent_id(intent_id):
            raise NotFound(f"{intent_id[:80]!r} is no intent id: those are UUIDv7 in lower case")
        story, unread = await self._survey.intent(intent_id, table=_table_named(_asked(request, "table")))
        lines = list(story_lines(story, now_ms=int(time.time() * 1000)))
        return self._page("intent.html", story=story, lines=lines, unread=unread)

    async def _document(self, request: web.Request) -> web.Response:
        document = await asyncio.to_thread(document_at, request.match_info["path"])
        return self._page("document.html", here="/docs/README.md", on_events=False, document=document)

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events, as long as the page is open."""
        if self._live.full:
            raise web.HTTPServiceUnavailable(text="too many pages are open; this one tries again")
        if request.transport is None:  # the page was closed before this began, which aiohttp-sse does not expect
            raise ConnectionResetError
        response = EventSourceResponse(ping_interval=PING_S)
        with contextlib.suppress(OSError):  # the page was closed, or takes nothing any more
            await self._send_events(request, response)
        if not response.prepared:
            raise ConnectionResetError
        return response

    async def _send_events(self, request: web.Request, response: EventSourceResponse) -> None:
        await response.prepare(request)
        async with response, self._live.listening() as happened:
            while response.is_connected():
                try:
                    event = await asyncio.wait_for(happened.get(), PING_S)
                except TimeoutError:
                    continue
                if event is None:
                    break
                await response.send(msgspec.json.encode(event).decode(), event="happened")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        kind = STATIC.get(request.match_info["name"])
        if kind is None:
            raise web.HTTPNotFound
        return web.Response(
            body=(HERE / "static" / request.match_info["name"]).read_bytes(), content_type=kind, charset="utf-8",
            headers={"Cache-Control": "max-age=300"},
        )  # fmt: skip


STATIC: Final[Mapping[str, str]] = {
    "style.css": "text/css",
    "dashboards.css": "text/css",
    "live.js": "text/javascript",
}


async def _secure(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


def _asked(request: web.Request, name: str) -> str:
    return request.query.get(name, "")[:QUERY_MAX]


def _table_named(name: str) -> str:
    """The name, if a table may have it or it is empty. Raises NotFound: ZooKeeper has no node of any other."""
    try:
        return check_table_name(name) if name else name
    except InvalidInput as error:
        raise NotFound(f"there is no table or view {name[:80]!r}: {error}") from error


def _totals(page: TablePage) -> Callable[[str], str]:
    """The current snapshot's totals, as its summary says."""
    snapshot = None if page.metadata is None else page.metadata.current_snapshot
    summary = {} if snapshot is None else snapshot.summary or {}

    def total(name: str) -> str:
        text = summary.get(name, "0" if snapshot is None else "?")
        return f"{int(text):,}" if text.isdecimal() and len(text) < 20 else text

    return total
