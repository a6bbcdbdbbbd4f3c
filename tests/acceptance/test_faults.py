"""Whatever is killed, emptied, stopped or restarted under load: every append is committed exactly once."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest

from firn.model.sharding import shard_of
from tests.acceptance.checks import check_exactly_once, check_log, check_readers, duckdb_sums, journal
from tests.acceptance.load import Load
from tests.acceptance.stack import SESSION_TIMEOUT_S, SHARDS, DaemonProcess, Stack

pytestmark = pytest.mark.alone

TABLE = "db.events"
TAKEOVER_S = SESSION_TIMEOUT_S + 2.0
SESSION_LOST = (
    "zookeeper session", "swap unanswered", "batch waits", "pauses not read",
    "ownership waits", "shards wait", "lease.not-removed-yet", "intake waits", "notice not changed",
)  # fmt: skip
REDIS_LOST = ("intake waits", "outcomes wait", "batch waits", "reservations not looked at")


def full_load(stack: Stack, rng: random.Random, **plan: float) -> Load:
    """Fifty writers with twenty appends each, stretched so that faults meet them at work."""
    return Load(stack, TABLE, **{"writers": 50, "appends": 20, "pause_s": 0.15, "seed": rng.random(), **plan})


def part_load(stack: Stack, rng: random.Random, **plan: float) -> Load:
    """Fewer writers, for faults that concern the daemon more than the number of writers."""
    return full_load(stack, rng, **{"writers": 16, "appends": 25, "pause_s": 0.15, **plan})


def finish(stack: Stack, load: Load) -> str:
    """Let the writers end, and check the table; its metadata location."""
    told = load.finish()
    location = check_exactly_once(stack, TABLE, told, count=load.expected)
    rows, id_sum, different = duckdb_sums(location)
    assert rows == different == sum(t.rows for t in told)
    assert id_sum == sum(t.id_sum for t in told)
    stack.wait_settled()
    return location


def some_work(load: Load, rng: random.Random, *, most: int = 60) -> bool:
    """Let some outcomes come and a moment pass; False when there would be none left."""
    count = len(load.told) + rng.randrange(1, most)
    if count >= load.expected:
        return False
    load.wait_for(count)
    time.sleep(rng.uniform(0, 0.2))
    return load.running


def owner_of_table(stack: Stack, table: str = TABLE) -> str:
    """The daemon that serves the table now."""
    stack.wait_shards_owned()
    with stack.zookeeper() as client:
        owner: bytes = client.get(f"/shards/{shard_of(table, shards=SHARDS)}")[0]
        return owner.decode()


def check_gap(load: Load, since: float, at_most_s: float) -> None:
    """Wait for the first commit of something sent after `since`; it must come in time."""
    ends_at = time.monotonic() + at_most_s + 20
    while (first := load.first_after(since)) is None and time.monotonic() < ends_at:
        time.sleep(0.02)
    assert first is not None, "nothing was committed any more"
    print(f"first commit {first - since:.2f} s later")
    assert first - since <= at_most_s


def kill_again_and_again(stack: Stack, daemon: DaemonProcess, load: Load, rng: random.Random, *, times: int) -> int:
    """Kill and restart the daemon at random moments of its work; how often it was."""
    kills = 0
    while kills < times and some_work(load, rng):
        daemon.kill()
        kills += 1
        daemon.start()
    return kills


def test_a_daemon_killed_again_and_again_under_load_loses_and_doubles_nothing(stack: Stack, rng: random.Random) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with full_load(stack, rng) as load:
        assert kill_again_and_again(stack, daemon, load, rng, times=3) == 3
        location = finish(stack, load)
        check_readers(location, load.told)
    # Not four: what a life has told may all have been the commits of the one before it.
    assert len({segment.batch.lock_token for segment in journal(stack, TABLE)}) >= 2
    assert daemon.terminate() == 0
    check_log(daemon)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_twenty_kills_lose_and_double_nothing(stack: Stack, rng: random.Random) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with full_load(stack, rng, appends=100, pause_s=0.5, timeout_s=600) as load:
        assert kill_again_and_again(stack, daemon, load, rng, times=20) == 20
        load.finish(600)
        finish(stack, load)
    assert daemon.terminate() == 0
    check_log(daemon)


def test_when_one_of_two_daemons_is_killed_the_other_takes_over_in_time(stack: Stack, rng: random.Random) -> None:
    daemons = {name: stack.daemon(name) for name in ("a", "b")}
    stack.create_table(TABLE)
    with full_load(stack, rng) as load:
        load.wait_for(rng.randrange(50, 300))
        owner = owner_of_table(stack)
        killed_at = time.monotonic()
        daemons.pop(owner).kill()
        check_gap(load, killed_at, TAKEOVER_S)
        load.enough()
        finish(stack, load)
    (heir,) = daemons.values()
    assert {segment.batch.daemon for segment in journal(stack, TABLE)} == {"a", "b"}
    assert heir.terminate() == 0
    check_log(heir)


def test_writers_submit_again_what_an_emptied_redis_has_lost(stack: Stack, rng: random.Random) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with full_load(stack, rng) as load:
        for stopped_s in (0.0, 0.5, 0.0):
            assert some_work(load, rng, most=200)
            daemon.pause()  # intents gather that no daemon has taken
            time.sleep(stopped_s)
            stack.redis.flushall()
            daemon.resume()
        load.wait_for(len(load.told) + 50)
        load.enough()
        finish(stack, load)
        assert max(told.attempts for told in load.told) > 1, "nothing was lost: the test proves nothing"
    assert daemon.terminate() == 0
    check_log(daemon, errors=("queue emptied",))
    assert 1 <= len(daemon.log_records("error")) <= 3


def test_a_redis_that_crashes_under_load_and_comes_back_loses_nothing(stack: Stack, rng: random.Random) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with part_load(stack, rng) as load:
        for _ in range(2):
            assert some_work(load, rng)
            stack.redis_server.kill()
            time.sleep(rng.uniform(0, 1))
            stack.redis_server.start()
        load.wait_for(len(load.told) + 16)
        load.enough()
        finish(stack, load)
    assert daemon.terminate() == 0
    check_log(daemon, warnings=REDIS_LOST)


def test_a_zookeeper_that_crashes_under_load_and_comes_back_loses_nothing(stack: Stack, rng: random.Random) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    with part_load(stack, rng) as load:
        for seconds in (0.0, 2 * SESSION_TIMEOUT_S):  # within the session, and past it
            assert some_work(load, rng)
            stack.zookeeper_server.kill()
            time.sleep(seconds)
            stack.zookeeper_server.start()
            check_gap(load, time.monotonic(), TAKEOVER_S)
        load.enough()
        finish(stack, load)
    assert daemon.terminate() == 0
    check_log(daemon, warnings=SESSION_LOST)


def test_a_daemon_stopped_past_its_session_comes_back_as_a_zombie_and_changes_nothing(
    stack: Stack, rng: random.Random
) -> None:
    daemons = {name: stack.daemon(name) for name in ("a", "b")}
    stack.create_table(TABLE)
    with part_load(stack, rng, appends=50) as load:
        for _ in range(2):
            assert some_work(load, rng)
            zombie = daemons[owner_of_table(stack)]
            paused_at = time.monotonic()
            zombie.pause()
            check_gap(load, paused_at, TAKEOVER_S)
            assert some_work(load, rng)
            resumed_at = time.monotonic()
            zombie.resume()
            check_gap(load, resumed_at, TAKEOVER_S)
        load.enough()
        finish(stack, load)
    for daemon in daemons.values():
        daemon.wait_ready()
        assert daemon.terminate() == 0
        check_log(daemon, warnings=SESSION_LOST)


def test_daemons_that_are_told_to_end_drain_and_leave_nothing_behind(stack: Stack, rng: random.Random) -> None:
    daemons: Sequence[DaemonProcess] = [stack.daemon(name) for name in ("a", "b")]
    stack.create_table(TABLE)
    with part_load(stack, rng, appends=80) as load:  # enough to last through two starts
        for daemon in daemons:  # a rolling restart
            assert some_work(load, rng)
            ended_at = time.monotonic()
            assert daemon.terminate() == 0
            check_gap(load, ended_at, SESSION_TIMEOUT_S)  # shards are given up, nobody waits for a session to end
            daemon.start()
        load.enough()
        finish(stack, load)
    for daemon in daemons:
        assert daemon.terminate() == 0
        check_log(daemon)


def test_a_daemon_without_its_servers_waits_idly_and_ends_when_it_is_told(stack: Stack) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    stack.redis_server.kill()
    stack.zookeeper_server.kill()
    time.sleep(1)
    used_s = daemon.cpu_s()
    time.sleep(3)
    assert daemon.cpu_s() - used_s < 0.6
    assert daemon.get("/readyz") is None
    assert daemon.get("/healthz") is not None
    ended_at = time.monotonic()
    assert daemon.terminate() == 0
    assert time.monotonic() - ended_at < 5
    assert len([r for r in daemon.log_records("warning") if r["event"] == "intake waits"]) <= 2
    check_log(daemon, warnings=SESSION_LOST)
