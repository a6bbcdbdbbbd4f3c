"""What a compaction would rewrite: groups of files of one partition that need it. Planned without Spark.

A plan is a value: it can be looked at, printed and turned into JSON, and nothing has happened yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from firn.model.amounts import plural, size_text
from firn.model.delete_index import PartitionKey, partition_key, referenced_data_file
from firn.model.expressions.predicates import TRUE, Expression
from firn.model.metadata import TableMetadata
from firn.model.partition_path import partition_path
from firn.model.scan_plan import FileScanTask
from firn.model.snapshot import MAIN_BRANCH
from firn.pipeline.compaction_rules import CompactionRules, rules_of
from firn.storage.manifest_reader import ManifestReader
from firn.storage.table_scan import plan_scan

Reason = Literal["too-small", "too-large", "many-deletes", "deleted-rows", "old-spec", "asked"]
"""Why a file is rewritten; ``asked`` is a file without another reason, with `CompactionRules.rewrite_all`."""

ALONE: Final[frozenset[Reason]] = frozenset({"many-deletes", "deleted-rows", "old-spec", "asked"})
"""Reasons for which a file is rewritten even if no other is."""

OLD_SPECS: Final = "files of older specs"
UNPARTITIONED_NAME: Final = "all rows"


class FileGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Files that are rewritten together into about `outputs` files.

    `partition` is the path of their partition, for people. Files of older specs (`of_old_specs`) are in groups of their
    own, whatever their partition is: in the current spec their rows are elsewhere.
    """

    number: int
    partition: str
    of_old_specs: bool
    tasks: tuple[FileScanTask, ...]
    reasons: dict[Reason, int]
    outputs: int

    @property
    def files(self) -> int:
        """Data files that are rewritten."""
        return len(self.tasks)

    @property
    def bytes(self) -> int:
        """Bytes of those."""
        return size_of(self.tasks)

    @property
    def paths(self) -> tuple[str, ...]:
        """Locations of those."""
        return tuple(task.file.file_path for task in self.tasks)

    @property
    def deletes(self) -> int:
        """Delete files that apply to them, each once."""
        return len({(d.file_path, d.content_offset) for task in self.tasks for d in task.deletes})

    def __str__(self) -> str:
        why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items())
        deletes = f", {plural(self.deletes, 'delete file')} applied" if self.deletes else ""
        return (
            f"{self.number}. {self.partition}: {plural(self.files, 'file')} of {size_text(self.bytes)} → "
            f"about {self.outputs:,}{deletes} ({why})"
        )


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The groups of one compaction, planned on a snapshot (None: the branch is empty).

    `files_looked_at` with `bytes_looked_at` are all files that the filter left, those that are left alone among them.
    """

    branch: str
    snapshot_id: int | None
    rules: CompactionRules
    groups: tuple[FileGroup, ...]
    files_looked_at: int
    bytes_looked_at: int

    @property
    def files(self) -> int:
        """Data files that are rewritten."""
        return sum(group.files for group in self.groups)

    @property
    def bytes(self) -> int:
        """Bytes of those."""
        return sum(group.bytes for group in self.groups)

    def as_json(self) -> dict[str, Any]:
        """The plan in types that JSON has; the files of a group by location."""
        return {
            "branch": self.branch,
            "snapshot-id": self.snapshot_id,
            "rules": msgspec.to_builtins(self.rules),
            "files-looked-at": self.files_looked_at,
            "bytes-looked-at": self.bytes_looked_at,
            "files": self.files,
            "bytes": self.bytes,
            "groups": [
                {
                    "number": group.number,
                    "partition": group.partition,
                    "of-old-specs": group.of_old_specs,
                    "files": group.files,
                    "bytes": group.bytes,
                    "delete-files": group.deletes,
                    "outputs": group.outputs,
                    "reasons": dict(group.reasons),
                    "paths": list(group.paths),
                }
                for group in self.groups
            ],
        }

    def __str__(self) -> str:
        if not self.groups:
            return f"nothing to compact of {plural(self.files_looked_at, 'file')}, {size_text(self.bytes_looked_at)}"
        head = (
            f"{self.files:,} of {plural(self.files_looked_at, 'file')} ({size_text(self.bytes)} of "
            f"{size_text(self.bytes_looked_at)}) to be rewritten, in {plural(len(self.groups), 'group')}"
        )
        return "\n".join([head, *(f"  {group}" for group in self.groups)])


def plan_compaction(
    metadata: TableMetadata,
    *,
    files: ManifestReader,
    filter: Expression = TRUE,
    branch: str = MAIN_BRANCH,
    rules: CompactionRules | None = None,
) -> CompactionPlan:
    """What a compaction of the head of `branch` would rewrite.

    `filter` leaves out files that certainly have no matching row; of the others all rows are rewritten. `rules` are
    those of the table's properties if they are not given. Raises as `firn.storage.table_scan.plan_scan` and `rules_of`.
    """
    rules = rules_of(metadata.properties) if rules is None else rules
    if metadata.head(branch) is None and branch == MAIN_BRANCH:
        return CompactionPlan(
            branch=branch, snapshot_id=None, rules=rules, groups=(), files_looked_at=0, bytes_looked_at=0
        )
    plan = plan_scan(metadata, files=files, filter=filter, ref=branch)
    return CompactionPlan(
        branch=branch,
        snapshot_id=plan.snapshot_id,
        rules=rules,
        groups=group_files(plan.tasks, metadata=metadata, rules=rules),
        files_looked_at=len(plan.tasks),
        bytes_looked_at=size_of(plan.tasks),
    )


def group_files(
    tasks: Iterable[FileScanTask], *, metadata: TableMetadata, rules: CompactionRules
) -> tuple[FileGroup, ...]:
    """The groups that the rules make of planned files, partition by partition, numbered from 1."""
    current = metadata.default_spec_id
    places: dict[PartitionKey | None, list[FileScanTask]] = {}
    reasons: dict[str, Reason] = {}
    for task in sorted(tasks, key=_age_and_path):
        reason = reason_of(task, current_spec_id=current, rules=rules)
        if reason is not None:
            reasons[task.file.file_path] = reason
            old = task.file.spec_id != current
            key = None if old else partition_key(task.file.spec_id, task.file.partition)
            places.setdefault(key, []).append(task)
    groups: list[FileGroup] = []
    for key, candidates in places.items():
        for packed in pack(candidates, rules=rules):
            why = Counter(reasons[task.file.file_path] for task in packed)
            if is_worth_it(packed, why, rules=rules):
                groups.append(
                    FileGroup(
                        number=len(groups) + 1,
                        partition=OLD_SPECS if key is None else _path(packed[0], metadata),
                        of_old_specs=key is None,
                        tasks=tuple(packed),
                        reasons=dict(why),
                        outputs=rules.output_files(size_of(packed)),
                    )
                )
    return tuple(groups)


def reason_of(task: FileScanTask, *, current_spec_id: int, rules: CompactionRules) -> Reason | None:
    """Why a file is a candidate, None if it is good as it is. Reasons that need no other file come first."""
    if rules.rewrite_old_specs and task.file.spec_id != current_spec_id:
        return "old-spec"
    if len(task.deletes) >= rules.delete_file_threshold:
        return "many-deletes"
    if deleted_share(task) >= rules.delete_ratio_threshold:
        return "deleted-rows"
    if task.file.file_size_in_bytes < rules.min_file_size_bytes:
        return "asked" if rules.rewrite_all else "too-small"
    if task.file.file_size_in_bytes > rules.max_file_size_bytes:
        return "asked" if rules.rewrite_all else "too-large"
    return "asked" if rules.rewrite_all else None


def deleted_share(task: FileScanTask) -> float:
    """The share of a file's rows that deletes which name it take; others may take any number, which nobody knows."""
    known = sum(delete.record_count for delete in task.deletes if referenced_data_file(delete) is not None)
    return min(known, task.file.record_count) / task.file.record_count if task.file.record_count else 0.0


def pack(tasks: Sequence[FileScanTask], *, rules: CompactionRules) -> Iterator[list[FileScanTask]]:
    """The files in their order, cut before a group would be too large; one that is too large by itself is alone."""
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        more = task.file.file_size_in_bytes
        if group and (size + more > rules.max_file_group_size_bytes or len(group) >= rules.max_file_group_input_files):
            yield group
            group, size = [], 0
        group.append(task)
        size += more
    if group:
        yield group


def is_worth_it(tasks: Sequence[FileScanTask], reasons: Iterable[Reason], *, rules: CompactionRules) -> bool:
    """Whether a group of candidates is rewritten: it has a reason of its own, or files enough, or fills a file."""
    if not ALONE.isdisjoint(reasons):
        return True
    size = size_of(tasks)
    if size > rules.max_file_size_bytes:
        return True
    return len(tasks) > 1 and (len(tasks) >= rules.min_input_files or size > rules.target_file_size_bytes)


def size_of(tasks: Iterable[FileScanTask]) -> int:
    """Bytes of the data files."""
    return sum(task.file.file_size_in_bytes for task in tasks)


def _age_and_path(task: FileScanTask) -> tuple[int, int, str, str]:
    """Rows that were written together stay together: they are often asked for together."""
    return task.file.spec_id, task.sequence_number, repr(task.file.partition), task.file.file_path


def _path(task: FileScanTask, metadata: TableMetadata) -> str:
    return partition_path(task.spec, metadata.current_schema, task.file.partition) or UNPARTITIONED_NAME
