"""`firn dead-letters`: stream entries that hold no intent, and intents that firn failed on."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import click
import msgspec

from firn.coordinator.cli.answers import advice, answer_to, reason
from firn.coordinator.cli.exits import EXIT_NO, EXIT_OK, EXIT_UNAVAILABLE
from firn.coordinator.cli.family import Family
from firn.coordinator.cli.making import new_intent_id
from firn.coordinator.cli.output import Column, complain
from firn.coordinator.cli.pausing import whoever
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.rules import complain_of_unknown
from firn.coordinator.cli.text import one_line, shown, time_of
from firn.coordinator.cli.times import Moment, now_ms
from firn.coordinator.client import Answer, Unknown
from firn.coordinator.journal.lookups import find_decision
from firn.coordinator.operations.dead_letters import DeadLetter, Selection, is_letter_id, letter_ms, newest_dead_letters
from firn.coordinator.outcomes.refusals import refusal_in
from firn.model.amounts import plural
from firn.model.errors import FirnError, InvalidInput, InvalidIntent, NotFound
from firn.model.event import letter_event
from firn.model.intent import Intent, digest_of
from firn.model.outcome import Committed, Rejected

DEAD_LETTER_COLUMNS: Final = (
    Column("TIME"), Column("LETTER"), Column("RULE"), Column("TABLE"), Column("INTENT"), Column("BYTES", right=True),
    Column("WHY", long=True),
)  # fmt: skip

RETRY_COLUMNS: Final = (
    Column("LETTER"), Column("ANSWER"), Column("TABLE"), Column("INTENT"), Column("WHY", long=True),
)  # fmt: skip

LIMIT_MAX: Final = 10_000
"""Letters that one command looks for: as many as the stream keeps."""

Letter = tuple[str, DeadLetter]


class ListUnlessSaid(Family):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``list`` before arguments that name no command."""
        if ctx.resilient_parsing:  # a shell asks what could come next
            return super().parse_args(ctx, args)
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("dead-letters", cls=ListUnlessSaid)
def dead_letters() -> None:
    """Stream entries that were set aside: list them, look at one, submit them again, drop them."""


def selecting(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that say which letters are meant; the command gets them as `selection`."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--table", "tables", multiple=True, metavar="TABLE", help="Those for this table.")
        @click.option("--rule", "rules", multiple=True, metavar="RULE", help="Those set aside by this rule.")
        @click.option("--since", type=Moment(), metavar="TIME", help="Not older than: 1h, 7d, 2026-11-21.")
        @click.option("--until", type=Moment(), metavar="TIME", help="At least as old as: 1h, 7d, 2026-11-21.")
        @click.option(
            "--limit", type=click.IntRange(1, LIMIT_MAX), default=default, show_default=True, help="The newest so many."
        )
        @functools.wraps(command)
        def wrapped(
            *arguments: Any,
            tables: tuple[str, ...],
            rules: tuple[str, ...],
            since: int | None,
            until: int | None,
            letters: tuple[str, ...] = (),
            **options: Any,
        ) -> Any:
            wrong = next((one for one in letters if not is_letter_id(one)), None)
            if wrong is not None:
                raise InvalidInput("is no letter's id (the LETTER that firn dead-letters lists)", where=wrong)
            chosen = Selection(
                ids=frozenset(letters), tables=frozenset(tables), rules=frozenset(rules), since_ms=since, until_ms=until
            )
            return command(*arguments, selection=chosen, **options)

        return wrapped

    return with_options


@dead_letters.command("list", epilog="Example: firn dead-letters list --rule malformed-json --since 1d")
@selecting(50)
@reaching
def list_command(reach: Reach, *, selection: Selection, limit: int) -> None:
    """List the letters, oldest first. With --json one a line, with the payload."""
    found = reach.run(_read(reach, selection, limit))
    if reach.output.as_json:
        for letter_id, letter in found:
            reach.output.line({"id": letter_id, **msgspec.to_builtins(letter)})
    reach.output.grid(DEAD_LETTER_COLUMNS, (_row(*one) for one in found), empty="no dead letters")


@dead_letters.command(epilog="Example: firn dead-letters show 1795411200123-0")
@click.argument("letter_id", metavar="LETTER")
@reaching
def show(reach: Reach, *, letter_id: str) -> int:
    """Show one letter: where it came from, why it was set aside, what is in it, and whether it can be retried."""
    (one,) = reach.run(_named(reach, [letter_id]))
    _, letter = one
    can = _obstacle(reach, letter)
    if reach.output.as_json:
        reach.output.document({"id": letter_id, **msgspec.to_builtins(letter), "retry": can is None, "obstacle": can})
        return EXIT_OK
    told = letter.outcome
    reach.output.pairs([
        ("letter", letter_id), ("set aside", time_of(letter_ms(letter_id))), ("rule", letter.rule),
        ("why", told.get("message", "")), ("table", letter.table or "-"), ("intent", letter.intent_id or "-"),
        ("entry", f"shard {letter.shard}, {letter.entry_id}, handed out {plural(letter.deliveries, 'time')}"),
        ("on record", "yes, in the table's journal" if letter.journaled else "no"),
        ("retry", _command(letter_id, letter) if can is None else f"not possible: {can}"),
        ("payload", plural(letter.payload_bytes, "byte")),
    ])  # fmt: skip
    reach.output.say()
    for line in _payload_lines(letter):
        reach.output.say(shown(line))
    return EXIT_OK


@dead_letters.command(
    epilog="Examples: firn dead-letters retry 1795411200123-0   firn dead-letters retry --rule poison --since 1h"
)
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@selecting(100)
@click.option("--new-id", is_flag=True, help="As new intents: what was refused, or is a day old.")
@click.option("--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds for each.")
@click.option("--by", default=whoever, help="Who does it [default: you, on this machine].")
@reaching
def retry(reach: Reach, *, selection: Selection, limit: int, new_id: bool, timeout: float, by: str) -> int:
    """Submit letters again, one after the other, and say what became of each.

    An intent is decided once: what was refused is answered with its refusal, and what its writer has had committed
    meanwhile with that. Nothing is submitted then; --new-id makes another intent of it. Under its own id goes what
    nobody was told of, or what Redis was emptied of. A letter whose intent is committed is dropped. Exits with 1 when
    one was not committed, with 3 when an answer is missing.
    """
    if selection.is_everything:
        raise click.UsageError("name letters, or choose some with --table, --rule, --since or --until")
    found = reach.run(_chosen(reach, selection, limit))
    answers = [_retry(reach, one, new_id=new_id, timeout_s=timeout, by=by) for one in found]
    rows = [_answer_row(one, answer) for one, answer in zip(found, answers, strict=True)]
    reach.output.grid(RETRY_COLUMNS, rows, empty="no such dead letters")
    if any(isinstance(answer, Unknown) for answer in answers):
        return EXIT_UNAVAILABLE
    return EXIT_OK if all(isinstance(answer, Committed) for answer in answers) else EXIT_NO


@dead_letters.command(epilog="Example: firn dead-letters drop --rule malformed-json --until 7d --yes")
@click.argument("letters", nargs=-1, metavar="[LETTER]...")
@selecting(LIMIT_MAX)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--by", default=whoever, help="Who does it [default: you, on this machine].")
@reaching
def drop(reach: Reach, *, selection: Selection, limit: int, yes: bool, by: str) -> int:
    """Drop letters that nobody needs any more. What their writers were told stays as it is."""
    if selection.is_everything:
        raise click.UsageError("name letters, or choose some with --table, --rule, --since or --until")
    found = reach.run(_chosen(reach, selection, limit))
    if found and not yes and not click.confirm(f"Drop {plural(len(found), 'dead letter')} for good?", err=True):
        return EXIT_NO
    dropped = reach.run(_drop(reach, found, by=by))
    if reach.output.as_json:
        reach.output.document({"dropped": [letter_id for letter_id, _ in found], "count": dropped})
    reach.output.say(f"dropped {plural(dropped, 'dead letter')}")
    return EXIT_OK


# -- reading -----------------------------------------------------------------------------------------------------------


async def _read(reach: Reach, selection: Selection, limit: int) -> list[Letter]:
    async with reach.streams() as streams:
        found = await newest_dead_letters(streams, limit=limit, selection=selection)
    if not found:
        complain_of_unknown(selection.rules)
    return found


async def _chosen(reach: Reach, selection: Selection, limit: int) -> list[Letter]:
    """The letters that are meant. Raises NotFound for one that is named and not there."""
    found = await _read(reach, selection, limit)
    missing = set(selection.ids) - {letter_id for letter_id, _ in found}
    if missing:
        raise NotFound(f"there is no such dead letter: {', '.join(sorted(missing))} (firn dead-letters lists them)")
    return found


async def _named(reach: Reach, letter_ids: Sequence[str]) -> list[Letter]:
    return await _chosen(reach, Selection(ids=frozenset(letter_ids)), LIMIT_MAX)


def _row(letter_id: str, letter: DeadLetter) -> tuple[object, ...]:
    return (
        time_of(letter_ms(letter_id)),
        letter_id,
        letter.rule,
        letter.table or "-",
        letter.intent_id or "-",
        letter.payload_bytes,
        letter.outcome.get("message", ""),
    )


def _payload_lines(letter: DeadLetter) -> list[str]:
    """What was submitted, as far as it was kept; JSON is indented."""
    if letter.payload is None:
        return [letter.payload_base64 or f"no field 'intent'; there were {', '.join(letter.fields) or 'none'}"]
    try:
        return json.dumps(json.loads(letter.payload), indent=2, ensure_ascii=False).splitlines()
    except (ValueError, RecursionError):
        return letter.payload.splitlines()


def _intent(reach: Reach, letter: DeadLetter) -> Intent:
    prefix = f"{reach.settings.redis.prefix}:replies:"
    return letter.intent(limits=reach.settings.limits, reply_prefix=prefix)


def _command(letter_id: str, letter: DeadLetter) -> str:
    """What submits a letter again."""
    return f"firn dead-letters retry {letter_id}{' --new-id' if letter.is_final else ''}"


def _obstacle(reach: Reach, letter: DeadLetter) -> str | None:
    """Why a letter cannot be submitted again; None when it can."""
    try:
        _intent(reach, letter)
    except InvalidIntent as error:
        return str(error)
    return None


# -- retrying and dropping ---------------------------------------------------------------------------------------------


def _retry(reach: Reach, one: Letter, *, new_id: bool, timeout_s: float, by: str) -> Answer | str:
    """What became of a letter; a text when it could not be submitted."""
    letter_id, letter = one
    answer = _answer(reach, letter, new_id=new_id, timeout_s=timeout_s)
    if not isinstance(answer, str):
        reach.run(_announce(reach, one, "retried", by=by, answer=answer))
        if isinstance(answer, Committed):
            reach.run(_drop(reach, [one], by=by))
    if reach.output.as_json:
        said = {"obstacle": answer} if isinstance(answer, str) else {"answer": msgspec.to_builtins(answer)}
        reach.output.line({"id": letter_id, **said})
    return answer


def _answer(reach: Reach, letter: DeadLetter, *, new_id: bool, timeout_s: float) -> Answer | str:
    try:
        intent = _intent(reach, letter)
    except InvalidIntent as error:
        return f"not submitted: {error}"
    if new_id:
        intent = msgspec.structs.replace(intent, intent_id=new_intent_id(), digest=None)
    else:
        decided = _decided(reach, intent)
        if decided is not None:
            return decided
    return reach.run(answer_to(reach, intent, timeout_s=timeout_s))


def _decided(reach: Reach, intent: Intent) -> Committed | Rejected | None:
    """The decision that is on record: in the table's journal, or as a refusal in Redis for want of one."""
    try:
        pointer = reach.pointer(intent.table, dropped=True)
    except NotFound:
        return reach.run(_refusal(reach, intent))
    skew_ms = reach.settings.limits.clock_skew_minutes_max * 60_000
    found = find_decision(reach.journal, pointer.journal_head, intent.intent_id, skew_ms=skew_ms)
    return reach.run(_refusal(reach, intent)) if found is None else found[1].outcome


async def _refusal(reach: Reach, intent: Intent) -> Rejected | None:
    async with reach.streams() as streams:
        data = await streams.outcome(intent.intent_id)
    refusal = None if data is None else refusal_in(data)
    return None if refusal is None or refusal.digest != digest_of(intent) else refusal


def _answer_row(one: Letter, answer: Answer | str) -> tuple[object, ...]:
    letter_id, letter = one
    if isinstance(answer, str):
        return letter_id, "none", letter.table or "-", letter.intent_id or "-", answer
    match answer:
        case Committed():
            status, why = "committed", "the letter is dropped"
        case Rejected():
            status, why = "rejected", reason(answer)
        case Unknown():
            status, why = "unknown", advice(answer)
    return letter_id, status, answer.table, answer.intent_id, why


async def _drop(reach: Reach, letters: Sequence[Letter], *, by: str) -> int:
    async with reach.streams() as streams:
        dropped = await streams.drop_dead_letters([letter_id for letter_id, _ in letters])
    for one in letters:
        await _announce(reach, one, "dropped", by=by)
    return dropped


async def _announce(reach: Reach, one: Letter, what: str, *, by: str, answer: Answer | None = None) -> None:
    """An event for those who follow; what was done is done even where it cannot be told."""
    letter_id, letter = one
    data: dict[str, Any] = {"letter": letter_id, "rule": letter.rule, "intent-id": letter.intent_id, "by": by}
    if answer is not None:
        data |= {"answer": msgspec.to_builtins(answer)}
    event = letter_event(what, letter_id=letter_id, table=letter.table, data=data, by=by, timestamp_ms=now_ms())
    try:
        async with reach.streams() as streams:
            await streams.publish([msgspec.json.encode(event)])
    except FirnError as error:
        complain(f"firn: no event of it, Redis did not take it: {one_line(str(error))}")
