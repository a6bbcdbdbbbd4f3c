"""Game day: something is broken under load; alerts, pages and commands alone say what, where, and what to do.

What was seen is written down in docs/runbooks/game-day.md. Two of the breakages are tried in every run, the others by
``make test-long``; ``FIRN_GAME_DAY_IMAGES=docs/runbooks/images`` takes the pictures anew.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.acceptance.browser import chromium
from tests.deploy.game_day import TABLES, GameDay, game_day
from tests.deploy.servers import Quorum, user_of
from tests.deploy.writers import wait_for_commits

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, secrets: Path, quorum: Quorum, browser: Browser) -> Iterator[GameDay]:
    with game_day(tmp_path_factory.mktemp("game-day"), secrets=secrets, quorum=quorum, browser=browser) as fleet:
        yield fleet


def test_a_daemon_is_killed(day: GameDay) -> None:
    """The other takes its shards; the killed one is named, and nobody's commit is lost."""
    with day.load(*TABLES, "shop.orders") as writers:
        wait_for_commits(writers, TABLES)
        victim = day.owner_of("shop.orders")
        victim.kill()
        day.wait_alert("FirnDaemonDown")
        day.see("daemon-killed", "/dashboards/fleet?range=15m", "FirnDaemonDown", f"Daemon 127.0.0.1:{victim.port}")
        wait_for_commits(writers, TABLES)
        day.tell("status", says=("1 daemon",))
        day.tell("doctor", says=("one daemon",))
        victim.start()
        day.wait_well(writers)
    day.prove()


def test_a_metadata_file_is_damaged(day: GameDay) -> None:
    """One table cannot be read any more, whether anybody commits to it or not; all others go on."""
    with day.load(*TABLES) as writers:
        wait_for_commits(writers, TABLES)
        broken = "shop.orders"
        for daemon in day.daemons:
            assert daemon.terminate() == 0
        newest = max((day.warehouse / "shop" / "orders" / "metadata").glob("*.metadata.json"))
        kept = newest.read_bytes()
        newest.write_bytes(kept[: len(kept) // 2])
        try:
            for daemon in day.daemons:
                daemon.start()
            day.wait_alert("FirnTableUnreadable")
            wait_for_commits(writers, [table for table in TABLES if table != broken])
            day.see("table-unreadable", "/dashboards/fleet?range=15m", f"cannot be read: {broken}")
            day.see("table-unreadable-page", f"/tables/{broken}", newest.name)
            day.tell("tables", "--deep", code=1, says=("unreadable", newest.name))
            day.tell("fsck", broken, code=1, says=(newest.name,))
        finally:
            newest.write_bytes(kept)
        day.wait_well(writers)
    day.prove()


@pytest.mark.long
def test_the_stream_is_poisoned(day: GameDay, secrets: Path) -> None:
    """Garbage, and intents that no table would take: set aside, told who sent them, and nobody waits for them."""
    with day.load(*TABLES) as writers, user_of(day.redis.port, secrets, "writer") as stranger:
        for shard in range(16):
            stranger.xadd(f"firn:intents:{shard}", {"intent": '{"half": '})
        stranger.xadd("firn:intents:3", {"payload": b"\xff\xfe"})
        day.wait_alert("FirnDeadLetters")
        day.see("stream-poisoned", "/dashboards/conflicts?range=15m", "FirnDeadLetters", "malformed-json")
        day.tell("dead-letters", says=("malformed-json",))
        day.tell("conflicts", "--since", "1h")
        wait_for_commits(writers, TABLES)
        day.wait_well(writers)
    day.prove()


@pytest.mark.long
def test_zookeepers_stop_one_then_two(day: GameDay) -> None:
    """One: nobody notices but who asks. Two: nothing is committed, nothing is lost, and it goes on by itself."""
    with day.load(*TABLES) as writers:
        first, second, _ = day.quorum.members
        day.quorum.kill(first)
        try:
            wait_for_commits(writers, TABLES)
            day.tell("doctor", says=(f"127.0.0.1:{day.quorum.ports[first]}: Connection refused", "2 of 3"))
            day.quorum.kill(second)
            day.wait_alert("FirnZooKeeperAway")
            day.see("zookeeper-away", "/dashboards/fleet?range=15m", "FirnZooKeeperAway")
            day.see("zookeeper-away-fleet", "/", "ZooKeeper")
            day.tell("status", code=3, says=("no ZooKeeper answers", "Connection refused"))
            day.tell("doctor", code=1, says=(f"127.0.0.1:{day.quorum.ports[second]}: Connection refused",))
            day.quorum.start(second)
        finally:
            day.quorum.start(first)
        day.wait_well(writers)
    day.prove()


@pytest.mark.long
def test_redis_stops_and_comes_back_too_small(day: GameDay) -> None:
    """Away: writers wait. Too small: it answers, and takes nothing. Both are told apart, and nothing is lost."""
    with day.load(*TABLES) as writers:
        wait_for_commits(writers, TABLES)
        day.redis.kill()
        try:
            day.wait_alert("FirnRedisAway")
            day.see("redis-away", "/dashboards/fleet?range=15m", "FirnRedisAway")
            day.tell("status", code=3, says=("Redis",))
            day.tell("doctor", code=1, says=("Redis",))
            day.redis.start("--maxmemory", "1mb")
            day.wait_alert("FirnRedisFull", "FirnRedisRefuses")
            day.see("redis-full", "/dashboards/fleet?range=15m", "FirnRedisRefuses")
            day.tell("doctor", code=1, says=("Redis, memory",))
        finally:
            day.redis.kill()
            day.redis.start()
        day.wait_well(writers)
    day.prove()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a warehouse of 48 MiB: a disk of its own, in memory, which only root may mount."""
    (tmp_path / "warehouse").mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk to fill")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(tmp_path / "warehouse")], check=True)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path / "warehouse")], check=True)


@pytest.mark.long
def test_the_disk_of_the_warehouse_is_full(small_disk: Path, secrets: Path, quorum: Quorum, browser: Browser) -> None:
    """What is submitted waits, and is committed as soon as there is room."""
    with game_day(small_disk, secrets=secrets, quorum=quorum, browser=browser) as day:
        with day.load(*TABLES) as writers, day.client() as janitor:
            wait_for_commits(writers, TABLES)
            ballast = fill(day.warehouse)
            waiting = [janitor.update_properties(table, {"comment": "checked"}) for table in TABLES]
            day.wait_alert("FirnTablesStalled")
            owner = day.owner_of("shop.orders")
            day.see("disk-full", "/", "shop.orders waits", "No space left on device", daemon=owner)
            day.see("disk-full-alert", "/dashboards/fleet?range=15m", "FirnTablesStalled", "shop.orders")
            day.tell("doctor", code=1, says=("No space left on device", "a full disk stops all commits"))
            ballast.unlink()
            for ticket in waiting:
                ticket.committed(60)
            day.wait_well(writers)
        day.prove()


def fill(folder: Path) -> Path:
    """A file that takes all that is free on a folder's disk."""
    ballast = folder / "somebody-elses.dump"
    with ballast.open("wb", buffering=0) as file:
        for size in (2**20, 2**10):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    return ballast
