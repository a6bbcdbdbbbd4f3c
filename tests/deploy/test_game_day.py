"""Game day: something is broken under load; alerts, pages and commands alone say what, where, and what to do.

What was seen is written down in docs/runbooks/game-day.md. Four of the events are tried in every run, the others by
``make test-long``; ``FIRN_GAME_DAY_IMAGES=docs/runbooks/images`` takes the pictures anew.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from pyiceberg.table import StaticTable

from firn import Rejected, data_files_from_parquet
from firn.coordinator.operations.dead_letters import is_letter_id
from firn.model.sharding import shard_of
from firn.storage.intent_streams import GROUP
from tests.acceptance.browser import chromium
from tests.acceptance.folder_catalog import FolderCatalog
from tests.acceptance.stack import DaemonProcess
from tests.deploy.game_day import DELIVERIES_MAX, TABLES, GameDay, game_day
from tests.deploy.servers import Quorum, user_of, wait_until
from tests.deploy.writers import ROWS, SCHEMA, wait_for_commits, written

pytestmark = [pytest.mark.acceptance, pytest.mark.alone]


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
        day.tell("top", "--rounds", "2", says=("1 daemon", "intents/s come in"))
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
        day.tell("dead-letters", "drop", "--rule", "malformed-json", "--yes", says=("dropped 16 dead letters",))
        day.tell("dead-letters", "list", says=("malformed-entry",))
        day.wait_well(writers)
    day.prove()


@pytest.mark.long
def test_an_intent_takes_daemon_after_daemon_down(day: GameDay, secrets: Path) -> None:
    """It is set aside alone, as a letter that can be looked at, tried again and dropped; all others are committed."""
    imports = "ops.imports"
    with day.load(*TABLES) as writers, day.client() as importer:
        importer.create_table(imports, SCHEMA).committed(60)
        wait_for_commits(writers, TABLES)
        with day.lock_held(imports):
            fatal = importer.update_properties(imports, {"source": "the nightly import"}, writer="importer")
            die_over(day, secrets, imports)
        refused = fatal.result(60)
        assert isinstance(refused, Rejected)
        assert refused.rule == "poison"
        day.wait_alert("FirnDeadLetters")
        day.see("poison-alert", "/dashboards/conflicts?range=15m", "FirnDeadLetters", "poison")
        day.see("poison-intent", f"/intents/{fatal.intent_id}?table={imports}", "Rejected: poison", "importer")
        day.tell("explain", fatal.intent_id, says=("poison", "importer", "firn dead-letters has its payload"))
        letter = day.tell("dead-letters", "--table", imports, says=("poison", fatal.intent_id)).split()
        letter_id = next(word for word in letter if is_letter_id(word))
        day.tell(
            "dead-letters", "show", letter_id, says=("the nightly import", "handed out", f"retry {letter_id} --new")
        )
        day.tell("dead-letters", "retry", letter_id, code=1, says=("rejected", "poison"))
        day.tell("dead-letters", "retry", letter_id, "--new-id", says=("committed", "the letter is dropped"))
        assert importer.table(imports).metadata.properties["source"] == "the nightly import"
        day.tell("dead-letters", "list", "--table", imports, says=("no dead letters",))
        day.wait_well(writers)
    day.prove()


def die_over(day: GameDay, secrets: Path, table: str) -> None:
    """Kill every daemon that has the one intent of a table in its hands, as if it died over it; start it again."""
    stream = f"firn:intents:{shard_of(table, shards=16)}"
    with user_of(day.redis.port, secrets, "daemon") as redis:

        def holder(nth: int) -> DaemonProcess | None:
            """The daemon to which it was handed as the nth one."""
            for one in redis.xpending_range(stream, GROUP, min="-", max="+", count=10):
                if one["times_delivered"] == nth:
                    return next(daemon for daemon in day.daemons if daemon.name.encode() == one["consumer"])
            return None

        for nth in range(1, DELIVERIES_MAX + 2):
            wait_until(partial(holder, nth), what=f"it is handed out for time {nth}", timeout_s=60)
            victim = holder(nth)
            assert victim is not None
            victim.kill()
            victim.start(ready=False)


def test_a_table_is_paused_and_forgotten(day: GameDay) -> None:
    """Whoever looks is told who paused it and why; what waited is decided when it is resumed."""
    with day.load(*TABLES) as writers, day.client() as reporter:
        wait_for_commits(writers, TABLES)
        paused, why = "shop.orders", "moving its bucket, ticket 4711"
        day.tell("pause", paused, "--by", "ann", "--reason", why, says=(f"paused {paused}",))
        waiting = reporter.update_properties(paused, {"reported": "yes"})
        day.wait_alert("FirnTablePaused")
        wait_for_commits(writers, [table for table in TABLES if table != paused])
        day.see("table-paused", "/", "Paused tables", why)
        day.see("table-paused-page", f"/tables/{paused}", f"firn resume {paused}", why)
        day.tell("status", says=("1 paused", "ann", why))
        day.tell("top", "--rounds", "2", says=(paused, "ann", why))
        day.tell("tables", "--state", "paused", says=(paused, why))
        day.tell("explain", waiting.intent_id, says=("paused", "ann", why))
        day.tell("lock", "show", paused, says=(f"nobody works on {paused}",))
        day.tell("resume", paused, says=(f"resumed {paused}", "ann", why))
        waiting.committed(60)
        day.tell("explain", waiting.intent_id, says=("committed",))
        day.wait_well(writers)
    day.prove()


def test_another_engine_rewrites_what_a_job_was_about_to_delete(day: GameDay) -> None:
    """A file-system table, which not firn alone commits to: the job is refused, and told by which snapshot."""
    exports = "shop.exports"
    folder = day.warehouse / "shop" / "exports"
    with day.load(*TABLES) as writers, day.client() as job:
        job.create_table(exports, SCHEMA, catalog="file-system", location=str(folder)).committed(60)
        view = job.table(exports)
        path = written(folder / "data", view.schema, writer="export-job", first=0)
        job.append(exports, data_files_from_parquet([path], view), writer="export-job").committed(60)
        foreign = FolderCatalog(folder)
        foreign.load_table(exports).delete("id < 5")
        late = job.delete_files(exports, [str(path)], writer="export-job")
        refused = late.result(60)
        assert isinstance(refused, Rejected)
        assert (refused.rule, refused.conflicting_snapshot_id) == ("missing-file", foreign.committed)
        day.see("foreign-conflict", f"/intents/{late.intent_id}?table={exports}", "missing-file", path.name)
        day.see("foreign-table", f"/tables/{exports}", "not by firn", str(foreign.committed))
        day.tell("conflicts", "--table", exports, "--since", "1h", says=("missing-file", "export-job"))
        day.tell("explain", late.intent_id, says=("missing-file", str(foreign.committed)))
        day.tell("explain", "--snapshot", str(foreign.committed), "--table", exports, says=("a writer outside firn",))
        day.tell("fsck", exports, says=(exports,))
        assert StaticTable.from_metadata(job.table(exports).metadata_location).scan().to_arrow().num_rows == ROWS - 5
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


@pytest.mark.long
def test_zookeeper_comes_back_empty(day: GameDay) -> None:
    """Nothing is refused and no table is made anew; the pointers are restored from the journals, under load."""
    with day.load(*TABLES) as writers:
        wait_for_commits(writers, TABLES)
        day.quorum.lose_all()
        day.wait_alert("FirnForeignStore")
        day.see("zookeeper-empty", "/dashboards/fleet?range=15m", "FirnForeignStore")
        day.tell("status", code=1, says=("ZooKeeper is empty",))
        day.tell("doctor", code=1, says=("stores, identity", "ZooKeeper is empty", "firn recover --yes"))
        day.tell("recover", says=(*TABLES, "3 pointers would be made; nothing was changed"))
        day.tell("recover", "--yes", says=TABLES)
        day.tell("fsck", "--all", says=("fsck: ok",))
        day.wait_well(writers)
        day.tell("doctor", says=("belong together",))
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
            (other,) = (daemon for daemon in day.daemons if daemon is not day.owner_of("shop.orders"))
            day.see("disk-full", "/", "shop.orders waits", "No space left on device", daemon=other)
            day.tell("status", code=1, says=("table shop.orders waits", "No space left on device"))
            day.tell("tables", "--state", "stalled", code=1, says=(*TABLES, "No space left on device"))
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
