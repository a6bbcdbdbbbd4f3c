"""The trace that an intent belongs to is found wherever something is said of the intent."""

from __future__ import annotations

import sys

import msgspec
import pytest
import structlog
from opentelemetry import trace as opentelemetry
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from structlog.testing import capture_logs

from firn.coordinator.client import Intents
from firn.coordinator.client.current_trace import TRACING, current_traceparent
from firn.coordinator.outcomes.publish import TRACES_LOGGED
from tests.unit.coordinator.cli.cli_bench import CliBench
from tests.unit.coordinator.workbench import TABLE, Workbench, append, create, delete, new_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(autouse=True)
def every_level() -> None:
    """A command that ran before has set the level of its own log."""
    structlog.reset_defaults()


def in_span() -> opentelemetry.Span:
    return NonRecordingSpan(SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=False, trace_flags=TraceFlags(1)))


async def events(bench: Workbench) -> list[dict[str, object]]:
    return [msgspec.json.decode(message.data) for message in await bench.streams.newest_events(count=100)]


async def test_a_commit_is_found_by_its_trace() -> None:
    bench = CliBench()
    intent = append("a", traceparent=TRACEPARENT)
    with capture_logs() as logs:
        async with bench.daemon():
            await bench.commit(create())
            outcome = await bench.commit(intent)
            told = await bench.firn("explain", intent.intent_id)
    assert outcome.traceparent == TRACEPARENT
    assert TRACEPARENT in told.out
    (event,) = [e for e in await events(bench) if intent.intent_id in e["data"]["intents"]]  # type: ignore[index]
    assert event["data"]["trace-ids"] == [TRACE]  # type: ignore[index]
    (line,) = [log for log in logs if log["event"] == "traced intents decided"]
    assert line["traces"] == {intent.intent_id: TRACE}
    assert line["batch"] == outcome.batch
    assert [log["batch"] for log in logs if log["event"] == "batch committed"][-1] == line["batch"]


async def test_a_conflict_is_found_by_its_trace() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        outcome = await bench.refuse(delete("never-there", traceparent=TRACEPARENT))
    assert outcome.traceparent == TRACEPARENT
    (event,) = [e for e in await events(bench) if e["type"] == "firn.intent.rejected"]
    assert event["traceparent"] == TRACEPARENT


async def test_a_refusal_without_a_table_is_found_by_its_trace() -> None:
    bench = Workbench()
    intent = append("a", table="db.none", traceparent=TRACEPARENT)
    with capture_logs() as logs:
        async with bench.daemon():
            assert (await bench.refuse(intent)).traceparent == TRACEPARENT
    (line,) = [log for log in logs if log["event"] == "traced intent refused"]
    assert (line["trace_id"], line["intent_id"], line["rule"]) == (TRACE, intent.intent_id, "unknown-table")


async def test_what_has_no_trace_says_nothing_of_one() -> None:
    bench = Workbench()
    with capture_logs() as logs:
        async with bench.daemon():
            await bench.commit(create())
            outcome = await bench.commit(append("a"))
    assert outcome.traceparent is None
    assert not [log for log in logs if "trace" in log["event"]]
    assert not [e for e in await events(bench) if "traceparent" in e or "trace-ids" in e["data"]]  # type: ignore[operator]


async def test_the_log_of_a_large_batch_stays_short() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
    intents = [append(f"f{n}", traceparent=f"00-{n + 1:032x}-{SPAN}-01") for n in range(3 * TRACES_LOGGED)]
    await bench.send(*intents)  # nobody is there: they wait, and are one batch
    with capture_logs() as logs:
        async with bench.daemon("b"):
            await bench.outcome(intents[-1])
    lines = [log for log in logs if log["event"] == "traced intents decided"]
    assert sum(line["traced"] for line in lines) == len(intents)
    assert max(line["traced"] for line in lines) > TRACES_LOGGED
    assert all(len(line["traces"]) <= TRACES_LOGGED for line in lines)


def test_a_client_within_a_span_carries_it() -> None:
    intents = Intents()
    with opentelemetry.use_span(in_span()):
        assert current_traceparent() == TRACEPARENT
        assert intents.delete_files(TABLE, ["a"]).traceparent == TRACEPARENT
        assert intents.delete_files(TABLE, ["a"], traceparent=f"00-{TRACE}-{'1' * 16}-00").traceparent is not None
    assert intents.delete_files(TABLE, ["a"]).traceparent is None


def test_the_members_of_a_transaction_leave_the_trace_to_it() -> None:
    intents = Intents()
    with opentelemetry.use_span(in_span()):
        transaction = intents.transaction([intents.delete_files(TABLE, ["a"]), intents.delete_files(TABLE, ["b"])])
    assert transaction.traceparent == TRACEPARENT
    assert [member.traceparent for member in transaction.members] == [None, None]  # type: ignore[union-attr]


def test_without_opentelemetry_nothing_is_carried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, TRACING)
    with opentelemetry.use_span(in_span()):
        assert Intents().delete_files(TABLE, ["a"], intent_id=new_id()).traceparent is None
