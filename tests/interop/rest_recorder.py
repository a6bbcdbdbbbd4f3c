"""A proxy between clients and a catalog that keeps every answer, to be checked once the clients have ended.

Checking while they run would slow them down, and what races is to race.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final, Self

from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

from tests.interop.rest_specification import Exchange, fault

NOT_PASSED_ON: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "host", "date", "server"}
)
"""Headers of one connection. Bodies are passed on decompressed."""

BODY_BYTES_MAX: Final = 256 * 1024 * 1024


class Recorder:
    """Passes requests on to `target` from a thread of its own while its block lasts."""

    def __init__(self, target: str) -> None:
        self.exchanges: list[Exchange] = []
        self.uri = ""
        self._target = target.rstrip("/")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recorder", daemon=True)
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def faults(self) -> list[str]:
        """What the specification does not allow of the answers so far."""
        return [found for found in map(fault, self.exchanges) if found is not None]

    async def _start(self) -> None:
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{rest:.*}", self._pass_on)
        self._session = ClientSession(timeout=ClientTimeout(total=None))
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        addresses: Any = self._runner.addresses
        self.uri = f"http://127.0.0.1:{addresses[0][1]}"

    async def _stop(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        async with self._session.request(
            request.method, self._url(request), headers=headers, data=await request.read(), allow_redirects=False
        ) as answer:
            body = await answer.read()
            self.exchanges.append(
                Exchange(
                    method=request.method,
                    path=request.rel_url.raw_path,
                    status=answer.status,
                    content_type=answer.headers.get("Content-Type", ""),
                    body=body,
                )
            )
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            return web.Response(status=answer.status, headers=kept, body=body)

    def _url(self, request: web.Request) -> URL:
        """Byte for byte what was asked for: quoted separators must arrive quoted."""
        return URL(self._target + request.raw_path, encoded=True)
