"""From settings to connections: what cannot be connected to is said without quoting a secret."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from firn.coordinator.cli.exits import EXIT_UNAVAILABLE
from firn.coordinator.cli.main import run
from firn.coordinator.client import AsyncClient
from firn.coordinator.config import RedisSettings, Settings, WarehouseSettings, load_settings
from firn.coordinator.connections import connect
from firn.coordinator.embedded.server import free_port
from firn.coordinator.redis_connection import connect_streams
from firn.coordinator.store_addresses import connect_files
from firn.model.errors import Misconfigured, Unavailable

CANARY = "canary-51c0"
MISTAKES = [
    "redis://firn:{canary}/1@127.0.0.1:6379/0",
    "redis://firn:1/{canary}@127.0.0.1:6379/0",
    "redis://firn:#{canary}@127.0.0.1:6379/0",
    "redis://firn:\u2100{canary}@127.0.0.1:6379/0",
    "redis://firn:{canary}",
    "redis://127.0.0.1:1/0?pasword={canary}",
    "redis:/{canary}",
]
"""Passwords that are not percent-encoded, and other slips."""


@pytest.mark.parametrize("url", MISTAKES)
def test_a_redis_url_with_a_mistake_is_not_quoted(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_REDIS_URL", url.format(canary=CANARY))
    monkeypatch.chdir(tmp_path)
    try:
        connect_streams(load_settings())
    except Misconfigured as error:
        said = "".join(traceback.format_exception(error))
        assert "redis.url" in said
        assert CANARY not in said
    else:  # it is an address, though not the one that was meant
        assert url.startswith(("redis://firn:1/", "redis://firn:#"))


@pytest.mark.parametrize("url", MISTAKES)
def test_settings_with_a_mistake_in_a_url_are_shown_without_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRN_REDIS_URL", url.format(canary=CANARY))
    monkeypatch.chdir(tmp_path)
    run(["--debug", "config", "show"])
    said = capsys.readouterr()
    assert said.out or said.err
    assert CANARY not in said.out + said.err


@pytest.mark.parametrize(
    ("host", "why"), [("127.0.0.1", "Connection refused"), ("nowhere.invalid", "")], ids=["refused", "unknown"]
)
def test_a_redis_that_does_not_answer_is_named_with_its_address_and_without_its_password(
    host: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    monkeypatch.setenv("FIRN_REDIS_URL", f"redis://ann:{CANARY}@{host}:{port}/0")
    assert run(["dead-letters", "list"]) == EXIT_UNAVAILABLE
    said = capsys.readouterr().err
    assert said.startswith(f"firn: Redis at redis://ann:***@{host}:{port}/0 does not answer: {why}")
    assert "redis.url (FIRN_REDIS_URL)" in said, "what to do"
    assert said.count("\n") == 1
    assert CANARY not in said


async def test_a_daemon_that_finds_no_redis_says_where_it_looked() -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    settings = Settings(redis=RedisSettings(url=url))
    with pytest.raises(Unavailable, match=f"^Redis at {url} does not answer: Connection refused$"):
        async with connect(settings):
            pass


@pytest.mark.parametrize("ask", ["table", "view", "reserved"])
async def test_a_client_that_finds_no_redis_says_where_it_looked(ask: str) -> None:
    place = f"127.0.0.1:{free_port()}/0"
    async with AsyncClient(f"redis://ann:{CANARY}@{place}") as client:
        with pytest.raises(
            Unavailable, match=rf"^Redis at redis://ann:\*\*\*@{place} does not answer: Connection refused$"
        ):
            await getattr(client, ask)("db.events")


def test_options_of_a_store_are_taken_as_they_are_documented() -> None:
    """In the spelling of settings, and those about HTTP among the others: the library refuses names that it has not."""
    options = {
        "region": "us-east-1", "endpoint": "http://127.0.0.1:9", "allow-http": "true", "connect-timeout": "100ms",
        "timeout": "100ms", "access-key-id": "id", "secret-access-key": CANARY,
    }  # fmt: skip
    connect_store(options)
    with pytest.raises(Misconfigured, match="regoin") as failed:
        connect_store({**options, "regoin": "eu"})
    assert CANARY not in str(failed.value)


def connect_store(options: dict[str, str]) -> None:
    """Make the client of a bucket, which connects to nothing yet."""
    warehouse = WarehouseSettings(location="s3://bucket/warehouse", options={"s3": options})
    files: Any = connect_files(Settings(warehouse=warehouse))
    files._stores["s3"]._from_url("s3://bucket", False)
