"""A client that is not told where Redis is finds the one that the `firn` commands of its folder find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firn.coordinator.client.address import USUAL_URL, addressed
from firn.coordinator.endpoints import Endpoints, write_endpoints


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRN_REDIS_URL", raising=False)


def daemon_on_data(*, pid: int) -> None:
    Path("data").mkdir()
    endpoints = Endpoints(
        pid=pid, redis_url="redis://127.0.0.1:1234/0", redis_prefix="mine", zookeeper_hosts="", zookeeper_root="",
        warehouse="",
    )  # fmt: skip
    write_endpoints(Path("data"), endpoints)


def test_what_is_given_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon_on_data(pid=os.getpid())
    monkeypatch.setenv("FIRN_REDIS_URL", "redis://variable/0")
    assert addressed("redis://given/0", {"prefix": "p"}) == ("redis://given/0", {"prefix": "p"})


def test_the_environment_goes_before_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon_on_data(pid=os.getpid())
    monkeypatch.setenv("FIRN_REDIS_URL", "redis://variable/0")
    assert addressed(None, {}) == ("redis://variable/0", {})


def test_the_daemon_of_the_folder_is_found_with_its_prefix() -> None:
    daemon_on_data(pid=os.getpid())
    assert addressed(None, {}) == ("redis://127.0.0.1:1234/0", {"prefix": "mine"})


def test_a_daemon_that_is_gone_is_not_found() -> None:
    daemon_on_data(pid=2**22 + 1)  # above what a process id can be
    assert addressed(None, {}) == (USUAL_URL, {})


def test_without_anything_it_is_the_usual_one() -> None:
    assert addressed(None, {}) == (USUAL_URL, {})
