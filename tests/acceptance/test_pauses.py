"""A table is paused under load while its daemons are killed: nothing moves, nothing is lost, all goes on after."""

from __future__ import annotations

import json
import time

import pytest

from tests.acceptance.checks import check_exactly_once, journal
from tests.acceptance.load import Load
from tests.acceptance.stack import DaemonProcess, Stack

pytestmark = pytest.mark.alone

TABLE, OTHER = "db.events", "db.other"
STANDS_S = 3.0
"""How long the paused table is watched: longer than a takeover takes."""


def wait_for_metric(daemon: DaemonProcess, name: str, least: float) -> None:
    """Wait until a metric is at least so high: daemons measure every two seconds."""
    ends_at = time.monotonic() + 15
    while daemon.metric(name) < least:
        assert time.monotonic() < ends_at, f"{name} is {daemon.metric(name)}"
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_nothing_moves_while_a_table_is_paused_whoever_dies_and_all_is_committed_after(stack: Stack) -> None:
    a, b = stack.daemon("a"), stack.daemon("b")
    stack.create_table(TABLE)
    stack.create_table(OTHER)
    with (
        Load(stack, TABLE, writers=4, appends=60, pause_s=0.3, timeout_s=240) as load,
        Load(stack, OTHER, writers=1, appends=40, pause_s=0.25, timeout_s=240) as other,
    ):
        load.wait_for(8)
        paused = stack.firn("pause", TABLE, "--reason", "the test says so", "--by", "operator")
        assert paused.returncode == 0, paused.stderr
        before = stack.pointer(TABLE)
        assert before.paused is not None
        a.kill()
        time.sleep(STANDS_S)
        a.start()
        b.terminate()
        assert stack.pointer(TABLE) == before, "not a batch, not a refusal, was swapped in"
        status = json.loads(stack.firn("status", "--json").stdout)
        assert status["paused"][TABLE]["by"] == "operator"
        assert a.metric("firn_tables_paused") == 1
        told = len(load.told)
        other.enough()
        other.finish(200)
        assert len(load.told) == told < load.expected, "its writers wait"
        wait_for_metric(a, "firn_paused_intents", 1)
        assert a.metric("firn_held_back_intents") == 0, "no lane is full"
        assert stack.firn("resume", TABLE).returncode == 0
        load.wait_for(told + 2 * load.plan.writers)  # what waited, and what came after it
        load.enough()
        load.finish(200)
        for one, table in ((load, TABLE), (other, OTHER)):
            check_exactly_once(stack, table, one.told, count=one.expected)
    assert stack.pointer(TABLE).paused is None
    stack.wait_settled(30)


@pytest.mark.timeout(300)
def test_a_drained_table_has_nothing_that_waits_and_moves_no_more(stack: Stack) -> None:
    stack.daemon("a")
    stack.create_table(TABLE)
    with Load(stack, TABLE, writers=4, appends=40, pause_s=0.25, timeout_s=240) as load:
        load.wait_for(8)
        drained = stack.firn("drain", TABLE, "--reason", "the test says so", "--json")
        assert drained.returncode == 0, drained.stderr
        assert json.loads(drained.stdout)["left"] == 0
        number = journal(stack, TABLE)[-1].batch.sequence
        time.sleep(1.0)
        assert journal(stack, TABLE)[-1].batch.sequence == number
        told = len(load.told)
        assert stack.firn("resume", TABLE).returncode == 0
        load.wait_for(told + 2 * load.plan.writers)
        load.enough()
        load.finish(200)
        check_exactly_once(stack, TABLE, load.told, count=load.expected)
