"""The shipped Redis loads its configuration, and its users may do what they need and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from firn import Client
from tests.deploy.servers import url_of, user_of

pytestmark = pytest.mark.integration


def test_what_is_accepted_is_kept(acl_redis: int, secrets: Path) -> None:
    """Every write is synced before its answer, and nothing is evicted: an evicted intent is a lost intent."""
    with user_of(acl_redis, secrets, "daemon") as daemon:
        settings = {name: daemon.config_get(name)[name] for name in ("appendonly", "appendfsync", "maxmemory-policy")}
    assert settings == {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}


def test_nobody_gets_in_without_a_name(acl_redis: int) -> None:
    with redis.Redis(port=acl_redis, protocol=2) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


@pytest.mark.parametrize("user", ["daemon", "writer", "reader"])
@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("EVAL", "return 1", "0"),
        ("CONFIG", "SET", "appendonly", "no"),
        ("SHUTDOWN",),
        ("ACL", "LIST"),
        ("MODULE", "LIST"),
        ("GET", "another-application"),
        ("SET", "another-application", "x"),
    ],
)
def test_no_user_can_harm_the_server_or_other_applications(
    acl_redis: int, secrets: Path, user: str, command: tuple[str, ...]
) -> None:
    with user_of(acl_redis, secrets, user) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


@pytest.mark.parametrize(
    "command",
    [
        ("XADD", "firn:events", "*", "event", "x"),
        ("XADD", "firn:replies:someone", "*", "outcome", "x"),
        ("XADD", "firn:dead-letters", "*", "x", "x"),
        ("SET", "firn:outcome:1", "x"),
        ("DEL", "firn:intents:0"),
        ("XDEL", "firn:intents:0", "1-1"),
        ("XTRIM", "firn:intents:0", "MAXLEN", "0"),
        ("XGROUP", "DESTROY", "firn:intents:0", "firn"),
        ("XACK", "firn:intents:0", "firn", "1-1"),
        ("XREAD", "STREAMS", "firn:events", "0"),
        ("GET", "firn:epoch"),
        ("HSET", "firn:refused", "x", "x"),
        ("PEXPIRE", "firn:intents:0", "1"),
    ],
)
def test_a_writer_can_submit_reserve_and_ask_for_its_outcome_only(
    acl_redis: int, secrets: Path, command: tuple[str, ...]
) -> None:
    with user_of(acl_redis, secrets, "writer") as writer, pytest.raises(redis.exceptions.NoPermissionError):
        writer.execute_command(*command)


@pytest.mark.parametrize("command", [("XADD", "firn:intents:0", "*", "intent", "{}"), ("SET", "firn:epoch", "x")])
def test_a_reader_changes_nothing(acl_redis: int, secrets: Path, command: tuple[str, ...]) -> None:
    with user_of(acl_redis, secrets, "reader") as reader, pytest.raises(redis.exceptions.NoPermissionError):
        reader.execute_command(*command)


@pytest.mark.parametrize("user", ["daemon", "writer"])
def test_reservations_are_made_renewed_and_given_up(acl_redis: int, secrets: Path, user: str) -> None:
    with Client(url_of(acl_redis, secrets, user)) as client:
        with client.begin("db.reserved", purpose="compaction") as mine:
            (standing,) = client.reserved("db.reserved").standings
            assert standing.reservation.reservation_id == mine.reservation_id
        assert client.reserved("db.reserved").standings == ()
