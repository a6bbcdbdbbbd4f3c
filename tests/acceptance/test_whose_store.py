"""A store that is empty, older or another deployment's: work is held, nothing is refused, and all of it is committed
once the right store is back or `firn recover` has mended it. No daemon is restarted for it.
"""

from __future__ import annotations

import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest
import redis
from kazoo.client import KazooClient

from firn.coordinator.client import Client
from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from firn.model.deployment import RedisMark
from firn.model.intent import Intent
from firn.model.outcome import Committed
from tests.acceptance.stack import SCHEMA, DaemonProcess, Stack
from tests.acceptance.test_disasters import MAKE, A, Told, ask, check, check_answers, data_file, recover, rows_of

TIMEOUT_S: Final = 40.0
ROWS: Final = 10
THEIRS: Final = "f" * 32

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Stack]:
    """A deployment on servers of its own, whose folders can be exchanged while they are stopped."""
    with (
        RedisServer(tmp_path / "servers") as redis_server,
        ZooKeeperServer(tmp_path / "servers") as zookeeper_server,
        Stack(tmp_path, redis_server=redis_server, zookeeper_server=zookeeper_server) as stack,
    ):
        yield stack


def exchange(server: RedisServer | ZooKeeperServer, stack: Stack, *, put: Path | None, away: Path) -> None:
    """Start a server with another folder (None: an empty one) on its port; the one that it had is put `away`."""
    folder = stack.folder / "servers" / server.name
    server._process.terminate(grace_seconds=10)  # type: ignore[union-attr]
    shutil.move(folder, away)
    if put is not None:
        shutil.copytree(put, folder)
    server.start()


def copy_of(server: ZooKeeperServer, stack: Stack) -> Path:
    """A copy of a server's folder, made while it is stopped."""
    server._process.terminate(grace_seconds=10)  # type: ignore[union-attr]
    kept = stack.folder / f"copy-of-{server.name}"
    shutil.copytree(stack.folder / "servers" / server.name, kept)
    server.start()
    return kept


def until(holds: Callable[[], bool], what: str) -> None:
    ends_at = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < ends_at, what
        time.sleep(0.1)


def why_not_ready(daemon: DaemonProcess) -> str:
    """What ``/readyz`` says while it does not say yes; empty when it does."""
    try:
        with urllib.request.urlopen(f"{daemon.http}/readyz", timeout=2):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode() if error.code == 503 else ""


def begin(stack: Stack, *, appends: int = 3) -> list[Told]:
    stack.daemon("a")
    with stack.client() as client:
        told = [ask(client, MAKE.create_table(A, SCHEMA))]
        view = client.table(A)
        told += [ask(client, MAKE.append(A, [data_file(view, turn * ROWS)])) for turn in range(appends)]
    return told


def held_work(stack: Stack, client: Client) -> list[Intent]:
    """An append and a creation that may not be refused, and may not be done in a wrong store."""
    view = client.table(A)
    work = [MAKE.append(A, [data_file(view, 500)]), MAKE.create_table("db.made", SCHEMA)]
    for intent in work:
        client.submit(intent)
    return work


def check_held(stack: Stack, work: list[Intent], *, seconds: float = 1.0) -> None:
    """None of the intents has an outcome, after a while."""
    time.sleep(seconds)
    for intent in work:
        assert stack.redis.get(stack.names.outcome(intent.intent_id)) is None
    assert stack.dead_letters() == []


def end(stack: Stack, told: list[Told], work: list[Intent], *, rows: list[int]) -> None:
    """What was held is committed, the first outcomes are told again, and the rows are what they should be."""
    with stack.client() as client:
        for intent in work:
            _, outcome = ask(client, intent)
            assert isinstance(outcome, Committed), outcome
        check_answers(client, told)
    assert rows_of(stack, A) == sorted(rows)
    check(stack)
    stack.wait_settled()


def test_zookeeper_emptied_under_one_daemon_and_before_another_starts(own: Stack) -> None:
    told = begin(own)
    with own.client() as client:
        exchange(own.zookeeper_server, own, put=None, away=own.folder / "lost")
        work = held_work(own, client)
        later = own.daemon("b", ready=False)
        until(lambda: later.running and "ZooKeeper is empty" in why(later), "b says what it sees")
        until(lambda: why(own.daemons["a"]) != "", "a is not ready")
        check_held(own, work)
        assert "ZooKeeper is empty" in said(own, "doctor")
        assert "ZooKeeper is empty" in said(own, "status")
        assert set(recover(own, "--yes")["restored"]) == {A}
        for daemon in own.daemons.values():
            daemon.wait_ready(TIMEOUT_S)
    end(own, told, work, rows=[*range(3 * ROWS), *range(500, 500 + ROWS)])


def said(stack: Stack, command: str) -> str:
    """What a command prints, troubles too."""
    done = stack.firn(command)
    return done.stdout + done.stderr


def why(daemon: DaemonProcess) -> str:
    try:
        return why_not_ready(daemon)
    except (urllib.error.URLError, OSError):
        return ""


def test_zookeeper_restored_from_its_own_older_copy(own: Stack) -> None:
    """Some tables are behind, one was made and one dropped since."""
    told = begin(own, appends=1)
    with own.client() as client:
        told.append(ask(client, MAKE.create_table("db.dropped", SCHEMA)))
        own.daemons["a"].terminate()
        copy = copy_of(own.zookeeper_server, own)
        own.daemon("c")
        view = client.table(A)
        told += [ask(client, MAKE.append(A, [data_file(view, turn * ROWS)])) for turn in range(1, 4)]
        told += [ask(client, MAKE.create_table("db.since", SCHEMA)), ask(client, MAKE.drop_table("db.dropped"))]
        own.daemons["c"].terminate()
        exchange(own.zookeeper_server, own, put=copy, away=own.folder / "newer")
        daemon = own.daemon("d")
        since = client.table("db.since")
        work = [
            MAKE.append(A, [data_file(view, 500)]), MAKE.append("db.since", [data_file(since, 0)]),
            MAKE.create_table("db.since", SCHEMA), MAKE.create_table("db.dropped", SCHEMA),
        ]  # fmt: skip
        for intent in work:
            client.submit(intent)
        until(lambda: f"firn recover {A}" in said(own, "status"), "status names what is behind")
        check_held(own, [work[0], work[1], work[2]])
        behind = own.pointer(A).journal_head
        assert behind is not None
        assert "/0000000002-" in behind, "the older pointer was not built upon"
        shown = recover(own)
        findings = {one["table"]: one["finding"] for one in shown["tables"]}
        assert findings == {A: "stale", "db.since": "restore", "db.dropped": "stale"}
        assert set(recover(own, "--yes")["restored"]) == {A, "db.since", "db.dropped"}
        assert isinstance(ask(client, work[0])[1], Committed)
        assert isinstance(ask(client, work[1])[1], Committed)
        assert not isinstance(ask(client, work[2])[1], Committed), "it is there"
        assert daemon.running
    end(own, told, [work[0], work[1]], rows=[*range(4 * ROWS), *range(500, 500 + ROWS)])


def test_zookeeper_swapped_for_another_deployments(own: Stack) -> None:
    told = begin(own)
    with own.client() as client:
        mine = own.folder / "mine"
        exchange(own.zookeeper_server, own, put=None, away=mine)
        making = KazooClient(own.zookeeper_server.hosts)
        making.start(timeout=20)
        making.ensure_path(f"{own.root}/tables")
        making.create(f"{own.root}/deployment", THEIRS.encode())
        making.stop()
        making.close()
        work = held_work(own, client)
        until(lambda: "another deployment's" in why(own.daemons["a"]), "a says whose it is")
        check_held(own, work)
        with own.zookeeper() as theirs:
            assert not theirs.exists("/members/a"), "nobody waits there for its shards"
            assert theirs.get_children("/tables") == []
        refused = own.daemon("b", ready=False)
        until(lambda: refused.exit_code is not None, "b does not start")
        assert refused.exit_code == 2
        assert "ZooKeeper is another deployment's" in refused.log()
        said = own.firn("recover", "--yes")
        assert said.returncode == 2
        assert "another deployment's" in said.stderr
        exchange(own.zookeeper_server, own, put=mine, away=own.folder / "theirs")
        own.daemons["a"].wait_ready(TIMEOUT_S)
    end(own, told, work, rows=[*range(3 * ROWS), *range(500, 500 + ROWS)])


def test_a_second_daemon_with_the_right_redis_and_another_root_does_not_start(stack: Stack) -> None:
    told = begin(stack)
    second = stack.daemon("b", ready=False, ZOOKEEPER_ROOT=f"{stack.root}/typo")
    until(lambda: second.exit_code is not None, "b does not start")
    assert second.exit_code == 2
    assert f"whose ZooKeeper root is {stack.root}" in second.log()
    with stack.client() as client:
        work = held_work(stack, client)
    end(stack, told, work, rows=[*range(3 * ROWS), *range(500, 500 + ROWS)])


def test_redis_swapped_for_another_deployments(own: Stack) -> None:
    told = begin(own)
    with own.client() as client:
        view = client.table(A)
        held = MAKE.append(A, [data_file(view, 500)])
    mine = own.folder / "mine"
    exchange(own.redis_server, own, put=None, away=mine)
    theirs = redis.Redis.from_url(own.redis_url)
    theirs.set(own.names.deployment, msgspec.json.encode(RedisMark(deployment=THEIRS, zookeeper_root="/theirs")))
    until(lambda: "Redis is another deployment's" in why(own.daemons["a"]), "a says whose it is")
    with own.client() as client:
        client.submit(held)
        check_held(own, [held])
    refused = own.daemon("b", ready=False)
    until(lambda: refused.exit_code is not None, "b does not start")
    assert refused.exit_code == 2
    assert "Redis is another deployment's" in refused.log()
    assert own.firn("recover", "--yes").returncode == 2
    exchange(own.redis_server, own, put=mine, away=own.folder / "theirs")
    own.daemons["a"].wait_ready(TIMEOUT_S)
    end(own, told, [held], rows=[*range(3 * ROWS), *range(500, 500 + ROWS)])


def test_redis_emptied_is_gone_on_with_and_marked_again(stack: Stack) -> None:
    told = begin(stack)
    stack.redis.flushall()
    assert recover(stack, "--missing-only", "--yes")["restored"] == []
    with stack.client() as client:
        work = held_work(stack, client)
    end(stack, told, work, rows=[*range(3 * ROWS), *range(500, 500 + ROWS)])
    until(lambda: stack.redis.get(stack.names.deployment) is not None, "Redis is marked again")
