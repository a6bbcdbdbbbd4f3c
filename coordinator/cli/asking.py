"""Ask for one change and print what became of it; loaded by a command that does, not by those that only read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.coordinator.cli.answers import answer_to, complain_of, exit_code_of_answers, outcome_pairs
from firn.coordinator.cli.foretell import foretell
from firn.coordinator.cli.output import Line
from firn.coordinator.cli.reach import Reach
from firn.coordinator.cli.text import shown
from firn.model.intent import OPERATIONS, Intent
from firn.model.outcome import Committed


def ask(reach: Reach, intent: Intent, *, done: str | None, timeout_s: float, dry_run: bool) -> int:
    """Submit one intent, wait, and print its answer; return the exit code.

    `done` is what a commit has done to the table or view (``created``); None prints the operation and its snapshot.
    With `dry_run` nothing is submitted.
    """
    if dry_run:
        return foretell(reach, [intent])
    answer = reach.run(answer_to(reach, intent, timeout_s=timeout_s))
    if reach.output.as_json:
        reach.output.document(answer)
    match answer:
        case Committed() if done is not None and not reach.output.as_json:
            reach.output.say(f"{done} {shown(answer.table)}")
            reach.output.pairs(
                [(f"  {key}", value) for key, value in outcome_pairs(answer) if key == "metadata-location"]
            )
        case Committed() if done is None:
            reach.output.lines(_committed_lines(intent, answer))
        case _ if not reach.output.as_json:
            complain_of(answer)
    return exit_code_of_answers([answer])


def _committed_lines(intent: Intent, answer: Committed) -> Iterator[Line]:
    yield Line("committed", f"{OPERATIONS[type(intent)]} on {answer.table}", style="green")
    if answer.snapshot_id is not None:
        yield Line("snapshot", str(answer.snapshot_id))
    yield from (Line(name, _text(value)) for name, value in answer.details.items())
    yield Line("intent", answer.intent_id)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
