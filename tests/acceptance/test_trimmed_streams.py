"""Somebody makes room in Redis by trimming the intent streams: the operator hears of it, the writers submit again."""

from __future__ import annotations

import time

import pytest

from firn.coordinator.intake.intake import BLOCK_MS
from firn.model.outcome import Committed
from firn.model.sharding import shard_of
from tests.acceptance.load import Load
from tests.acceptance.stack import SHARDS, DaemonProcess, Stack

TABLE = "db.trimmed"
LOST = "firn_lost_entries_total"


def waits_for(daemon: DaemonProcess, count: float) -> None:
    """Wait until the daemon has counted so many."""
    ends_at = time.monotonic() + 15
    while daemon.metric(LOST) != count:
        assert time.monotonic() < ends_at, f"{daemon.metric(LOST)} are counted, not {count}"
        time.sleep(0.1)


@pytest.mark.alone
def test_what_is_trimmed_is_counted_under_a_daemon_and_before_one_begins(stack: Stack) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    stream = stack.names.intents(shard_of(TABLE, shards=SHARDS))
    with stack.client() as client:
        client.update_properties(TABLE, {"first": "yes"}).committed(20)
        waits_for(daemon, 0)
        daemon.pause()
        time.sleep(2 * BLOCK_MS / 1000)  # its last read has ended: else the first would be handed out to that
        gone = [client.update_properties(TABLE, {f"lost-{number}": "no"}) for number in range(4)]
        stack.redis.xtrim(stream, maxlen=0, approximate=False)
        daemon.resume()
        waits_for(daemon, 4)
        again = [ticket.result(timeout=60) for ticket in gone]
        assert all(isinstance(outcome, Committed) for outcome in again), "the client submits what is not there any more"
        assert daemon.terminate() == 0

        gone = [client.update_properties(TABLE, {f"late-{number}": "no"}) for number in range(3)]
        stack.redis.xtrim(stream, maxlen=1, approximate=False)
        daemon.start()
        waits_for(daemon, 2)
        assert all(isinstance(ticket.result(timeout=60), Committed) for ticket in gone)
        assert daemon.metric(LOST) == 2
    assert daemon.terminate() == 0


@pytest.mark.alone
def test_a_load_on_several_daemons_one_of_which_is_killed_loses_nothing(stack: Stack) -> None:
    daemons = [stack.daemon(name) for name in ("one", "two")]
    stack.create_table(TABLE)
    with Load(stack, TABLE, writers=16, appends=25, pause_s=0.1, seed=1.0) as load:
        load.wait_for(100)
        daemons[0].kill()
        load.wait_for(150)
        daemons[0].start()
        load.wait_for(250)
        assert daemons[1].terminate() == 0
        load.finish()
    time.sleep(2.5)  # the next look
    assert daemons[0].metric(LOST) == 0
    assert not [record for record in daemons[1].log_records("error") if record["event"] == "entries lost"]
    assert daemons[0].terminate() == 0
