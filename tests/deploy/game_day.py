"""A fleet from `deploy/` with Prometheus, writers and a browser: to break, and to look at as somebody on call would.

Processes instead of containers: only addresses, folders, the session timeout and the hurry of the rules are a test's.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, expect

from firn import Client
from firn.coordinator.config import load_settings
from firn.coordinator.embedded.server import free_port
from firn.coordinator.zookeeper_connection import connect_session
from firn.storage.leases import Leases
from tests.acceptance.stack import DaemonProcess
from tests.deploy.fleet import Fleet
from tests.deploy.prometheus import firing, hurried, shipped_prometheus
from tests.deploy.servers import Quorum, ShippedRedis, url_of, wait_until
from tests.deploy.writers import SCHEMA, Writers, check_rows, wait_for_commits

TABLES: Final = ("ops.audit_log", "shop.clicks", "shop.orders")
SESSION_TIMEOUT_S: Final = "4"
"""Instead of ten seconds."""

DELIVERIES_MAX: Final = 3
"""Instead of ten: how many daemons may die over one intent before it is set aside."""

ALERT_S: Final = 60.0
IMAGES: Final = os.environ.get("FIRN_GAME_DAY_IMAGES")
"""Folder for the screenshots of docs/runbooks/game-day.md; without it they go to the test's own."""

WIDTH: Final = 1180


class GameDay:
    """The fleet while something is broken in it."""

    def __init__(
        self, folder: Path, *, redis: ShippedRedis, quorum: Quorum, fleet: Fleet, writers_url: str, prometheus: str,
        token: str, browser: Browser,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.redis = redis
        self.quorum = quorum
        self.fleet = fleet
        self._writers_url = writers_url
        self._writers: list[Writers] = []
        self._prometheus = prometheus
        self._images = Path(IMAGES or folder)
        self._context = browser.new_context(
            viewport={"width": WIDTH, "height": 560}, extra_http_headers={"Authorization": f"Bearer {token}"}
        )
        self._page = self._context.new_page()

    @property
    def daemons(self) -> list[DaemonProcess]:
        """Both daemons, running or not."""
        return self.fleet.daemons

    @property
    def warehouse(self) -> Path:
        """Where tables are."""
        return self.folder / "warehouse"

    def owner_of(self, table: str) -> DaemonProcess:
        """The daemon that commits to a table now."""
        text = self.look(f"/tables/{table}").locator("dl.cards").inner_text()
        return next(daemon for daemon in self.daemons if f"{daemon.name} (shard" in text)

    def load(self, *tables: str) -> Writers:
        """Writers, one for each table that is named."""
        first = sum(writers.count for writers in self._writers)
        self._writers.append(Writers(self._writers_url, tables, first=first))
        return self._writers[-1]

    def client(self) -> Client:
        """Somebody else who writes; close it."""
        return Client(self._writers_url)

    @contextmanager
    def lock_held(self, table: str) -> Iterator[None]:
        """Somebody who is no daemon has a table's lock: what is under way for it stays under way."""
        taken, enough = threading.Event(), threading.Event()

        async def hold() -> None:
            async with connect_session(load_settings(environment=self.fleet.environment)) as session:
                leases = Leases(session, member="somebody")
                lease = await leases.acquire(table, timeout_s=ALERT_S)
                assert lease is not None, f"the lock of {table} was not free"
                taken.set()
                await asyncio.to_thread(enough.wait)
                await leases.release(lease)
                await leases.close()

        with ThreadPoolExecutor(1) as beside:  # the browser has this thread's event loop
            holding = beside.submit(lambda: asyncio.run(hold()))
            try:
                wait_until(lambda: taken.is_set() or holding.done(), what=f"the lock of {table} is taken")
                yield
            finally:
                enough.set()
                holding.result()

    # -- looking -------------------------------------------------------------------------------------------------

    def wait_alert(self, *names: str) -> None:
        """Wait until these alerts fire."""
        wait_until(lambda: set(names) <= firing(self._prometheus), what=f"{names} fire", timeout_s=ALERT_S)

    def look(self, path: str, *, daemon: DaemonProcess | None = None) -> Page:
        """A page of a daemon's: the first that runs, unless told which."""
        daemon = daemon or next(one for one in self.daemons if one.running)
        self._page.goto(f"{daemon.http}{path}")
        expect(self._page.locator("main")).to_be_visible()
        return self._page

    def see(self, image: str, path: str, *says: str, daemon: DaemonProcess | None = None) -> None:
        """A page that says all this, and a picture of its top."""
        for text in says:
            wait_until(partial(self._says, path, text, daemon), what=f"{path} says {text!r}")
        self._page.screenshot(path=self._images / f"{image}.png")

    def _says(self, path: str, text: str, daemon: DaemonProcess | None) -> bool:
        return text in self.look(path, daemon=daemon).locator("main").inner_text()

    def tell(self, *arguments: str, code: int = 0, says: tuple[str, ...] = ()) -> str:
        """What a `firn` command says; its exit code and these texts are as expected."""
        done = self.fleet.tried(*arguments)
        told = f"{done.stdout}\n{done.stderr}"
        print(f"\n$ firn {' '.join(arguments)}   [{done.returncode}]\n{told}")
        assert done.returncode == code, told
        assert [text for text in says if text not in told] == [], told
        return told

    # -- how it ends ---------------------------------------------------------------------------------------------

    def wait_well(self, writers: Writers) -> None:
        """Wait until no alert fires, every daemon is ready and every table is committed to."""
        for daemon in self.daemons:
            daemon.wait_ready(60)
        wait_for_commits(writers, TABLES)
        wait_until(lambda: firing(self._prometheus) == set(), what="no alert fires", timeout_s=90)
        self.tell("status", says=("good",))
        self.see("well", "/dashboards", "No alert is firing.")

    def prove(self) -> None:
        """After the writers ended: every table has the rows that its writers were told of, once.

        And the daemons were allowed all that they tried: what they are refused shows in their logs alone.
        """
        for daemon in self.daemons:
            assert "has no permissions" not in daemon.log(), daemon.name
        with self.client() as client:
            for table in TABLES:
                count = check_rows(self._writers, table, metadata_location=client.table(table).metadata_location)
                assert count > 0, table
                print(f"{table}: {count} rows, as many as were committed")


@contextmanager
def game_day(folder: Path, *, secrets: Path, quorum: Quorum, browser: Browser) -> Iterator[GameDay]:
    """A fleet that is well: two daemons, three ZooKeepers, Redis, Prometheus, a table each for three writers."""
    (folder / "redis").mkdir()
    (folder / "warehouse").mkdir(exist_ok=True)
    redis = ShippedRedis(folder / "redis", secrets)
    prometheus = f"http://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        stack.callback(redis.kill)
        redis.start()
        settings = {
            "FIRN_HTTP_PROMETHEUS_URL": prometheus,
            "FIRN_ZOOKEEPER_SESSION_TIMEOUT_S": SESSION_TIMEOUT_S,
            "FIRN_ZOOKEEPER_ROOT": f"/game-day-{uuid.uuid4().hex}",
            "FIRN_LIMITS_DELIVERIES_MAX": str(DELIVERIES_MAX),
        }
        fleet = Fleet(folder, redis_port=redis.port, secrets=secrets, quorum=quorum, settings=settings)
        for daemon in fleet.daemons:
            stack.callback(daemon.end)
            daemon.start()
        stack.enter_context(
            shipped_prometheus(
                folder, prometheus, targets=[daemon.http for daemon in fleet.daemons], rules=hurried(folder),
                token=secrets / "http-token",
            )
        )  # fmt: skip
        writers_url = url_of(redis.port, secrets, "writer")
        with Client(writers_url) as client:
            for table in TABLES:
                client.create_table(table, SCHEMA).committed(60)
        yield GameDay(
            folder, redis=redis, quorum=quorum, fleet=fleet, writers_url=writers_url, prometheus=prometheus,
            token=(secrets / "http-token").read_text(), browser=browser,
        )  # fmt: skip
