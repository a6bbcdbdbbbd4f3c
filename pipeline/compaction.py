"""Compaction: data files that are too small, too large or too much deleted from, rewritten by Spark.

The plan says which groups of files there are. Each group is one Spark job, and a few groups are one intent, of low
priority. What came meanwhile decides at the daemon: appends never matter, equality deletes reach the new files as they
reached the old ones, and a group whose rows were deleted or whose files are gone is planned and written again, while
the others of its intent go on without it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypedDict, Unpack

from pyspark.sql import SparkSession

from firn.coordinator.client.answers import Unknown
from firn.coordinator.client.intents import new_intent_id
from firn.model.errors import FirnError
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.intent import Replace
from firn.model.outcome import Committed, Rejected
from firn.model.reservation import Overlap
from firn.model.snapshot import MAIN_BRANCH
from firn.model.sorting import SortBy
from firn.model.spelling import refuse_unknown
from firn.pipeline.compaction_job import Base, WrittenGroup, write_group
from firn.pipeline.compaction_layout import Layout, Strategy
from firn.pipeline.compaction_outcome import (
    CompactionOutcome,
    GroupOutcome,
    GroupStatus,
    Progress,
    ProgressCallback,
    Stage,
)
from firn.pipeline.compaction_plan import FileGroup, plan_compaction
from firn.pipeline.compaction_rules import CompactionRules, rules_of
from firn.pipeline.connection import Connection
from firn.pipeline.dangling_deletes import remove_dangling_deletes
from firn.pipeline.file_removal import remove_files
from firn.pipeline.row_filter import parse_filter
from firn.pipeline.spark_errors import SPARK_ERRORS, cause_of
from firn.storage.locations import canonical
from firn.storage.manifest_reader import StoredManifests

COMMITS_MAX: Final = 10
"""Intents that a compaction is cut into."""

INTENT_FILES_MAX: Final = 20_000
"""Files that one intent replaces, as far as its groups can be parted: more of them make more intents."""

ATTEMPTS: Final = 3
"""How often a group is written before it is given up."""

RESERVED_FILES_MAX: Final = 1_000
"""Files that a reservation names; work on more of them reserves the branch."""

PURPOSE: Final = "compaction"

WRONG_AGE: Final = "wrong-sequence-number"
"""The rule that refuses a rewrite whose rows come under equality deletes which are not for them (`docs/replay.md`)."""

_log: Final = logging.getLogger(__name__)


class CompactOptions(TypedDict, total=False):
    """What a compaction can be told.

    `rules`: instead of the table's (`rules_of`). `max_commits`: intents that it is cut into (default 10), or a few
    more; a group is never cut. `attempts`: how often a group is written before it is given up (default 3).
    `remove_dangling`: whether delete files that reach nothing any more go, too (default yes). `progress`: called as
    `Progress` says. `go_on`: asked before each intent's groups are written; as soon as it says no, the others are left.
    `connection`, `branch` and `summary` as for writes.
    """

    rules: CompactionRules
    max_commits: int
    attempts: int
    remove_dangling: bool
    progress: ProgressCallback
    go_on: Callable[[], bool]
    connection: Connection
    branch: str
    summary: Mapping[str, str]


def compact(
    spark: SparkSession,
    table: str,
    *,
    strategy: Strategy = "bin-pack",
    by: Sequence[str | SortBy] = (),
    where: str | Expression = TRUE,
    **options: Unpack[CompactOptions],
) -> CompactionOutcome:
    """Rewrite the files that need it, in the partitions and files that may have rows which `where` matches.

    `by` are the columns of a ``z-order``, or what to ``sort`` by instead of the table's sort order. Deletes are
    applied, and rows stay what they are: values, row ids, and the sequence number that they were last changed by.
    With nothing to do there is no commit, and the outcome has no groups. Groups that fail do not stop the others: see
    `CompactionOutcome.ok`. Raises InvalidInput for columns, a filter or rules that do not fit, NotFound for a table
    that is not there.
    """
    refuse_unknown(options, CompactOptions.__annotations__)
    connection = options.get("connection") or Connection.of_spark(spark)
    branch = options.get("branch") or MAIN_BRANCH
    view = connection.table(table)
    plan = plan_compaction(
        view.metadata,
        files=StoredManifests(connection.store()),
        filter=parse_filter(where),
        branch=branch,
        rules=options.get("rules") or rules_of(view.metadata.properties),
    )
    layout = Layout.of(strategy, by, view.metadata)
    run = _Run(spark, table, plan.rules, layout, connection=connection, branch=branch, options=options)
    groups = run.settle_all(plan.groups)
    dangling = 0
    if options.get("remove_dangling", True) and view.metadata.format_version > 1:
        dangling = remove_dangling_deletes(connection, table, branch=branch)
    return CompactionOutcome(table=table, plan=plan, groups=groups, dangling_removed=dangling)


def commits_of(groups: Sequence[FileGroup], *, max_commits: int) -> Iterator[tuple[FileGroup, ...]]:
    """The groups that are committed together.

    Groups of older specs are apart: their rows change their partition, and the daemon has to tell from metrics which
    went where.
    """
    size = math.ceil(len(groups) / max(1, max_commits))
    part: list[FileGroup] = []
    for group in sorted(groups, key=lambda one: one.of_old_specs):
        full = len(part) >= size or sum(one.files for one in part) + group.files > INTENT_FILES_MAX
        if part and (full or part[0].of_old_specs != group.of_old_specs):
            yield tuple(part)
            part = []
        part.append(group)
    if part:
        yield tuple(part)


class _Standing:
    """A group on its way: how often it was written, how often it lost, and why."""

    def __init__(self, group: FileGroup) -> None:
        self.planned = group
        self.attempts = 0
        self.conflicts = 0
        self.message: str | None = None

    def outcome(
        self, status: GroupStatus, *, written: WrittenGroup | None = None, snapshot_id: int | None = None
    ) -> GroupOutcome:
        group = self.planned if written is None else written.group
        files = () if written is None else written.files
        return GroupOutcome(
            number=self.planned.number,
            partition=self.planned.partition,
            status=status,
            files_before=group.files,
            bytes_before=group.bytes,
            files_after=len(files),
            bytes_after=sum(file.file_size_in_bytes for file in files),
            snapshot_id=snapshot_id,
            attempts=self.attempts,
            conflicts=self.conflicts,
            message=None if status == "committed" else self.message,
        )


class _Run:
    """One compaction under way."""

    def __init__(
        self,
        spark: SparkSession,
        table: str,
        rules: CompactionRules,
        layout: Layout,
        *,
        connection: Connection,
        branch: str,
        options: CompactOptions,
    ) -> None:
        self._spark = spark
        self._table = table
        self._rules = rules
        self._layout = layout
        self._connection = connection
        self._branch = branch
        self._max_commits = options.get("max_commits", COMMITS_MAX)
        self._attempts = options.get("attempts", ATTEMPTS)
        self._summary = dict(options.get("summary") or {})
        self._progress = options.get("progress")
        self._go_on = options.get("go_on", lambda: True)
        self._standings: dict[int, _Standing] = {}
        self._settled: dict[int, GroupOutcome] = {}

    def settle_all(self, groups: Sequence[FileGroup]) -> tuple[GroupOutcome, ...]:
        """Rewrite the groups, whatever becomes of single ones; their outcomes in their order."""
        self._standings = {group.number: _Standing(group) for group in groups}
        self._tell("planned")
        going_on = True
        for part in commits_of(groups, max_commits=self._max_commits):
            going_on = going_on and self._go_on()
            if not going_on:
                for group in part:
                    self._settle(group, "postponed")
                continue
            waiting = list(part)
            status: GroupStatus = "conflict"
            for _ in range(self._attempts):
                try:
                    waiting = self._rewrite(waiting)
                except FirnError as error:  # the other groups may fare better
                    status, waiting = "failed", self._unsettled(waiting, str(error))
                    break
                if not waiting:
                    break
            for group in waiting:
                self._settle(group, status)
        return tuple(self._settled[number] for number in sorted(self._settled))

    def _unsettled(self, groups: Sequence[FileGroup], message: str) -> list[FileGroup]:
        """Those of the groups that are not settled, with what stopped them."""
        left = [group for group in groups if group.number not in self._settled]
        for group in left:
            self._standings[group.number].message = message
        return left

    def _rewrite(self, groups: Sequence[FileGroup]) -> list[FileGroup]:
        """Write the groups from the newest snapshot and commit them; those that lost to another commit."""
        base = Base.of(self._connection, self._table, branch=self._branch)
        ready = []
        for group in groups:
            found = base.refreshed(group, self._rules)
            if found is None:
                self._settle(group, "needless")
            else:
                ready.append(found)
        if not ready:
            return []
        paths = [path for group in ready for path in group.paths]
        reserving = self._connection.client().begin(
            self._table,
            files=paths if len(paths) <= RESERVED_FILES_MAX else (),
            branch=self._branch,
            base_snapshot_id=base.snapshot.snapshot_id,
            purpose=PURPOSE,
            anyway=True,
        )
        with reserving as mine:
            written: list[WrittenGroup] = []
            try:
                for one in self._written(self._unreserved(ready, mine.overlaps), base):
                    written.append(one)
                    self._tell("written", self._standings[one.group.number].outcome("written", written=one))
            except BaseException:
                self._remove(written)
                raise
            return self._commit(written, base, reservation_id=mine.reservation_id)

    def _unreserved(self, groups: Sequence[FileGroup], overlaps: Sequence[Overlap]) -> Iterator[FileGroup]:
        """The groups that nobody else has said to be at work on: rewriting their files would spoil that work."""
        held = {canonical(path): one for one in overlaps if one.certain for path in one.reservation.scope.files}
        for group in groups:
            overlap = next((held[name] for name in map(canonical, group.paths) if name in held), None)
            if overlap is None:
                yield group
            else:
                self._standings[group.number].message = str(overlap)
                self._settle(group, "reserved")

    def _written(self, groups: Iterator[FileGroup], base: Base) -> Iterator[WrittenGroup]:
        """The groups, written one after another; those whose job fails are settled."""
        for group in groups:
            standing = self._standings[group.number]
            standing.attempts += 1
            try:
                written = write_group(
                    self._spark,
                    group,
                    base=base,
                    layout=self._layout,
                    rules=self._rules,
                    connection=self._connection,
                )
            except (FirnError, *SPARK_ERRORS) as error:
                standing.message = cause_of(error)
                _log.warning("compaction of %s, group %s failed: %s", self._table, group.number, standing.message)
                self._settle(group, "failed")
                continue
            yield written

    def _commit(self, written: list[WrittenGroup], base: Base, *, reservation_id: str) -> list[FileGroup]:
        """Submit the groups as old as the snapshot that they were read from; those that lost.

        So equality deletes that came since still reach their rows. Rows that move to another spec may come under some
        that were never for them, at that age: their files are submitted once more, as young as their commit.
        """
        age = base.snapshot.sequence_number if base.view.metadata.format_version > 1 else None
        lost, too_old = self._submit(written, base, age=age, reservation_id=reservation_id)
        lost_again, _ = self._submit(too_old, base, age=None, reservation_id=reservation_id)
        return lost + lost_again

    def _submit(
        self, written: list[WrittenGroup], base: Base, *, age: int | None, reservation_id: str
    ) -> tuple[list[FileGroup], list[WrittenGroup]]:
        """Submit the groups together, and again without those that a rejection is about.

        Those that lost, and those that nothing but this age (data sequence number) is wrong with.
        """
        lost: list[FileGroup] = []
        too_old: list[WrittenGroup] = []
        while written:
            intent = self._intent(written, base, age=age, reservation_id=reservation_id)
            answer = self._connection.client().submit(intent).result(self._connection.timeout_s)
            match answer:
                case Committed():
                    for one in written:
                        self._settle(one.group, "committed", written=one, snapshot_id=answer.snapshot_id)
                    break
                case Unknown():
                    for one in written:
                        self._standings[one.group.number].message = f"intent {answer.intent_id}: {answer.reason}"
                        self._settle(one.group, "unknown", written=one)
                    break
                case Rejected():
                    refused = concerned(answer, written)
                    written = [one for one in written if one not in refused]
                    if age is not None and answer.rule == WRONG_AGE:
                        too_old += refused
                        continue
                    self._remove(refused)
                    lost += self._refused(answer, refused)
        return lost, too_old

    def _refused(self, answer: Rejected, refused: Sequence[WrittenGroup]) -> list[FileGroup]:
        """The groups that may be tried again; others are settled."""
        again = []
        for one in refused:
            standing = self._standings[one.group.number]
            standing.message = f"{answer.rule}: {answer.message}"
            if answer.hint in {"replan", "retry"}:
                standing.conflicts += 1
                again.append(one.group)
            else:
                self._settle(one.group, "failed")
        return again

    def _intent(self, written: Sequence[WrittenGroup], base: Base, *, age: int | None, reservation_id: str) -> Replace:
        return Replace(
            intent_id=new_intent_id(),
            table=self._table,
            table_uuid=base.view.uuid or None,
            branch=self._branch,
            priority="maintenance",
            summary=self._summary,
            reservation_id=reservation_id,
            base_snapshot_id=base.snapshot.snapshot_id,
            removed_data_files=tuple(path for one in written for path in one.group.paths),
            data_files=tuple(file for one in written for file in one.files),
            data_sequence_number=age,
        )

    def _remove(self, written: Sequence[WrittenGroup]) -> None:
        """Remove the files of groups that are in no intent, or in one that was rejected."""
        remove_files(self._connection.store(), (file.file_path for one in written for file in one.files))

    def _settle(
        self,
        group: FileGroup,
        status: GroupStatus,
        *,
        written: WrittenGroup | None = None,
        snapshot_id: int | None = None,
    ) -> None:
        outcome = self._standings[group.number].outcome(status, written=written, snapshot_id=snapshot_id)
        self._settled[group.number] = outcome
        self._tell("settled", outcome)

    def _tell(self, stage: Stage, group: GroupOutcome | None = None) -> None:
        if self._progress is not None:
            self._progress(
                Progress(stage=stage, groups_done=len(self._settled), groups_total=len(self._standings), group=group)
            )


def concerned(rejected: Rejected, written: Sequence[WrittenGroup]) -> list[WrittenGroup]:
    """The groups that a rejection is about: those with a file that it names, or all when it names none of theirs."""
    named = frozenset(rejected.files)
    found = [one for one in written if not named.isdisjoint(one.group.paths)]
    return found or list(written)
