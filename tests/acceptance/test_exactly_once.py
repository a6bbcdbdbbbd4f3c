"""Fifty writers on one table: every append is in it exactly once, as every engine reads it."""

from __future__ import annotations

import random
import time

import pytest

from tests.acceptance.checks import check_exactly_once, check_log, check_readers
from tests.acceptance.load import Load
from tests.acceptance.stack import Stack

pytestmark = pytest.mark.alone

WRITERS = 50
APPENDS = 20
TABLE = "db.events"


def test_fifty_writers_with_twenty_appends_each_make_exactly_a_thousand_live_files(
    stack: Stack, rng: random.Random
) -> None:
    daemon = stack.daemon()
    stack.create_table(TABLE)
    started = time.monotonic()
    with Load(stack, TABLE, writers=WRITERS, appends=APPENDS, seed=rng.random()) as load:
        told = load.finish()
    took_s = max(t.at for t in told) - min(t.sent_at for t in told)
    print(f"writers {time.monotonic() - started:.1f} s; {len(told) / took_s:.0f} commits/s over {took_s:.1f} s")
    location = check_exactly_once(stack, TABLE, told, count=WRITERS * APPENDS, deep=True)
    check_readers(location, told)
    stack.wait_settled()
    assert daemon.metric("firn_intents_total") == WRITERS * APPENDS + 1
    assert daemon.terminate() == 0
    check_log(daemon)
