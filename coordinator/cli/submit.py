"""`firn submit`: intents from a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.answers import (
    OUTCOME_COLUMNS,
    answer_row,
    answers_to,
    exit_code_of_answers,
)
from firn.coordinator.cli.exits import EXIT_OK
from firn.coordinator.cli.foretell import foretell
from firn.coordinator.cli.making import new_intent_id
from firn.coordinator.cli.output import Column
from firn.coordinator.cli.reach import Reach, reaching, shards_of
from firn.coordinator.client import Answer
from firn.model import strict_json
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import OPERATIONS, Intent, digest_of, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.sharding import shard_of

INPUT_BYTES_MAX: Final = 256 * 1024 * 1024
"""All intents of one command together."""

QUEUED_COLUMNS: Final = (
    Column("STATUS"), Column("OPERATION"), Column("TABLE"), Column("INTENT"), Column("STREAM"), Column("ENTRY"),
)  # fmt: skip


class Queued(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An intent that Redis has taken, and nobody has waited for."""

    status: str = "queued"
    intent_id: str
    table: str
    operation: str
    stream: str
    entry_id: str


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the outcomes.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds to wait for outcomes."
)
@click.option(
    "--dry-run", is_flag=True, help="Only say what would become of them now, and why; nothing is submitted or written."
)
@reaching
def submit(reach: Reach, *, file: str, wait: bool, timeout: float, dry_run: bool) -> int:
    """Submit intents: one JSON object, an array of them, or one a line.

    An intent without an intent-id gets one, and every intent its digest. All are checked before the first is submitted.
    Exits with 1 when one was rejected (with --dry-run: would be), with 3 when an outcome could not be learnt.
    """
    intents = intents_in(_read(file), where="standard input" if file == "-" else file, limits=reach.settings.limits)
    if dry_run:
        return foretell(reach, intents)
    return _wait(reach, intents, timeout_s=timeout) if wait else _queue(reach, intents)


def _wait(reach: Reach, intents: Sequence[Intent], *, timeout_s: float) -> int:
    async def answers() -> list[Answer]:
        found = []
        async for answer in answers_to(reach, intents, timeout_s=timeout_s):
            found.append(answer)
            if reach.output.as_json:
                reach.output.line(answer)
        return found

    found = reach.run(answers())
    if not reach.output.as_json:
        rows = (answer_row(answer, intent) for answer, intent in zip(found, intents, strict=True))
        reach.output.grid(OUTCOME_COLUMNS, rows, empty="no intents")
    return exit_code_of_answers(found)


def _queue(reach: Reach, intents: Sequence[Intent]) -> int:
    async def queue() -> list[Queued]:
        found = []
        async with reach.streams() as streams:
            shards = await shards_of(streams)
            for intent in intents:
                shard = shard_of(intent.table, shards=shards)
                sealed = msgspec.structs.replace(intent, digest=digest_of(intent))
                entry_id = await streams.submit(shard, encode_intent(sealed))
                queued = Queued(
                    intent_id=intent.intent_id, table=intent.table, operation=OPERATIONS[type(intent)],
                    stream=streams.names.intents(shard), entry_id=entry_id,
                )  # fmt: skip
                found.append(queued)
                if reach.output.as_json:
                    reach.output.line(queued)
        return found

    found = reach.run(queue())
    if not reach.output.as_json:
        rows = ((q.status, q.operation, q.table, q.intent_id, q.stream, q.entry_id) for q in found)
        reach.output.grid(QUEUED_COLUMNS, rows, empty="no intents")
    return EXIT_OK


def intents_in(data: bytes, *, where: str, limits: Limits) -> list[Intent]:
    """The intents in `data`, each checked as the daemon will check it. Raises InvalidInput naming file and line."""
    if not data.strip():
        raise InvalidInput("is empty: one JSON object an intent", where=where)
    first = data.strip().splitlines()[0]
    if _is_json(first, limits=limits) and not first.startswith(b"["):
        lines = [(number, line) for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
        return [_intent(_object(line, f"{where}, line {n}", limits), f"{where}, line {n}", limits) for n, line in lines]
    loaded = strict_json.loads(data, where=where, bytes_max=INPUT_BYTES_MAX, depth_max=limits.json_depth_max)
    objects = loaded if isinstance(loaded, list) else [loaded]
    places = [where] if not isinstance(loaded, list) else [f"{where}, [{i}]" for i in range(len(objects))]
    return [_intent(obj, place, limits) for obj, place in zip(objects, places, strict=True)]


def _is_json(line: bytes, *, limits: Limits) -> bool:
    """Whether a line is a JSON value of its own, and not the beginning of one."""
    try:
        strict_json.loads(line, where="", bytes_max=INPUT_BYTES_MAX, depth_max=limits.json_depth_max)
    except InvalidInput:
        return False
    return True


def _object(line: bytes, where: str, limits: Limits) -> Any:
    return strict_json.loads(line, where=where, bytes_max=INPUT_BYTES_MAX, depth_max=limits.json_depth_max)


def _intent(obj: Any, where: str, limits: Limits) -> Intent:
    if not isinstance(obj, dict):
        raise InvalidInput("is not a JSON object", where=where)
    obj.setdefault("intent-id", new_intent_id())
    try:
        return decode_intent(msgspec.json.encode(obj), limits=limits).intent
    except InvalidIntent as error:
        raise InvalidInput(f"{error.rule}: {error}", where=where) from error


def _read(file: str) -> bytes:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(INPUT_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInput(error.strerror or str(error), where=file) from error
    if len(data) > INPUT_BYTES_MAX:
        raise InvalidInput(f"has more than {INPUT_BYTES_MAX} bytes: split it", where=file)
    return data
