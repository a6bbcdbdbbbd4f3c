"""Requests that load tables and views, or ask whether there are any; and answers to requests that have changed one."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

import msgspec
from aiohttp import web

from firn.coordinator.catalog.identifiers import table_of, view_of
from firn.coordinator.catalog.refusals import Kind
from firn.coordinator.catalog.routes import Routes
from firn.coordinator.catalog.statuses import BAD_REQUEST, STATE_UNKNOWN, CatalogError
from firn.coordinator.catalog.stored import StoredTables, with_refs_only
from firn.model.errors import FirnError
from firn.model.outcome import Committed
from firn.model.view import ViewMetadata

ALL: Final = "all"
REFS: Final = "refs"


class Loading:
    """Answers with what is stored."""

    def __init__(self, stored: StoredTables) -> None:
        self._stored = stored

    def add_to(self, routes: Routes) -> None:
        """Add the requests for one table or view."""
        table, view = "/namespaces/{namespace}/tables/{table}", "/namespaces/{namespace}/views/{view}"
        routes.add("GET", table, self._load_table)
        routes.add("HEAD", table, self._table_exists)
        routes.add("GET", view, self._load_view)
        routes.add("HEAD", view, self._view_exists)

    async def kind_of(self, name: str) -> Kind | None:
        """Return what has a name now, None where it is free."""
        pointer = await self._stored.found(name)
        return None if pointer is None else pointer.kind

    async def seen_view(self, name: str) -> ViewMetadata:
        """Return a view as it is now. Raises CatalogError where there is none."""
        return await self._stored.view(await self._stored.pointer(name, "view"))

    async def table(self, committed: Committed) -> web.Response:
        """Return a table as it was committed. Raises CatalogError: the commit stands, and cannot be shown."""
        return await self._committed(committed, "table")

    async def view(self, committed: Committed) -> web.Response:
        """Return a view as it was committed; raises as `table` does."""
        return await self._committed(committed, "view")

    async def _committed(self, committed: Committed, kind: Kind) -> web.Response:
        location, digest = committed.metadata_location, None
        try:
            if location is None:
                pointer = await self._stored.pointer(committed.table, kind)
                location, digest = pointer.metadata_location, pointer.digest
            return await self._answer(kind, location, digest, mode=ALL)
        except (FirnError, OSError) as error:  # a 4xx would promise that nothing was committed
            raise CatalogError(
                STATE_UNKNOWN, f"intent {committed.intent_id} is committed, but its {kind} cannot be read: {error}"
            ) from error

    async def _load_table(self, request: web.Request) -> web.Response:
        mode = request.query.get("snapshots", ALL).lower()
        if mode not in {ALL, REFS}:
            raise CatalogError(BAD_REQUEST, f"snapshots: must be {ALL} or {REFS}, not {mode[:40]!r}")
        return await self._load(request, table_of(request), "table", mode)

    async def _load_view(self, request: web.Request) -> web.Response:
        return await self._load(request, view_of(request), "view", ALL)

    async def _table_exists(self, request: web.Request) -> web.Response:
        await self._stored.pointer(table_of(request), "table")
        return web.Response(status=204)

    async def _view_exists(self, request: web.Request) -> web.Response:
        await self._stored.pointer(view_of(request), "view")
        return web.Response(status=204)

    async def _load(self, request: web.Request, name: str, kind: Kind, mode: str) -> web.Response:
        pointer = await self._stored.pointer(name, kind)
        tag = etag_of(pointer.metadata_location, mode)
        if kind == "table" and is_known(request.headers.get("If-None-Match"), tag):
            return web.Response(status=304, headers={"ETag": tag})
        return await self._answer(kind, pointer.metadata_location, pointer.digest, mode=mode)

    async def _answer(self, kind: Kind, location: str, digest: str | None, *, mode: str) -> web.Response:
        metadata = await self._stored.metadata(location, digest=digest, kind=kind)
        if mode == REFS:
            metadata = await asyncio.to_thread(with_refs_only, metadata)
        body = b"".join((b'{"metadata-location":', msgspec.json.encode(location), b',"metadata":', metadata,
                         b',"config":{}}'))  # fmt: skip
        headers = {"ETag": etag_of(location, mode)} if kind == "table" else {}
        return web.Response(body=body, content_type="application/json", headers=headers)


def etag_of(location: str, mode: str) -> str:
    """Return the tag of a table in a mode: it changes with the metadata file. Weak, as compressed texts differ."""
    return f'W/"{hashlib.blake2b(f"{mode}:{location}".encode(), digest_size=16).hexdigest()}"'


def is_known(header: str | None, tag: str) -> bool:
    """Whether a client has what the tag is of, by its ``If-None-Match``."""
    if header is None:
        return False
    known = {one.strip().removeprefix("W/") for one in header.split(",")}
    return tag.removeprefix("W/") in known
