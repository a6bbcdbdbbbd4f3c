"""What a table must be by the outcomes of its intents alone: live files of every snapshot, references, definitions.

It is fed with one step after the other, in the order of their decisions. No rule of conflicts is repeated here: whether
an intent is committed is its outcome's business, what it does then is what is modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.acceptance.outside_files import SCHEMA, OutsideFile
from tests.acceptance.outside_history import require

Member = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """An operation that was committed: as it was asked for, and what its outcome has of it."""

    intent_id: str
    batch: str
    member: Member
    part: Member

    @property
    def operation(self) -> str:
        """Its operation."""
        return str(self.member["operation"])

    @property
    def branch(self) -> str:
        """The branch that it is about."""
        return str(self.member.get("branch", "main"))

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that it made or moved to."""
        return self.part.get("snapshot-id")


@dataclass(frozen=True)
class Live:
    """What is live: data files with the positions that are deleted of each, and equality delete files."""

    data: Mapping[str, frozenset[int]] = field(default_factory=dict)
    equality: frozenset[str] = frozenset()


class TableModel:
    """A table as its outcomes make it."""

    def __init__(self, files: Mapping[str, OutsideFile], staged: Mapping[str, int]) -> None:
        self.live: dict[int | None, Live] = {None: Live()}
        self.parents: dict[int, int | None] = {}
        self.refs: dict[str, int] = {}
        self.properties: dict[str, str] = {}
        self.columns = {str(column["name"]) for column in SCHEMA["fields"]}
        self.partition_columns = ["cat"]
        self.statistics: dict[int, str] = {}
        self.partition_statistics: dict[int, str] = {}
        self.expiring = False
        """Whether a step since the last version was an expiry."""

        self.picked: set[str] = set()
        """Files that were added by one snapshot and by another that repeats it."""

        self._files, self._staged = files, staged
        self._added: dict[int, set[str]] = {}

    def apply(self, step: Step) -> None:
        """Do what a step does."""
        operation = step.operation
        if operation in FILE_OPERATIONS:
            self._make_snapshot(step, lambda live: self._changed(live, step))
        elif operation in ("publish", "cherry-pick"):
            self._pick(step)
        elif operation in REF_OPERATIONS:
            self._move(step)
        else:
            self._define(step)

    def would_change(self, step: Step) -> bool:
        """Whether a file operation would change what is live on its branch now."""
        if step.operation not in FILE_OPERATIONS:
            return False
        live = self.live[self.refs.get(step.branch)]
        return self._changed(live, step) != live

    def _make_snapshot(self, step: Step, change: Callable[[Live], Live]) -> None:
        made = step.snapshot_id
        parent = self.refs.get(step.branch)
        if made is None:
            require(
                change(self.live[parent]) == self.live[parent], f"{step.intent_id} made no snapshot for its changes"
            )
            return
        if made not in self.live:
            self.parents[made] = parent
            self.live[made] = self.live[parent]
        self.live[made] = change(self.live[made])
        self._added.setdefault(made, set()).update(f["file-path"] for f in step.member.get("data-files", ()))
        if not step.member.get("stage"):
            self.refs[step.branch] = made

    def _changed(self, live: Live, step: Step) -> Live:
        member, data = step.member, dict(live.data)
        added = [self._files[f["file-path"]] for f in member.get("data-files", ())]
        for path in self._gone(data, step, added):
            require(path in data, f"{step.intent_id} removed {path}, which was not live")
            del data[path]
        for file in added:
            require(file.path not in data, f"{step.intent_id} added {file.path}, which was live")
            data[file.path] = frozenset()
        equality = set(live.equality)
        for delete in (self._files[f["file-path"]] for f in member.get("delete-files", ())):
            if delete.target is None:
                equality.add(delete.path)
            elif delete.target in data:
                data[delete.target] |= delete.positions
        return Live(data, frozenset(equality))

    def _gone(self, data: Iterable[str], step: Step, added: Iterable[OutsideFile]) -> set[str]:
        gone = set(step.member.get("removed-data-files", ()))
        live = [self._files[path] for path in data]
        wanted = step.member.get("row-filter")
        if wanted is not None:
            gone |= {file.path for file in live if matches(wanted, file, step)}
        if step.operation == "replace-partitions":
            places = {(file.spec_fields, tuple(file.value(c) for c in file.spec_fields)) for file in added}
            gone |= {f.path for f in live if any(tuple(map(f.value, columns)) == values for columns, values in places)}
        return gone

    def _pick(self, step: Step) -> None:
        member = step.member
        source = self._staged[member["wap-id"]] if "wap-id" in member else int(member["snapshot-id"])
        if step.snapshot_id == source:
            require(self.parents[source] == self.refs.get(step.branch), f"{step.intent_id} jumped over a commit")
            self.refs[step.branch] = source
            return
        added = self._added[source]
        self.picked |= added
        self._make_snapshot(step, lambda live: replace(live, data={**live.data, **dict.fromkeys(added, frozenset())}))

    def _move(self, step: Step) -> None:
        member, refs = step.member, self.refs
        match step.operation:
            case "create-branch" | "create-tag" | "set-ref":
                refs[member["ref-name"]] = member["snapshot-id"]
            case "remove-ref":
                del refs[member["ref-name"]]
            case "rename-branch":
                refs[member["new-name"]] = refs.pop(member["ref-name"])
            case "fast-forward":
                refs[step.branch] = refs[member["to"]]
            case "rollback" | "set-current-snapshot":
                refs[step.branch] = member["snapshot-id"]

    def _define(self, step: Step) -> None:
        member = step.member
        match step.operation:
            case "update-properties":
                self.properties |= member.get("updates", {})
                for name in member.get("removals", ()):
                    self.properties.pop(name, None)
            case "update-schema":
                for change in member["changes"]:
                    (self.columns.add if change["action"] == "add-column" else self.columns.remove)(change["name"])
            case "update-spec":
                for change in member["changes"]:
                    if change["action"] == "add-field":
                        self.partition_columns.append(change["source"])
                    else:
                        self.partition_columns.remove(change["name"])
            case "create-or-replace-table":
                self.refs.pop("main", None)
                self.columns = {str(column["name"]) for column in member["schema"]["fields"]}
                self.partition_columns = [partition["name"] for partition in member["partition-spec"]["fields"]]
            case "set-statistics":
                entry = member["statistics"]
                self.statistics[entry["snapshot-id"]] = entry["statistics-path"]
            case "remove-statistics":
                self.statistics.pop(member["snapshot-id"], None)
            case "remove-partition-statistics":
                self.partition_statistics.pop(member["snapshot-id"], None)
            case "set-partition-statistics":
                entry = member["partition-statistics"]
                self.partition_statistics[entry["snapshot-id"]] = entry["statistics-path"]
            case "expire-snapshots":
                self.expiring = True
            case _:
                require(step.operation in PLAIN, f"{step.operation} is not modelled")


def matches(wanted: Member, file: OutsideFile, step: Step) -> bool:
    """Whether all rows of a file match; a committed step must not match a part of them."""
    if wanted["type"] == "eq":
        return file.value(wanted["term"]) == wanted["value"]
    low, high = min(file.ids), max(file.ids)
    require(not low < wanted["value"] <= high, f"{step.intent_id} was committed, and matches a part of {file.path}")
    return high < int(wanted["value"])


FILE_OPERATIONS: Final = frozenset(
    {
        "append",
        "delete-files",
        "delete-where",
        "replace",
        "rewrite-manifests",
        "overwrite",
        "replace-partitions",
        "row-delta",
    }
)
REF_OPERATIONS: Final = frozenset({
    "create-branch", "create-tag", "set-ref", "remove-ref", "rename-branch", "fast-forward", "rollback",
    "set-current-snapshot", "set-retention",
})  # fmt: skip
PLAIN: Final = frozenset({
    "create-table", "register-table", "rename-table", "drop-table", "update-sort-order", "upgrade-format",
    "set-location",
})  # fmt: skip
"""Operations that change nothing which is modelled."""
