"""What a table must hold after the intents that were committed, one after the other in the order of the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from firn.model.intent import Intent
from firn.model.metadata import TableMetadata
from firn.model.outcome import Committed, Rejected
from firn.model.snapshot import MAIN_BRANCH
from tests.unit.coordinator.row_model.reading import SeenRow
from tests.unit.coordinator.row_model.rows import (
    NO_ROWS,
    Effect,
    NotSerial,
    Row,
    Rows,
    insert,
    nothing,
    take_if,
)


class Picked(msgspec.Struct, frozen=True, kw_only=True):
    """What cherry-picking a snapshot brings: its rows, in the place of those that `goes` says (None: beside all)."""

    rows: Rows
    goes: Callable[[Row], bool] | None = None


class Version(msgspec.Struct, kw_only=True):
    """A snapshot as the model has it."""

    parent: int | None
    rows: Rows
    picked: Picked | None = None
    wap_id: str | None = None


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """An intent with what it means.

    `head` and `mark` say what its writer saw: where the branch was, and how many commits there had been. `refusals` are
    rules that may refuse it whatever came in between, `tolerates` the kinds of commits that must not make it fail.
    """

    intent: Intent
    kind: str
    branch: str | None = None
    head: int | None = None
    mark: int
    effect: Effect = nothing
    picked: Picked | None = None
    changes: Callable[[TableModel, Committed], None] | None = None
    picks: Callable[[TableModel], int] | None = None
    """The snapshot that a cherry-pick picks, when its turn comes."""
    may_change_rows: Callable[[TableMetadata, int], bool] | None = None
    """Of a rewrite, whether the equality deletes of a head give a reason to refuse it."""
    refusals: frozenset[str] = frozenset()
    tolerates: frozenset[str] = frozenset()

    @property
    def staged(self) -> bool:
        return bool(getattr(self.intent, "stage", False))


class Landed(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that changed something: of what kind, and on which branch (None: on the table)."""

    kind: str
    branch: str | None


DISRUPTIVE = frozenset({"expire", "refs", "schema", "spec", "upgrade"})
"""Kinds of commits to the table that may make an intent on any branch meaningless."""


class TableModel:
    """The model of one table."""

    def __init__(self, metadata: TableMetadata) -> None:
        self.versions: dict[int, Version] = {}
        self.refs: dict[str, tuple[str, int]] = {}
        self.columns: dict[int, tuple[str, Any]] = {
            field.field_id: (field.name, field.initial_default) for field in metadata.current_schema.fields
        }
        self.properties: dict[str, str] = dict(metadata.properties)
        self.format_version = metadata.format_version
        self.landed: list[Landed] = []
        self.counts: Counter[tuple[str, str]] = Counter()

    # -- what is there -----------------------------------------------------------------------------------------------

    def head(self, branch: str) -> int | None:
        """The snapshot that a branch points at."""
        ref = self.refs.get(branch)
        assert ref is not None or branch == MAIN_BRANCH, branch
        return None if ref is None else ref[1]

    def rows_at(self, snapshot_id: int | None) -> Rows:
        """The rows of a snapshot."""
        return NO_ROWS if snapshot_id is None else self.versions[snapshot_id].rows

    def branches(self) -> list[str]:
        """The branches, ``main`` first, which need not have a snapshot yet."""
        return [MAIN_BRANCH, *sorted(n for n, (kind, _) in self.refs.items() if kind == "branch" and n != MAIN_BRANCH)]

    def ancestors(self, snapshot_id: int | None) -> list[int]:
        """The known history of a snapshot, itself first."""
        found = []
        while snapshot_id is not None and snapshot_id in self.versions:
            found.append(snapshot_id)
            snapshot_id = self.versions[snapshot_id].parent
        return found

    @property
    def has_twins(self) -> bool:
        """Whether a row is somewhere twice: a snapshot was picked whose rows had come there in other files before.

        That is what was asked for, but such rows cannot be told apart any more.
        """
        return any(len({row.vid for row in v.rows}) < len(v.rows) for v in self.versions.values())

    # -- what is decided ---------------------------------------------------------------------------------------------

    def commit(self, planned: Planned, outcome: Committed) -> int | None:
        """Take over a committed intent; the id of the snapshot that it made or joined, None for no snapshot."""
        self.counts[planned.kind, "committed"] += 1
        if planned.changes is not None:
            planned.changes(self, outcome)
            self.landed.append(Landed(kind=planned.kind, branch=planned.branch))
            return None
        assert planned.branch is not None
        if planned.picks is not None:
            return self._pick(planned, outcome, planned.branch, planned.picks(self))
        return self._apply(planned, outcome, planned.branch)

    def _pick(self, planned: Planned, outcome: Committed, branch: str, picked_id: int) -> int | None:
        """A branch moves to the picked snapshot where that follows its head, else it gets the same rows anew."""
        version = self.versions[picked_id]
        if outcome.snapshot_id == picked_id:
            assert version.parent == self.head(branch), f"{branch} moved to {picked_id} from {self.head(branch)}"
            self.refs[branch] = ("branch", picked_id)
            self.landed.append(Landed(kind=planned.kind, branch=branch))
            return None
        picked = version.picked
        assert picked is not None, f"snapshot {picked_id} cannot be repeated elsewhere"
        fresh = tuple(msgspec.structs.replace(row, row_id=None, updated=None) for row in picked.rows)
        effect = insert(*fresh) if picked.goes is None else take_if(picked.goes, adding=fresh)
        again = msgspec.structs.replace(picked, rows=fresh)
        return self._apply(msgspec.structs.replace(planned, effect=effect, picked=again), outcome, branch)

    def _apply(self, planned: Planned, outcome: Committed, branch: str) -> int | None:
        head, snapshot_id = self.head(branch), outcome.snapshot_id
        before = self.rows_at(head)
        after = self._aged(before, planned.effect(before), outcome)
        if snapshot_id is not None and snapshot_id in self.versions:
            joined = self.versions[snapshot_id]
            assert snapshot_id == head, f"{planned.kind} was committed as snapshot {snapshot_id}, the head is {head}"
            if planned.kind != "append" and _vids(before) != _vids(after):
                raise NotSerial(f"{planned.kind} made no snapshot, but rows {_vids(before) - _vids(after)} are to go")
            joined.rows = after
            if planned.picked is not None and joined.picked is not None:
                joined.picked = Picked(rows=(*joined.picked.rows, *planned.picked.rows))
        elif snapshot_id is None:
            assert _vids(before) == _vids(after), f"{planned.kind} made no snapshot"
            return None
        else:
            wap_id, picked = getattr(planned.intent, "wap_id", None), planned.picked
            if picked is None and _vids(before) <= _vids(after):  # whatever the statement was, it is an append now
                picked = Picked(rows=tuple(row for row in after if row.vid not in _vids(before)))
            self.versions[snapshot_id] = Version(parent=head, rows=after, picked=picked, wap_id=wap_id)
            if not planned.staged:
                self.refs[branch] = ("branch", snapshot_id)
        if not planned.staged:
            self.landed.append(Landed(kind=planned.kind, branch=branch))
        return snapshot_id

    @staticmethod
    def _aged(before: Rows, after: Rows, outcome: Committed) -> Rows:
        """Rows that the commit brings were last updated by it."""
        old = _vids(before)
        return tuple(
            row
            if row.vid in old or row.updated is not None
            else msgspec.structs.replace(row, updated=outcome.sequence_number)
            for row in after
        )

    def refuse(self, planned: Planned, outcome: Rejected) -> None:
        """Check that a refusal has a reason."""
        self.counts[planned.kind, outcome.rule] += 1
        if outcome.rule in planned.refusals:
            return
        since = self.landed[planned.mark :]
        assert outcome.rule != "internal-error", outcome
        reasons = {
            one.kind for one in since if one.branch == planned.branch or (one.branch is None and one.kind in DISRUPTIVE)
        }
        if planned.branch is None:
            reasons = {one.kind for one in since}
        assert reasons - planned.tolerates, (
            f"{planned.kind} was refused by {outcome.rule}, with only {sorted({one.kind for one in since})} since it "
            f"was planned: {outcome.message}"
        )

    def require_reason(self, planned: Planned, outcome: Rejected, metadata: TableMetadata) -> None:
        """Check that a rewrite which equality deletes were in the way of would have changed something."""
        if planned.may_change_rows is None or outcome.rule not in {"wrong-sequence-number", "new-deletes"}:
            return
        winner = metadata.snapshot_by_id(outcome.conflicting_snapshot_id or 0)
        summary = {} if winner is None else winner.summary or {}
        by_key = "added-equality-deletes" in summary and "added-position-deletes" not in summary
        head = self.head(planned.branch or MAIN_BRANCH)
        if head is None or metadata.snapshot_by_id(head) is None or (outcome.rule == "new-deletes" and not by_key):
            return
        self.counts[planned.kind, f"{outcome.rule}, for a reason"] += 1
        assert planned.may_change_rows(metadata, head), f"nothing would have changed: {outcome.message}"

    # -- what is read ------------------------------------------------------------------------------------------------

    def compare(self, snapshot_id: int, seen: Sequence[SeenRow], metadata: TableMetadata) -> None:
        """Compare the rows that a snapshot really has with the model's, and learn the row ids that firn gave."""
        version = self.versions[snapshot_id]
        defaults = {field.field_id: field.initial_default for field in metadata.current_schema.fields}
        expected = sorted((row.vid, repr(row.partition), _visible(row.values, defaults)) for row in version.rows)
        found = sorted((row.vid, repr(row.partition), _visible(row.values, defaults)) for row in seen)
        assert found == expected, (
            f"snapshot {snapshot_id}:\n  only real  {_minus(found, expected)}\n  only model {_minus(expected, found)}"
        )
        snapshot = metadata.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        assert snapshot.parent_snapshot_id == version.parent, f"{snapshot_id} follows {snapshot.parent_snapshot_id}"
        if snapshot.first_row_id is not None:
            self._compare_lineage(version, seen, next_row_id=metadata.next_row_id or 0)

    @staticmethod
    def _compare_lineage(version: Version, seen: Sequence[SeenRow], *, next_row_id: int) -> None:
        by_vid = {row.vid: row for row in seen}
        ids = [row.row_id for row in seen if row.row_id is not None]
        assert len(ids) == len(seen), f"rows without ids in {seen}"
        assert len(set(ids)) == len(ids), f"a row id is given twice: {sorted(ids)}"
        assert all(0 <= number < next_row_id for number in ids)
        learned: list[Row] = []
        for row in version.rows:
            real = by_vid[row.vid]
            assert row.row_id in {None, real.row_id}, f"row {row.vid} had id {row.row_id}, now {real.row_id}"
            assert row.updated in {None, real.updated}, f"row {row.vid}: updated in {row.updated}, not {real.updated}"
            learned.append(msgspec.structs.replace(row, row_id=real.row_id, updated=real.updated))
        version.rows = tuple(learned)


def _vids(rows: Collection[Row]) -> frozenset[int]:
    return frozenset(row.vid for row in rows)


def _visible(values: Mapping[int, Any], defaults: Mapping[int, Any]) -> str:
    """Values in the columns that there are now; text, because nulls are not in any order."""
    return repr([values.get(i, default) for i, default in sorted(defaults.items())])


def _minus(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return list((Counter(some) - Counter(others)).elements())
