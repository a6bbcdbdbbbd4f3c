"""A Redis that does not let firn in is named, and so is what to correct."""

from __future__ import annotations

import asyncio

import pytest

from firn.coordinator.cli.exits import EXIT_USAGE
from firn.coordinator.cli.main import run


async def test_a_wrong_password_is_said_with_the_address_and_never_quoted(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = redis_url.removeprefix("redis://")
    monkeypatch.setenv("FIRN_REDIS_URL", f"redis://nobody:canary-51c0@{place}")
    assert await asyncio.to_thread(run, ["dead-letters", "list"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"firn: Redis at redis://nobody:***@{place} refuses this client: ")
    assert "user and password are those of redis.url" in said
    assert "canary-51c0" not in said
