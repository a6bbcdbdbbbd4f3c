"""Dry run: what would become of intents if they were committed now, and why. Nothing is written, no lock is taken.

The intents are replayed by the rules that commits go by, on the table as it is now; what replay drafts is described and
dropped. Blocking (reads of metadata and manifests): call it in a worker thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from firn.coordinator.commits.batch_record import rejected_as, repeat_of
from firn.coordinator.commits.commit import decide, working_on
from firn.coordinator.commits.repeats import sort_out
from firn.coordinator.insight.forecast import Forecast, FutureSnapshot
from firn.coordinator.insight.landed import Landed, landed
from firn.coordinator.lanes.lane_queue import unless_late
from firn.coordinator.pending import Pending
from firn.coordinator.replay.attempt import Attempt, Placement
from firn.coordinator.replay.decision import Decision, Refused
from firn.coordinator.replay.draft import DraftSnapshot
from firn.coordinator.replay.files_rules import places_of
from firn.coordinator.replay.refusals import placed
from firn.coordinator.replay.window import made_by
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.place_checks import unusable_files
from firn.coordinator.tables.table_reader import TableReader
from firn.coordinator.tables.table_state import TableState
from firn.model.ancestry import snapshots_between
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import OPERATIONS, Intent, RenameTable, Transaction, digest_of, encode_intent
from firn.model.intent_codec import DecodedIntent, check_age
from firn.model.limits import Limits
from firn.model.manifest import Status
from firn.model.metadata import TableMetadata
from firn.model.operations.views import RenameView
from firn.model.planned_on import base_of, ref_of
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.intent_streams import Entry
from firn.storage.journal import JournalFiles
from firn.storage.pointers import Versioned

LISTED_MAX: Final = 100
"""Files and snapshots listed; counts say how many there are."""

DRY_RUN: Final = "dry-run"
"""Stands for the batch in what is drafted."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a dry run reads with, and what it goes by; `now_ms` is the wall clock."""

    reader: TableReader
    journal: JournalFiles
    limits: Limits
    placement: Placement
    now_ms: int

    def state(self, table: str, versioned: Versioned | None) -> TableState:
        """What a name stands for at its pointer; None for a name without one. Raises as reading it does."""
        state = TableState(table, reader=self.reader, journal=self.journal, limits=self.limits)
        state.load(versioned)
        return state

    def draft(self, state: TableState, placement: Placement | None = None) -> Working:
        """What an attempt is made on."""
        attempt = Attempt(batch=DRY_RUN, token=DRY_RUN, number=0, now_ms=self.now_ms)
        where = self.placement if placement is None else placement
        return working_on(state, reader=self.reader, attempt=attempt, placement=where, limits=self.limits)


def forecast(intents: Sequence[Intent], *, versioned: Versioned | None, setting: Setting) -> list[Forecast]:
    """What would become of intents on one table, were they committed now, one after the other in this order.

    `versioned` is the table's pointer, None for a name without one. Raises as reading the table does, and InvalidInput
    for transactions and renames, which are about other names, too.
    """
    for intent in intents:
        if isinstance(intent, RenameTable | RenameView):
            raise InvalidInput("what would become of a rename cannot be told: it is about two names", where="operation")
        if isinstance(intent, Transaction):
            raise InvalidInput("what would become of a transaction cannot be told: try its members", where="operation")
    state = setting.state(intents[0].table, versioned)
    pendings = [pending_of(intent, limits=setting.limits, now_ms=setting.now_ms) for intent in intents]
    known, opened = known_already(pendings, state, limits=setting.limits)
    working = setting.draft(state)
    decisions = decide(working, opened)
    if working.metadata is not None:
        places = (working.metadata.location, *places_of(working))
        unusable = unusable_files(working.new_files, places=places)
        if unusable:
            unusable = {**setting.placement.unusable, **unusable}
            working = setting.draft(state, msgspec.structs.replace(setting.placement, unusable=unusable))
            decisions = decide(working, opened)
    for pending, decision in zip(opened, decisions, strict=True):
        known[id(pending)] = judged(pending, decision, state, working)
    return [known[id(pending)] for pending in pendings]


def known_already(
    pendings: Sequence[Pending], state: TableState, *, limits: Limits
) -> tuple[dict[int, Forecast], list[Pending]]:
    """What is told of those that need no replay, by their `id`, and those that do."""
    found = sort_out(state.decisions, pendings)
    known: dict[int, Forecast] = {
        id(pending): _forecast(pending, state, status="decided", outcome=outcome) for pending, outcome in found.repeats
    }
    for pending, first in found.epochs:
        repeated = repeat_of(first, pending.decoded.intent)
        known[id(pending)] = _forecast(pending, state, status="decided", outcome=repeated)
    for pending, refused in found.reused:
        known[id(pending)] = _forecast(
            pending, state, status="would-reject", outcome=rejected_as(pending.decoded.intent, refused, limits=limits)
        )
    for pending in found.later:
        same = "says the same as an earlier one of this dry run, and would get that one's outcome"
        known[id(pending)] = _forecast(pending, state, status="would-commit", caveats=(same,))
    return known, found.open


def pending_of(intent: Intent, *, limits: Limits, now_ms: int) -> Pending:
    """The intent as if it came in now, with the verdict of whoever looks at it before its table is."""
    payload = encode_intent(intent)
    pending = Pending(
        decoded=DecodedIntent(intent, digest_of(intent), len(payload)),
        entry=Entry(shard=0, entry_id=f"{now_ms}-0", payload=payload, deliveries=1),
        epoch=DRY_RUN,
        entry_ms=now_ms,
        taken_at=0.0,
    )
    try:
        check_age(intent.intent_id, entry_ms=now_ms, limits=limits)
    except InvalidIntent as error:
        verdict = Refused(rule=error.rule, message=str(error), hint="fix")
        return msgspec.structs.replace(pending, verdict=verdict)
    return unless_late(pending, now_ms=now_ms)


def _forecast(pending: Pending, state: TableState, **members: Any) -> Forecast:
    intent = pending.decoded.intent
    return Forecast(**{
        "intent_id": intent.intent_id,
        "table": intent.table,
        "operation": OPERATIONS[type(intent)],
        "branch": ref_of(intent),
        "base_snapshot_id": base_of(intent),
        "metadata_location": None if state.current is None or state.pointer is None
        else state.pointer.metadata_location,
        **members,
    })  # fmt: skip


def judged(pending: Pending, decision: Decision, state: TableState, working: Working) -> Forecast:
    """What replay decided on an intent, told from the table before (`state`) and after it (`working`)."""
    intent = pending.decoded.intent
    if isinstance(decision, Refused):
        refused = placed(working, intent, decision)
        passed = _passed(working.metadata or state.metadata, refused.base_snapshot_id, until=refused.head_snapshot_id)
        return _forecast(
            pending, state, status="would-reject", outcome=rejected_as(intent, refused, limits=working.limits),
            base_snapshot_id=refused.base_snapshot_id, head_snapshot_id=refused.head_snapshot_id,
            rebased_over=None if passed is None else passed[:LISTED_MAX], rebased_over_count=len(passed or ()),
        )  # fmt: skip
    draft = next((d for d in working.snapshots if d.snapshot.snapshot_id == decision.snapshot_id), None)
    head = _head(state, ref_of(intent))
    parent = head if draft is None else draft.snapshot.parent_snapshot_id
    passed = _passed(working.metadata or state.metadata, base_of(intent), until=parent)
    return _forecast(
        pending, state, status="would-commit", head_snapshot_id=head,
        snapshot=None if draft is None else future(draft, working),
        details=msgspec.to_builtins(decision.details),
        rebased_over=None if passed is None else passed[:LISTED_MAX], rebased_over_count=len(passed or ()),
    )  # fmt: skip


def _head(state: TableState, name: str | None) -> int | None:
    ref = None if state.metadata is None else state.metadata.ref(name or MAIN_BRANCH)
    return None if ref is None else ref.snapshot_id


def _passed(metadata: TableMetadata | None, base: int | None, *, until: int | None) -> tuple[Landed, ...] | None:
    """The snapshots after the base; None where the intent names none, or it is not in the history."""
    if metadata is None or base is None:
        return None
    between = snapshots_between(metadata, after_id=base, until_id=until)
    return None if between is None else tuple(landed(snapshot) for snapshot in between)


def future(draft: DraftSnapshot, working: Working) -> FutureSnapshot:
    """What a drafted snapshot is."""
    snapshot = draft.snapshot
    added, removed = (tuple(_files(draft, working, status)) for status in (Status.ADDED, Status.DELETED))
    refs = () if working.metadata is None else working.metadata.refs.values()
    on_branch = any(ref.snapshot_id == snapshot.snapshot_id for ref in refs) or any(
        later.snapshot.parent_snapshot_id == snapshot.snapshot_id for later in working.snapshots
    )
    return FutureSnapshot(
        table=working.table,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        operation=snapshot.operation,
        branch=draft.branch if on_branch else None,
        summary={k: v for k, v in (snapshot.summary or {}).items() if not k.startswith("firn.batch")},
        intents_count=len(draft.intent_ids),
        added_files=added[:LISTED_MAX],
        added_files_count=len(added),
        removed_files=removed[:LISTED_MAX],
        removed_files_count=len(removed),
    )


def _files(draft: DraftSnapshot, working: Working, status: Status) -> Iterator[str]:
    for manifest in made_by(draft.snapshot, draft.manifests):
        for entry in working.entries(manifest):
            if entry.status is status and entry.snapshot_id == draft.snapshot.snapshot_id:
                yield entry.data_file.file_path
