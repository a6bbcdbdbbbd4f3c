"""Submitting intents, waiting for their outcomes, and showing those."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.cli.connectors import async_client
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.explained import what_to_do
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.text import one_line, shown
from firn.coordinator.client.answers import Answer, Unknown
from firn.model.errors import Unavailable
from firn.model.intent import OPERATIONS, Intent
from firn.model.outcome import Committed, Outcome, Rejected
from firn.model.pause import Pause
from firn.storage.membership import Membership
from firn.storage.pauses import Pauses

UNRESOLVED_MAX: Final = 1_000
"""Intents of one command that wait for their outcomes at once."""

OUTCOME_COLUMNS: Final = (
    Column("STATUS"),
    Column("OPERATION"),
    Column("TABLE"),
    Column("INTENT"),
    Column("SNAPSHOT", right=True),
    Column("MS", right=True),
    Column("WHY", long=True),
)


class _HeldUp(msgspec.Struct, frozen=True):
    """What may hold intents up, as far as ZooKeeper tells."""

    pauses: dict[str, Pause]
    has_daemons: bool

    def told(self, answer: Unknown) -> Unknown:
        """The answer with the reason for which its intent waits, if that is known."""
        pause = self.pauses.get(answer.table)
        if pause is not None:
            why = f"{answer.table} is paused by {pause.by}: {pause.reason} (firn resume {answer.table})"
        elif not self.has_daemons:
            why = "no daemon is running (firn status)"
        else:
            return answer
        return msgspec.structs.replace(answer, reason=f"{answer.reason}; {why}")


async def _held_up(reach: Reach) -> _HeldUp:
    try:
        async with reach.session() as session:
            return _HeldUp(await Pauses(session).all(), bool(await Membership(session).members()))
    except Unavailable:  # the answer says no more than Redis does
        return _HeldUp({}, has_daemons=True)


async def answers_to(reach: Reach, intents: Sequence[Intent], *, timeout_s: float) -> AsyncIterator[Answer]:
    """Submit the intents in order, and yield their answers in the same order.

    `Unknown` for those that have none `timeout_s` after the last was submitted; it says what is known to hold the
    intent up. Raises Unavailable when Redis does not answer, before anything is submitted.
    """
    held_up: _HeldUp | None = None
    async with reach.streams() as streams:
        loop = asyncio.get_running_loop()
        async with async_client(streams, reach.settings) as client:
            for start in range(0, len(intents), UNRESOLVED_MAX):
                tickets = [await client.submit(intent) for intent in intents[start : start + UNRESOLVED_MAX]]
                deadline = loop.time() + timeout_s
                for ticket in tickets:
                    answer = await ticket.result(max(0.0, deadline - loop.time()))
                    if isinstance(answer, Unknown):
                        held_up = held_up or await _held_up(reach)
                        answer = held_up.told(answer)
                    yield answer


async def answer_to(reach: Reach, intent: Intent, *, timeout_s: float) -> Answer:
    """Submit one intent and wait for its answer."""
    (answer,) = [answer async for answer in answers_to(reach, [intent], timeout_s=timeout_s)]
    return answer


def exit_code_of_answers(answers: Sequence[Answer]) -> int:
    """3 when an outcome could not be learnt, else 1 when one is a rejection, else 0."""
    if any(isinstance(answer, Unknown) for answer in answers):
        return EXIT_UNAVAILABLE
    return EXIT_NO if any(isinstance(answer, Rejected) for answer in answers) else EXIT_OK


def answer_row(answer: Answer, intent: Intent | None) -> tuple[object, ...]:
    """An answer as a row of `OUTCOME_COLUMNS`."""
    operation = "" if intent is None else OPERATIONS[type(intent)]
    match answer:
        case Committed():
            return (
                "committed", operation, answer.table, answer.intent_id, answer.snapshot_id or "-",
                _took(answer), repeated_epoch(answer),
            )  # fmt: skip
        case Rejected():
            return (
                "rejected", operation, answer.table, answer.intent_id, "-", _took(answer), reason(answer)
            )  # fmt: skip
        case Unknown():
            return ("unknown", operation, answer.table, answer.intent_id, "-", "-", advice(answer))


def complain_of(answer: Answer) -> None:
    """Say why an answer is no commit of its own, and where there is more about it; nothing of a commit."""
    match answer:
        case Committed() if answer.is_repeat:
            complain(f"firn: {repeated_epoch(answer)}")
        case Rejected():
            complain(f"firn: rejected: {one_line(reason(answer))}")
            asked = shown(f"firn explain {answer.intent_id}")
            complain(f"firn: {what_to_do(answer)} ({asked} tells the whole story)")
        case Unknown():
            complain(f"firn: unknown: {one_line(advice(answer))}")


def reason(outcome: Rejected) -> str:
    """Why an intent was rejected, and what its writer can do."""
    return f"{outcome.rule}: {outcome.message} [{outcome.hint}]"


def repeated_epoch(outcome: Committed) -> str:
    """Say that an intent has changed nothing because another had committed its epoch; empty for any other commit."""
    return f"changed nothing: repeats the epoch that {outcome.repeats} committed" if outcome.is_repeat else ""


def advice(answer: Unknown) -> str:
    """What an unknown answer means for whoever waits."""
    return f"{answer.reason}; it may still be committed: firn outcome {answer.intent_id}"


def outcome_pairs(outcome: Outcome) -> list[tuple[str, Any]]:
    """Everything that an outcome says, as names and values."""
    members = msgspec.to_builtins(outcome)
    order = ["status", "intent-id", "table", *sorted(members.keys() - {"status", "intent-id", "table"})]
    return [(name, members[name]) for name in order if members.get(name) not in (None, [])]


def _took(outcome: Outcome) -> str:
    """The latency, where it is known: a journal has none."""
    return f"{outcome.latency_ms:.1f}" if outcome.latency_ms else "-"
