"""A Hypothesis state machine: writers plan statements on what they see, and submit them when they like."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

import msgspec
from hypothesis import assume, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from firn.coordinator.fsck.run import check_table
from firn.model.intent import CreateTable, Transaction
from firn.model.metadata import TableMetadata
from firn.model.operations.transaction import Member
from firn.model.outcome import Committed, Outcome, Rejected
from firn.storage.pointers import Pointers
from tests.unit.coordinator.row_model.author import Author
from tests.unit.coordinator.row_model.curator import Curator
from tests.unit.coordinator.row_model.faulty_bench import FAULTS, Fault, FaultyBench
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.janitor import Janitor
from tests.unit.coordinator.row_model.planning import Choices, View
from tests.unit.coordinator.row_model.reading import TableReading
from tests.unit.coordinator.row_model.table_model import Planned, TableModel
from tests.unit.coordinator.workbench import TABLE, decision, new_id

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "region", "type": "string", "required": False},
        {"id": 3, "name": "v", "type": "long", "required": True},
        {"id": 4, "name": "vid", "type": "long", "required": True},
        {"id": 5, "name": "w", "type": "double", "required": False},
    ],
}
BY_REGION: dict[str, Any] = {
    "spec-id": 0,
    "fields": [{"source-id": 2, "field-id": 1000, "name": "region", "transform": "identity"}],
}

FILE_PLANS = (
    "append", "append", "append", "stage", "delete_files", "delete_where", "overwrite_where", "replace_partitions",
    "copy_on_write", "copy_on_write", "merge_on_read", "merge_on_read", "merge_on_read", "equality", "compaction",
    "compaction", "rewrite_deletes", "rewrite_positions", "rewrite_equality", "convert_deletes", "drop_deletes",
    "rewrite_manifests", "transaction", "transaction", "transaction",
)  # fmt: skip
REWRITES = ("compaction", "rewrite_deletes", "rewrite_positions", "rewrite_equality", "convert_deletes", "drop_deletes")
FIRST_MEMBERS = (
    "append", "delete_files", "delete_where", "overwrite_where", "replace_partitions", "copy_on_write",
    "merge_on_read", "merge_on_read", "equality", "equality", *REWRITES,
)  # fmt: skip
LATER_MEMBERS = ("append", "delete_files", "delete_where", "overwrite_where", "equality", *REWRITES, *REWRITES)
"""What a writer may plan without having seen what earlier members of the same transaction did."""

AGAINST_OWN = frozenset(
    {"new-deletes", "more-rows", "missing-file", "lost-deletes", "invalid-delete-file", "wrong-sequence-number"}
)
"""Rules that may refuse such a member for what those before it did."""

TABLE_PLANS = (
    "create_ref", "create_ref", "remove_ref", "rename_branch", "rollback", "set_current", "fast_forward",
    "cherry_pick", "publish", "publish", "add_column", "rename_column", "drop_column", "update_spec",
    "upgrade", "properties", "expire",
)  # fmt: skip
WAITING_MAX = 8


class RowMachine(RuleBasedStateMachine):
    """Whatever is committed does to the rows what its statement says, in the order of the journal."""

    format_version: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench = FaultyBench()
        self.maker = FileMaker(self.bench.files)
        self.reading = TableReading(self.bench.files)
        self.author = Author(self.maker, self.reading)
        self.janitor = Janitor(self.maker, self.reading)
        self.curator = Curator(self.maker, self.bench.files)
        self.waiting: list[Planned] = []
        self.planned: dict[str, Planned] = {}
        self.members: dict[str, tuple[Planned, ...]] = {}
        """Of a transaction, what its members mean."""
        self.decided: dict[str, Outcome] = {}
        self.staged = 0
        self.sound = True

    @initialize(partitioned=st.booleans(), data=st.data())
    def create(self, partitioned: bool, data: st.DataObject) -> None:
        """The table with some rows."""
        self.begin(_choices(data), partitioned=partitioned)

    def begin(self, choices: Choices, *, partitioned: bool) -> None:
        """Create the table, and append to it twice."""
        create = CreateTable(
            intent_id=new_id(),
            table=TABLE,
            schema=SCHEMA,
            partition_spec=BY_REGION if partitioned else None,
            format_version=self.format_version,
        )
        self.runner.run(self.bench.start())
        self.runner.run(self.bench.commit(create))
        self.runner.run(self.bench.news())
        self.metadata = self._read()
        self.model = TableModel(self.metadata)
        for _ in range(2):
            self._plan("append", choices)
        self._submit([self.waiting.pop() for _ in range(2)], "none", [])

    # -- rules -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.waiting) < WAITING_MAX)
    @rule(kinds=st.lists(st.sampled_from(FILE_PLANS), min_size=1, max_size=4), data=st.data())
    def plan_files(self, kinds: list[str], data: st.DataObject) -> None:
        """Writers plan statements on what they see now, which is the same."""
        for kind in kinds:
            self._plan(kind, _choices(data))

    @precondition(lambda self: len(self.waiting) < WAITING_MAX)
    @rule(kind=st.sampled_from(TABLE_PLANS), data=st.data())
    def plan_table(self, kind: str, data: st.DataObject) -> None:
        """Somebody plans a change of the table."""
        self._plan(kind, _choices(data))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), fault=st.sampled_from(("none",) * 8 + FAULTS))
    def submit(self, data: st.DataObject, fault: Fault) -> None:
        """Some of what was planned is queued, in any order, maybe with what was decided before."""
        choices = _choices(data)
        batch = [self.waiting.pop(choices.number(0, len(self.waiting) - 1))]
        while self.waiting and choices.number(0, 3):
            batch.append(self.waiting.pop(choices.number(0, len(self.waiting) - 1)))
        again = [choices.one_of(list(self.decided))] if self.decided and choices.number(0, 4) == 4 else []
        note(f"submit {[one.kind for one in batch]} with {fault}, again {[self.planned[i].kind for i in again]}")
        self._submit(batch, fault, again)

    def teardown(self) -> None:
        """Everything is submitted, and the table is checked as a whole."""
        try:
            if hasattr(self, "model") and self.sound:
                if self.waiting:
                    self._submit(self.waiting, "none", [])
                self._check_whole()
        finally:
            self.runner.run(self.bench.stop())
            self.runner.close()

    # -- planning ----------------------------------------------------------------------------------------------------

    def _plan(self, kind: str, choices: Choices) -> None:
        view = self._view(choices)
        planned: Planned | None
        match kind:
            case "stage":
                self.staged += 1
                planned = self.author.stage(view, choices, wap_id=f"w{self.staged}")
            case "rewrite_manifests" | "add_column" | "rename_column" | "drop_column" | "update_spec" | "upgrade":
                planned = getattr(self.curator, kind)(view, choices)
            case "transaction":
                planned = self._transaction(view, choices)
            case _ if kind in TABLE_PLANS:
                planned = getattr(self.curator, kind)(view, self.model, choices)
            case _:
                planned = self._statement(kind, view, choices)
                if planned is not None and choices.number(0, 9) == 9:
                    self.staged += 1
                    planned = _staged(planned, wap_id=f"w{self.staged}")
        if planned is None:
            return
        note(f"planned {planned.kind} on {planned.branch} as {planned.intent.intent_id[-6:]}: {_told(planned)}")
        self.planned[planned.intent.intent_id] = planned
        self.waiting.append(planned)

    def _statement(self, kind: str, view: View, choices: Choices) -> Planned | None:
        """A change of rows or of the files that they are in; None where there is nothing to change."""
        if kind == "delete_files" and not view.files:
            return None
        planner = self.janitor if hasattr(self.janitor, kind) else self.author
        planned: Planned | None = getattr(planner, kind)(view, choices)
        if planned is None:
            return None
        refusals = {"delete-format"} if view.metadata.format_version == 1 else set[str]()
        if any(row.row_id is None for row in view.rows):
            refusals.add("lost-row-ids")
        return msgspec.structs.replace(planned, refusals=planned.refusals | refusals)

    def _transaction(self, view: View, choices: Choices) -> Planned | None:
        """Two statements of one writer or three that belong together, planned on what was there before all of them."""
        kinds = [choices.one_of(FIRST_MEMBERS), *(choices.one_of(LATER_MEMBERS) for _ in range(choices.number(1, 2)))]
        made = [one for kind in kinds if (one := self._statement(kind, view, choices)) is not None]
        if len(made) < 2:
            return None
        intent_id = new_id()
        members = tuple(
            msgspec.structs.replace(
                one,
                intent=msgspec.structs.replace(one.intent, intent_id=intent_id),
                refusals=one.refusals | (AGAINST_OWN if at else frozenset()),
            )
            for at, one in enumerate(made)
        )
        self.members[intent_id] = members
        intent = Transaction(
            intent_id=intent_id, table=TABLE, members=tuple(cast("Member", one.intent) for one in members)
        )
        return Planned(intent=intent, kind="transaction", branch=view.branch, head=view.head, mark=view.mark)

    def _view(self, choices: Choices) -> View:
        branches = self.model.branches()
        branch = branches[0] if len(branches) == 1 or choices.number(0, 2) else choices.one_of(branches)
        head = self.model.head(branch)
        return View(
            metadata=self.metadata,
            branch=branch,
            head=head,
            files=self.reading.files_at(self.metadata, head),
            rows=self.model.rows_at(head),
            mark=len(self.model.landed),
        )

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _submit(self, batch: list[Planned], fault: Fault, again: list[str]) -> None:
        self.sound = False
        repeated = [self.planned[intent_id].intent for intent_id in again]
        outcomes = self.runner.run(self.bench.decide([one.intent for one in batch], fault, again=repeated))
        told = {outcome.intent_id: outcome for outcome in outcomes}
        for intent_id in again:
            assert decision(told[intent_id]) == decision(self.decided[intent_id]), "a second outcome for one intent"
        segments = self.runner.run(self.bench.news())
        decided = [record for segment in segments for record in segment.decided]
        assert sorted(record.intent_id for record in decided) == sorted(one.intent.intent_id for one in batch)
        self.metadata = self._read()
        made: int | None = None
        for record in decided:
            planned, outcome = self.planned[record.intent_id], told[record.intent_id]
            self.decided[record.intent_id] = outcome
            note(f"{planned.kind} {planned.intent.intent_id[-6:]}: {_answer(outcome)}")
            for part, answer in self._parts(planned, outcome):
                if isinstance(answer, Rejected):
                    self.model.refuse(part, answer)
                    self.model.require_reason(part, answer, self.metadata)
                    continue
                if made is not None and answer.snapshot_id != made:  # appends that share a snapshot come one by one
                    self._compare(made)
                made = self.model.commit(part, answer)
                assume(not self.model.has_twins)
        if made is not None:
            self._compare(made)
        self._check_table()
        self.sound = True

    def _parts(self, planned: Planned, outcome: Outcome) -> list[tuple[Planned, Outcome]]:
        """What was decided, by statement: all members of a transaction, or the one that was refused."""
        members = self.members.get(planned.intent.intent_id)
        if members is None:
            return [(planned, outcome)]
        if isinstance(outcome, Rejected):
            return [(members[outcome.details["member"]], outcome)]
        told = (
            msgspec.structs.replace(
                outcome,
                snapshot_id=done.get("snapshot-id"),
                sequence_number=done.get("sequence-number"),
                details=done.get("details", {}),
            )
            for done in outcome.details["members"]
        )
        return list(zip(members, told, strict=True))

    def _compare(self, snapshot_id: int) -> None:
        if self.metadata.snapshot_by_id(snapshot_id) is not None:
            self.model.compare(snapshot_id, self.reading.rows_at(self.metadata, snapshot_id), self.metadata)

    def _check_table(self) -> None:
        metadata, model = self.metadata, self.model
        assert {name: (ref.type, ref.snapshot_id) for name, ref in metadata.refs.items()} == model.refs
        assert {s.snapshot_id for s in metadata.snapshots} == set(model.versions)
        assert {f.field_id: f.name for f in metadata.current_schema.fields} == {
            i: name for i, (name, _) in model.columns.items()
        }
        assert {k: metadata.properties.get(k) for k in model.properties} == model.properties
        assert metadata.format_version == model.format_version
        for kind, target in model.refs.values():
            if kind == "branch":
                self._compare(target)

    def _check_whole(self) -> None:
        for number in self.model.versions:
            self._compare(number)
        versioned = self.runner.run(Pointers(self.bench.zookeeper.connect()).read(TABLE))
        verdict = check_table(versioned.pointer, files=self.bench.files, limits=self.bench.limits)
        assert verdict.ok, verdict.findings

    def _read(self) -> TableMetadata:
        return self.runner.run(self.bench.metadata())


def _choices(data: st.DataObject) -> Choices:
    return Choices(lambda least, most: data.draw(st.integers(least, most)))


def _told(planned: Planned) -> str:
    effect = getattr(planned.effect, "condition", None)
    return f"{effect or ''} {getattr(planned.intent, 'isolation', '')}"


def _answer(outcome: Outcome) -> str:
    if isinstance(outcome, Committed):
        return f"committed as {outcome.snapshot_id}"
    return f"rejected by {outcome.rule}: {outcome.message}"


def _staged(planned: Planned, *, wap_id: str) -> Planned:
    """The same for audit: no branch moves."""
    return msgspec.structs.replace(
        planned, intent=msgspec.structs.replace(cast("Any", planned.intent), stage=True, wap_id=wap_id)
    )
