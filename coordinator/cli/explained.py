"""How `firn explain` and `firn submit --dry-run` tell their stories to people: lines of a label and a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from firn.coordinator.cli.output import Line
from firn.coordinator.cli.text import shown, span_of, time_of
from firn.model.amounts import plural
from firn.model.outcome import OUR_MISTAKES, Committed, Hint, Outcome, Rejected, decision_ms_of

if TYPE_CHECKING:
    from firn.coordinator.insight.explain import Asked, BatchTold, LostSwap, Now, SnapshotStory, Story
    from firn.coordinator.insight.forecast import Forecast, FutureSnapshot
    from firn.coordinator.insight.landed import Landed
    from firn.coordinator.insight.queue_look import Place

LISTED_MAX: Final = 10
"""Files, snapshots and intents shown to people; --json has more."""

HINTS: Final[dict[Hint, str]] = {
    "retry": "ask for the same again, under a new intent id: nothing was wrong with it",
    "replan": "read the table again, and plan on what is there now",
    "narrow-filter": "ask for less",
    "fix": "correct what the message names: until then it is refused however often it is sent",
}

TELL_US: Final = "whoever runs firn should look at it first: firn dead-letters has its payload"

REASONS: Final = {
    "lost": "the table had moved",
    "fencedout": "the lock was lost",
    "unknown": "ZooKeeper did not answer",
}


def story_lines(story: Story, *, now_ms: int) -> Iterator[Line]:
    """The story of an intent, in the order in which it happened."""
    yield Line("intent", story.intent_id, strong=True)
    yield from _asked_for(story)
    yield Line("made", f"{time_of(story.made_ms)}  by its writer's clock")
    if story.submitted_ms is not None:
        again = f", handed out {story.deliveries} times" if story.deliveries > 1 else ""
        yield Line("submitted", f"{time_of(story.submitted_ms)}  entry {story.entry}{again}")
    if story.state in {"waiting", "taken", "settled"}:
        yield from _undecided(story, now_ms=now_ms)
    if story.trace_id is not None:
        yield Line("trace", story.trace_id)
    if story.waited_ms is not None:
        yield Line("waited", span_of(story.waited_ms))
    if story.batch is not None:
        yield from _batch_lines(story.batch, intent_id=story.intent_id)
    match story.outcome:
        case Committed():
            yield from _committed_lines(story, story.outcome)
        case Rejected():
            yield from rejected_lines(story.outcome, prevents=story.prevents, winner=story.winner)
    verb = "meanwhile" if isinstance(story.outcome, Rejected) else "rebased"
    yield from _over_lines(verb, story.rebased_over, story.rebased_over_count, base=story.base_snapshot_id)
    yield from _again_lines(story.entries, decided=story.state == "decided")
    if story.state == "unknown":
        yield Line("outcome", "unknown: no journal, no outcome and no stream of firn's has it", style="yellow")
        yield Line("do", "submit the same intent again: that is safe at any time")


def _asked_for(story: Story) -> Iterator[Line]:
    if story.operation is None and story.table is None:
        return
    parts = [story.operation or "an intent", f"on {story.table}"]
    parts += [f"({story.branch})"] if story.branch is not None else []
    parts += [f"by {story.writer}"] if story.writer is not None else []
    parts += [f"epoch {story.writer_sequence}"] if story.writer_sequence is not None else []
    parts += ["as maintenance"] if story.priority == "maintenance" else []
    yield Line("asks for", " ".join(parts))


def _undecided(story: Story, *, now_ms: int) -> Iterator[Line]:
    place = next(one for one in story.entries if one.state == story.state)
    since = span_of(max(0, now_ms - place.submitted_ms))
    if place.state == "waiting":
        yield Line("outcome", f"none yet: waits for a daemon, for {since}", style="yellow")
    elif place.state == "taken":
        daemon = f"daemon {place.daemon} has had it for {span_of(place.idle_ms)}"
        yield Line("outcome", f"none yet: {daemon}, submitted {since} ago", style="yellow")
    else:
        yield Line(
            "outcome", "told already; Redis has let it go, and no journal that was looked at has it", style="yellow"
        )
        return
    if story.paused is not None:
        pause = story.paused.pause
        yield Line(
            "waits because",
            f"{story.paused.table} is paused by {pause.by} since {time_of(pause.since_ms)}: {pause.reason}",
            style="yellow",
        )
    yield Line("before it", f"{plural(place.before_table, 'intent')} of its table, {place.before_shard} in its stream")


def _batch_lines(batch: BatchTold, *, intent_id: str | None) -> Iterator[Line]:
    rejected = f", {batch.rejected} rejected" if batch.rejected else ""
    yield Line(
        "batch",
        f"{time_of(batch.timestamp_ms)}  {batch.batch}, journal entry {batch.sequence}, daemon {batch.daemon}: "
        f"{batch.committed} committed{rejected}",
    )
    yield from (_lost_line(lost) for lost in batch.lost_swaps)
    others = [one for one in batch.intents if one.intent_id != intent_id]
    if others and intent_id is not None:
        yield from _listed("together with", [asked_text(one) for one in others], batch.committed + batch.rejected - 1)
    if batch.new_metadata is not None and batch.new_metadata != batch.base_metadata:
        yield Line("metadata", batch.new_metadata)


def _lost_line(lost: LostSwap) -> Line:
    why = REASONS.get(lost.reason, lost.reason)
    if lost.rival_daemon is not None:
        why += f": daemon {lost.rival_daemon} was first with batch {lost.rival_batch}"
    elif lost.found_metadata is not None:
        why += f", to {lost.found_metadata.rpartition('/')[2]}"
    return Line("replayed", f"swap {lost.attempt + 1} did not come off, {why}", style="yellow")


def _committed_lines(story: Story, outcome: Committed) -> Iterator[Line]:
    took = _times(outcome)
    if outcome.snapshot_id is None:
        yield Line("outcome", f"committed{took}", style="green")
    else:
        yield Line("outcome", f"committed in snapshot {outcome.snapshot_id}{took}", style="green")
    if outcome.repeats is not None:
        yield Line("", f"repeats the epoch that {outcome.repeats} committed")
    yield from (Line("", f"{name}: {value}") for name, value in outcome.details.items())
    if story.now is not None:
        yield _now_line(story.now)


def _times(outcome: Outcome) -> str:
    """How long an intent took, as far as it is known: the journal is written before the commit."""
    decision_ms = decision_ms_of(outcome)
    parts = [
        f"{what} {span_of(ms)}"
        for what, ms in (
            ("queued", outcome.queued_ms),
            ("decided in", decision_ms),
            ("committed in", outcome.commit_ms),
        )
        if ms is not None
    ]
    whole = f" ({span_of(outcome.latency_ms)} in all)" if outcome.commit_ms is not None else ""
    return f", {', '.join(parts)}{whole}" if parts else ""


def _now_line(now: Now) -> Line:
    if not now.exists:
        return Line("now", "expired, or the table was dropped")
    if now.refs:
        return Line("now", f"is what {', '.join(now.refs)} {'points' if len(now.refs) == 1 else 'point'} at")
    if now.in_history_of:
        return Line("now", f"in the history of {', '.join(now.in_history_of)}")
    return Line("now", "on no branch: staged, rolled back, or its branch was removed", style="yellow")


def rejected_lines(outcome: Rejected, *, prevents: str | None, winner: Asked | None = None) -> Iterator[Line]:
    """A rejection: rule, reason, winner, what is concerned, base and head, and what to do."""
    yield Line("outcome", f"rejected by {outcome.rule}", style="red")
    yield Line("because", outcome.message)
    if prevents is not None:
        yield Line("otherwise", prevents)
    against = _winner_text(outcome, winner)
    if against:
        yield Line("first was", against)
    if outcome.conflicting_snapshot_id is not None and outcome.conflicting_intent_id is None:
        asked = f"firn explain --snapshot {outcome.conflicting_snapshot_id} --table {outcome.table}"
        yield Line("", f"{asked} says whose it is")
    yield from _listed("files", outcome.files, outcome.files_count)
    yield from _listed("columns", outcome.columns, len(outcome.columns))
    yield from _listed("partitions", outcome.partitions, len(outcome.partitions))
    yield from (Line("", f"{name}: {value}") for name, value in outcome.details.items())
    if outcome.base_snapshot_id is not None or outcome.head_snapshot_id is not None:
        where = f"{outcome.branch or 'main'} was at {outcome.head_snapshot_id or 'no snapshot'}"
        planned = "" if outcome.base_snapshot_id is None else f"planned on {outcome.base_snapshot_id}; "
        yield Line("judged", planned + where)
    yield Line("do", f"{outcome.hint}: {what_to_do(outcome)}")


def what_to_do(outcome: Rejected) -> str:
    """What the hint of a rejection means for whoever reads it."""
    return TELL_US if outcome.rule in OUR_MISTAKES else HINTS[outcome.hint]


def _winner_text(outcome: Rejected, winner: Asked | None) -> str:
    operation = outcome.conflicting_operation or (None if winner is None else winner.operation)
    parts = [operation] if operation is not None else []
    parts += [f"by {outcome.conflicting_writer}"] if outcome.conflicting_writer is not None else []
    parts += [f"intent {outcome.conflicting_intent_id}"] if outcome.conflicting_intent_id is not None else []
    parts += [f"snapshot {outcome.conflicting_snapshot_id}"] if outcome.conflicting_snapshot_id is not None else []
    if outcome.conflicting_metadata_location is not None:
        parts.append(outcome.conflicting_metadata_location.rpartition("/")[2])
    return ", ".join(parts)


def _over_lines(label: str, over: Sequence[Landed] | None, count: int, *, base: int | None) -> Iterator[Line]:
    """What came between base and head."""
    if base is None:
        return
    if over is None:
        yield Line(label, f"what came after its base {base} cannot be told any more")
    elif not over:
        yield Line(label, f"nothing came after its base {base}")
    else:
        over_what = "over " if label == "rebased" else ""
        yield Line(label, f"{over_what}{plural(count, 'snapshot')} that came after its base {base}:")
        yield from _listed("", [landed_text(one) for one in over], count)


def landed_text(one: Landed) -> str:
    """A snapshot as one line."""
    return f"{time_of(one.timestamp_ms)}  {one.snapshot_id}  {one.operation or '?'}  by {one.by}"


def asked_text(one: Asked) -> str:
    """An intent as one line."""
    by = "" if one.writer is None else f" by {one.writer}"
    return f"{one.intent_id}  {one.operation}{by}  {one.rule or one.status}"


def _again_lines(entries: Sequence[Place], *, decided: bool) -> Iterator[Line]:
    """What stands in the queue of it besides."""
    if len(entries) > 1 or (decided and any(one.state != "settled" for one in entries)):
        texts = [f"{time_of(one.submitted_ms)}  {one.stream}/{one.entry_id}  {one.state}" for one in entries]
        yield from _listed("in the queue", texts, len(texts))


def _listed(label: str, texts: Sequence[str], count: int) -> Iterator[Line]:
    for position, text in enumerate(texts[:LISTED_MAX]):
        yield Line(label if position == 0 else "", text)
    if count > LISTED_MAX:
        yield Line("", f"and {count - LISTED_MAX:,} more")


def snapshot_lines(story: SnapshotStory) -> Iterator[Line]:
    """The story of a snapshot."""
    yield Line("snapshot", f"{story.snapshot_id} of {story.table}", strong=True)
    one = story.snapshot
    if one is not None:
        yield Line(
            "made", f"{time_of(one.timestamp_ms)}  {one.operation or '?'}, sequence number {one.sequence_number}"
        )
        yield Line("parent", "none" if one.parent_snapshot_id is None else str(one.parent_snapshot_id))
    if one is not None and one.engine is not None and not story.intents:
        yield Line("by", f"{one.engine}: no intent of firn's asked for it", style="yellow")
    elif story.intents:
        yield from _listed("asked for by", [_asked_when(asked) for asked in story.intents], len(story.intents))
    else:
        yield Line("asked for by", "not told: the journal does not have it")
    if story.batch is not None:
        yield from _batch_lines(story.batch, intent_id=None)
        own = {asked.intent_id for asked in story.intents}
        others = [asked_text(asked) for asked in story.batch.intents if asked.intent_id not in own]
        yield from _listed("together with", others, len(others))
    yield from _over_lines("rebased", story.rebased_over, story.rebased_over_count, base=story.base_snapshot_id)
    yield _now_line(story.now)
    changes = ("added-data-files", "deleted-data-files", "added-records", "deleted-records", "added-delete-files")
    found = [f"{name} {story.summary[name]}" for name in changes if story.summary.get(name, "0") != "0"]
    if found:
        yield Line("changes", ", ".join(found))


def _asked_when(one: Asked) -> str:
    return asked_text(one) + ("" if one.submitted_ms is None else f"  submitted {time_of(one.submitted_ms)}")


def forecast_lines(told: Forecast) -> Iterator[Line]:
    """What would become of an intent."""
    on = f"{told.operation} on {told.table}" + ("" if told.branch is None else f" ({told.branch})")
    yield Line("dry run", on, strong=True)
    yield Line("intent", told.intent_id)
    match told.status, told.outcome:
        case "decided", Rejected() as outcome:
            yield Line("outcome", "decided before:", style="yellow")
            yield from rejected_lines(outcome, prevents=None)
        case "decided", Committed() as outcome:
            where = "" if outcome.snapshot_id is None else f" in snapshot {outcome.snapshot_id}"
            yield Line("outcome", f"decided before: committed{where}", style="green")
        case _, Rejected() as outcome:
            yield Line("outcome", f"would be rejected by {outcome.rule}", style="red")
            yield from list(rejected_lines(outcome, prevents=None))[1:]
        case _:
            yield Line("outcome", "would be committed", style="green")
    for snapshot in (told.snapshot, *told.other_snapshots):
        yield from () if snapshot is None else _future_lines(snapshot)
    yield from (Line("", f"{name}: {value}") for name, value in told.details.items())
    if told.status != "decided":
        verb = "rebased" if told.is_yes else "meanwhile"
        yield from _over_lines(verb, told.rebased_over, told.rebased_over_count, base=told.base_snapshot_id)
        yield Line("judged on", told.metadata_location or "no table")
        yield Line("may change", _waiting_text(told.waiting))
    yield from (Line("note", caveat) for caveat in told.caveats)


def _waiting_text(waiting: int | None) -> str:
    if waiting is None:
        return "when others are committed before it; the queue could not be looked at"
    if waiting == 0:
        return "when others are committed before it; nothing is queued for its table now"
    return f"when others are committed before it; {plural(waiting, 'intent')} of its table in the queue now"


def _future_lines(snapshot: FutureSnapshot) -> Iterator[Line]:
    branch = "on no branch (staged)" if snapshot.branch is None else f"on {shown(snapshot.branch)}"
    parent = "nothing" if snapshot.parent_snapshot_id is None else str(snapshot.parent_snapshot_id)
    yield Line(
        "snapshot", f"{snapshot.snapshot_id} of {snapshot.table}: {snapshot.operation}, {branch}, after {parent}"
    )
    yield from _listed("adds", snapshot.added_files, snapshot.added_files_count)
    yield from _listed("removes", snapshot.removed_files, snapshot.removed_files_count)
    totals = ("total-data-files", "total-delete-files", "total-records")
    found = [f"{name.removeprefix('total-')} {snapshot.summary[name]}" for name in totals if name in snapshot.summary]
    if found:
        yield Line("total then", ", ".join(found))
