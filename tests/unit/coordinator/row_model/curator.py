"""Plans of intents that are not about rows: manifests, branches and tags, schema, layout, properties, upkeep."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from firn.model.intent import Intent, RewriteManifests
from firn.model.manifest import ManifestContent, ManifestEntry, Status
from firn.model.operations import refs as operations
from firn.model.operations.layout import UpdateSchema, UpdateSpec
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties, UpgradeFormat
from firn.model.outcome import Committed
from firn.storage.files import FileStore
from firn.storage.manifest_reader import StoredManifests
from tests.unit.coordinator.row_model.file_maker import FileMaker
from tests.unit.coordinator.row_model.planning import ANYTHING, Choices, View
from tests.unit.coordinator.row_model.rows import ID, OWN_COLUMNS, REGION, WEIGHT
from tests.unit.coordinator.row_model.table_model import Planned, TableModel
from tests.unit.coordinator.workbench import TABLE, new_id

NAMES: Final = ("b1", "b2", "t1")
PICK_REFUSALS: Final = frozenset(
    {"already-picked", "cannot-pick", "unknown-snapshot", "duplicate-file", "changed-partition", "missing-file",
     "new-deletes", "unknown-base"}
)  # fmt: skip

Changes = Callable[[TableModel, Committed], None]


class Curator:
    """Plans intents about a table as a whole."""

    def __init__(self, maker: FileMaker, files: FileStore) -> None:
        self._maker = maker
        self._files = files
        self._numbers = itertools.count(1)

    # -- files -------------------------------------------------------------------------------------------------------

    def rewrite_manifests(self, view: View, choices: Choices) -> Planned | None:
        """Some manifests of one kind become one."""
        snapshot = None if view.head is None else view.metadata.snapshot_by_id(view.head)
        if snapshot is None:
            return None
        reader = StoredManifests(self._files)
        groups: dict[tuple[int, ManifestContent], list[Any]] = {}
        for manifest in reader.manifests(view.metadata, snapshot):
            groups.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
        if not groups:
            return None
        (spec_id, content), own = choices.one_of(list(groups.items()))
        chosen = choices.some_of(own)
        entries: list[ManifestEntry] = [
            msgspec.structs.replace(entry, status=Status.EXISTING)
            for manifest in chosen
            for entry in reader.entries(view.metadata, manifest)
            if entry.is_live
        ]
        written = (
            [self._maker.manifest(view.metadata, entries, spec_id=spec_id, content=content, snapshot_id=view.head)]
            if entries
            else []
        )
        intent = RewriteManifests(
            intent_id=new_id(),
            table=TABLE,
            branch=view.branch,
            removed_manifests=tuple(manifest.manifest_path for manifest in chosen),
            manifests=tuple(written),
        )
        return Planned(
            intent=intent, kind="rewrite-manifests", branch=view.branch, head=view.head, mark=view.mark,
        )  # fmt: skip

    # -- branches ----------------------------------------------------------------------------------------------------

    def create_ref(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch or tag at some snapshot."""
        if not model.versions:
            return None
        name, target = choices.one_of(NAMES), choices.one_of(list(model.versions))
        kind = "tag" if name.startswith("t") else "branch"
        operation = operations.CreateTag if kind == "tag" else operations.CreateBranch

        def changes(model: TableModel, outcome: Committed) -> None:
            assert name not in model.refs
            model.refs[name] = (kind, target)

        refusals = frozenset({"ref-exists"} if name in model.refs else set())
        return _planned("tag", view, operation(**_common(), ref_name=name, snapshot_id=target), changes, refusals)

    def remove_ref(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch or tag goes."""
        names = [name for name in model.refs if name != "main"]
        if not names:
            return None
        name = choices.one_of(names)
        target = model.refs[name][1]

        def changes(model: TableModel, outcome: Committed) -> None:
            assert model.refs.pop(name)[1] == target

        intent = operations.RemoveRef(**_common(), ref_name=name, expected_snapshot_id=target)
        return _planned("refs", view, intent, changes)

    def rename_branch(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch gets another name."""
        names = [name for name in model.branches() if name != "main"]
        if not names:
            return None
        old, new = choices.one_of(names), choices.one_of(("b1", "b2"))

        def changes(model: TableModel, outcome: Committed) -> None:
            assert new not in model.refs
            model.refs[new] = model.refs.pop(old)

        refusals = frozenset({"ref-exists"} if new in model.refs else set())
        intent = operations.RenameBranch(**_common(), ref_name=old, new_name=new)
        return _planned("refs", view, intent, changes, refusals)

    def rollback(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch goes back."""
        history = model.ancestors(view.head)
        if not history:
            return None
        target = choices.one_of(history)

        def changes(model: TableModel, outcome: Committed) -> None:
            assert target in model.ancestors(model.head(view.branch))
            model.refs[view.branch] = ("branch", target)

        expected = view.head if choices.coin() else None
        intent = operations.Rollback(**_common(), branch=view.branch, snapshot_id=target, expected_snapshot_id=expected)
        tolerates = frozenset() if expected else frozenset({"append", "delete-files", "compaction", "delta-delete"})
        return _planned("rollback", view, intent, changes, branch=view.branch, tolerates=tolerates)

    def set_current(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch goes anywhere."""
        if not model.versions:
            return None
        target = choices.one_of(list(model.versions))

        def changes(model: TableModel, outcome: Committed) -> None:
            assert target in model.versions
            model.refs[view.branch] = ("branch", target)

        intent = operations.SetCurrentSnapshot(
            **_common(), branch=view.branch, snapshot_id=target, expected_snapshot_id=view.head
        )
        return _planned("set-current", view, intent, changes, branch=view.branch)

    def fast_forward(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """A branch catches up with another branch or a tag, wherever that is when its turn comes."""
        if not model.refs:
            return None
        to = choices.one_of(list(model.refs))

        def changes(model: TableModel, outcome: Committed) -> None:
            target, head = model.refs[to][1], model.head(view.branch)
            assert head is None or head in model.ancestors(target)
            model.refs[view.branch] = ("branch", target)

        refusals = frozenset({"not-an-ancestor"})
        intent = operations.FastForward(**_common(), branch=view.branch, to=to)
        return _planned("fast-forward", view, intent, changes, refusals, branch=view.branch)

    def cherry_pick(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """The changes of any snapshot."""
        if not model.versions:
            return None
        picked = choices.one_of(list(model.versions))
        intent = operations.CherryPick(**_common(), branch=view.branch, snapshot_id=picked)
        return _pick("cherry-pick", view, intent, lambda _: picked)

    def publish(self, view: View, model: TableModel, choices: Choices) -> Planned | None:
        """What was staged comes to a branch."""
        staged = [version.wap_id for version in model.versions.values() if version.wap_id is not None]
        if not staged:
            return None
        wap_id = choices.one_of(staged)

        def picks(model: TableModel) -> int:
            return next(number for number, version in model.versions.items() if version.wap_id == wap_id)

        return _pick("publish", view, operations.Publish(**_common(), branch=view.branch, wap_id=wap_id), picks)

    # -- the table ---------------------------------------------------------------------------------------------------

    def add_column(self, view: View, choices: Choices) -> Planned:
        """A column of whole numbers, with a default where the format has those."""
        name, default = f"c{next(self._numbers)}", None
        change: dict[str, Any] = {"action": "add-column", "name": name, "type": "int"}
        if view.metadata.format_version >= 3 and choices.coin():
            default = choices.number(0, 2)
            change["default"] = default

        def changes(model: TableModel, outcome: Committed) -> None:
            model.columns[outcome.details["new-columns"][name]] = (name, default)

        return self._schema(view, change, changes)

    def rename_column(self, view: View, choices: Choices) -> Planned:
        """A column gets a name that none has had before."""
        field_id, old = choices.one_of(sorted(view.names.items()))
        new = f"n{next(self._numbers)}"

        def changes(model: TableModel, outcome: Committed) -> None:
            assert model.columns[field_id][0] == old
            model.columns[field_id] = (new, model.columns[field_id][1])

        return self._schema(view, {"action": "rename-column", "name": old, "new-name": new}, changes)

    def drop_column(self, view: View, choices: Choices) -> Planned | None:
        """A column that was added goes."""
        added = [(i, name) for i, name in sorted(view.names.items()) if i not in OWN_COLUMNS]
        if not added:
            return None
        field_id, name = choices.one_of(added)

        def changes(model: TableModel, outcome: Committed) -> None:
            del model.columns[field_id]

        return self._schema(view, {"action": "drop-column", "name": name}, changes)

    @staticmethod
    def _schema(view: View, change: dict[str, Any], changes: Changes) -> Planned:
        intent = UpdateSchema(**_common(), base_schema_id=view.metadata.current_schema_id, changes=(change,))
        return _planned("schema", view, intent, changes, tolerates=EVERY_KIND - {"schema"})

    def update_spec(self, view: View, choices: Choices) -> Planned | None:
        """Partitioning by region, buckets of ids or weight comes or goes."""
        metadata = view.metadata
        transform, source = choices.one_of((("identity", REGION), ("bucket[2]", ID), ("identity", WEIGHT)))
        present = [f for f in metadata.default_spec.fields if f.transform == transform and f.source_id == source]
        if present and len(metadata.default_spec.fields) > 1:
            change = {"action": "remove-field", "name": present[0].name}
        elif not present:
            change = {"action": "add-field", "source": view.names[source], "transform": transform}
        else:
            return None
        intent = UpdateSpec(
            **_common(),
            base_schema_id=metadata.current_schema_id,
            base_spec_id=metadata.default_spec_id,
            changes=(change,),
        )
        return _planned("spec", view, intent, _no_changes, tolerates=EVERY_KIND - {"schema", "spec"})

    def upgrade(self, view: View, choices: Choices) -> Planned | None:
        """The table comes to a newer format, if nobody has brought it to a newer one by then."""
        if view.metadata.format_version == 3:
            return None
        version = choices.number(view.metadata.format_version + 1, 3)

        def changes(model: TableModel, outcome: Committed) -> None:
            assert model.format_version <= version
            model.format_version = version

        intent = UpgradeFormat(**_common(), format_version=version)
        return _planned("upgrade", view, intent, changes, tolerates=EVERY_KIND - {"upgrade"})

    def properties(self, view: View, model: TableModel, choices: Choices) -> Planned:
        """A counter is counted on by who knows what it was, or set whatever it is."""
        old, new = model.properties.get("counter"), str(next(self._numbers))
        members: dict[str, Any] = {"expect": {"counter": old}} if choices.coin() else {}
        if choices.number(0, 3) == 3:
            members = {}
            updates = {"commit.manifest.min-count-to-merge": choices.one_of(("2", "4"))}
        else:
            updates = {"counter": new}

        def changes(model: TableModel, outcome: Committed) -> None:
            if members:
                assert model.properties.get("counter") == old
            model.properties |= updates

        intent = UpdateProperties(**_common(), updates=updates, **members)
        return _planned("properties", view, intent, changes, tolerates=EVERY_KIND - {"properties"})

    def expire(self, view: View, model: TableModel, choices: Choices) -> Planned:
        """Old snapshots go, or some by id."""
        asked = tuple(choices.some_of(list(model.versions))) if model.versions and choices.coin() else ()
        members: dict[str, Any] = {"snapshot_ids": asked} if asked else {"older_than_ms": 2**53, "retain_last": 3}

        def changes(model: TableModel, outcome: Committed) -> None:
            removed = outcome.details.get("removed", ())
            assert not set(removed) & {target for _, target in model.refs.values()}
            assert not outcome.details.get("removed-refs")
            for number in removed:
                del model.versions[number]

        return _planned("expire", view, ExpireSnapshots(**_common(), **members), changes, tolerates=EVERY_KIND)


def _no_changes(model: TableModel, outcome: Committed) -> None:
    pass


EVERY_KIND: Final = ANYTHING | {"refs"}


def _common() -> dict[str, Any]:
    return {"intent_id": new_id(), "table": TABLE}


def _planned(
    kind: str,
    view: View,
    intent: Intent,
    changes: Changes,
    refusals: frozenset[str] = frozenset(),
    *,
    branch: str | None = None,
    tolerates: frozenset[str] = frozenset(),
) -> Planned:
    return Planned(
        intent=intent, kind=kind, branch=branch, head=view.head, mark=view.mark, changes=changes, refusals=refusals,
        tolerates=tolerates,
    )  # fmt: skip


def _pick(kind: str, view: View, intent: Intent, picks: Callable[[TableModel], int]) -> Planned:
    return Planned(
        intent=intent, kind=kind, branch=view.branch, head=view.head, mark=view.mark, picks=picks,
        refusals=PICK_REFUSALS,
    )  # fmt: skip
