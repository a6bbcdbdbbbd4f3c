"""A store that takes requests and does not answer: the daemon ends all the same, says what hangs, and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from firn.coordinator.cli.exits import EXIT_LEFT_BEHIND, EXIT_UNAVAILABLE
from firn.coordinator.client import Client
from firn.coordinator.client.sync_client import Ticket
from firn.model.outcome import Committed
from tests.acceptance.stack import DaemonProcess, Stack
from tests.integration.s3_server import S3Server

HANGS = "db.hangs"
GOOD = "db.good"
WAREHOUSE = "s3://bucket/warehouse"


@pytest.fixture
def s3(stack: Stack) -> Iterator[S3Server]:
    """The warehouse, with both tables; nothing hangs yet. Requests are not given up before the tests are over."""
    with S3Server() as server:
        (stack.folder / "firn.toml").write_text(
            '[warehouse.options.s3]\nregion = "us-east-1"\nallow-http = "true"\ntimeout = "600s"\n'
            f'endpoint = "{server.options["endpoint"]}"\naccess-key-id = "id"\nsecret-access-key = "key"\n'
        )
        daemon = stack.daemon("maker", WAREHOUSE=WAREHOUSE)
        for table in (HANGS, GOOD):
            stack.create_table(table)
        assert daemon.terminate() == 0
        yield server


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 20.0) -> None:
    """Wait until it holds."""
    ends_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def stuck_daemon(stack: Stack, s3: S3Server, client: Client, *, drain_s: float) -> tuple[DaemonProcess, Ticket]:
    """A daemon that has an intent of the table under which the store hangs, and has committed to the other one."""
    daemon = stack.daemon("stuck", WAREHOUSE=WAREHOUSE, DAEMON_DRAIN_S=str(drain_s))
    s3.hangs_below = "warehouse/db/hangs/"
    waiting = client.update_properties(HANGS, {"tried": "once"})
    client.update_properties(GOOD, {"tried": "once"}).committed(20)
    wait_until(lambda: s3.hanging > 0)
    return daemon, waiting


def check_left(stack: Stack, daemon: DaemonProcess, *, why: str) -> None:
    """It has said what it left, and holds nothing any more: not even until its session would have ended."""
    with stack.zookeeper() as zookeeper:
        held = [zookeeper.get_children(path) for path in ("/shards", "/members", f"/locks/{HANGS}")]
    assert held == [[], [], []]
    cut, left = (
        next(record for record in daemon.log_records("warning") if record["event"] == event)
        for event in ("drain cut short", "left undecided")
    )
    assert why in cut["reason"]
    assert (left["table"], left["stage"], left["call"]) == (HANGS, "load", "ObjectFiles.read")
    assert left["location"].startswith(f"{WAREHOUSE}/db/hangs/metadata/")
    assert f"firn: left behind: ObjectFiles.read of {left['location']} does not return (lane {HANGS})" in daemon.log()
    assert "Traceback" not in daemon.log()


def test_a_daemon_that_waits_for_a_hanging_store_ends_after_its_grace_time(stack: Stack, s3: S3Server) -> None:
    with stack.client() as client:
        daemon, waiting = stuck_daemon(stack, s3, client, drain_s=1.0)
        assert daemon.terminate(15.0) == EXIT_LEFT_BEHIND
        check_left(stack, daemon, why="it took 1 s")
        s3.hangs_below = None
        stack.daemon("next", WAREHOUSE=WAREHOUSE)
        assert isinstance(waiting.result(20), Committed)
    stack.wait_settled()
    versions = [key for key in s3.objects if key.startswith("warehouse/db/hangs/") and key.endswith(".metadata.json")]
    assert len(versions) == 2  # its creation, and that one intent


def test_a_second_signal_ends_it_at_once(stack: Stack, s3: S3Server) -> None:
    with stack.client() as client:
        daemon, waiting = stuck_daemon(stack, s3, client, drain_s=600.0)
        daemon.ask_to_end()
        wait_until(lambda: '"drain waits"' in daemon.log())  # with what it waits for, and how to end it
        waits = next(record for record in daemon.log_records("warning") if record.get("table") == HANGS)
        assert (waits["event"], waits["call"]) == ("drain waits", "ObjectFiles.read")
        assert "another signal" in waits["hint"]
        assert daemon.running
        assert daemon.terminate(15.0) == EXIT_LEFT_BEHIND
        check_left(stack, daemon, why="another signal came")
        assert not waiting.done


def test_commands_over_all_tables_tell_what_the_others_say(stack: Stack, s3: S3Server) -> None:
    """They end, too, though Python would wait for the thread that hangs."""
    daemon = stack.daemon("looks", WAREHOUSE=WAREHOUSE)
    with stack.client() as client:
        for table in (HANGS, GOOD):
            client.delete_files(table, ["s3://bucket/warehouse/never.parquet"]).result(20)
    s3.hangs_below = "warehouse/db/hangs/"
    said = stack.firn("conflicts", timeout_s=30)
    assert said.returncode == EXIT_UNAVAILABLE
    assert GOOD in said.stdout
    assert HANGS not in said.stdout
    assert f"the journal of {HANGS} cannot be read: its store has not answered in 5 s" in said.stderr
    s3.hangs_below = None
    assert daemon.terminate() == 0
