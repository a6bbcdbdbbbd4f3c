"""Snapshots that REST clients bring are read before they are taken: what is not right in them is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from firn.model.intent import ContentFile
from firn.model.manifest import ManifestEntry, Status
from firn.model.operations.refs import CreateBranch
from firn.model.operations.rest import RestCommit
from firn.model.operations.upkeep import UpgradeFormat
from firn.model.outcome import Outcome, Rejected
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.rest_writer import Planned, RestWriter, moved, request
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, new_id

Wrong = Callable[["Case"], RestCommit]


class Case:
    """A table with a row, and what a client would append to it."""

    def __init__(self, table: RealRows, client: RestWriter, live: ContentFile, new: ContentFile) -> None:
        self.table, self.client, self.live, self.new = table, client, live, new

    def with_snapshot(self, **changes: Any) -> RestCommit:
        """A right append, of which members of the snapshot are changed."""
        planned = self.client.append(self.new)
        snapshot = msgspec.structs.replace(planned.snapshot, **changes)
        return self.client.commit(Planned(snapshot=snapshot, listed=planned.listed))

    def with_rows(self, change: Callable[[list[Any]], list[Any]]) -> RestCommit:
        """A right append, of which the rows of the list are changed."""
        planned = self.client.append(self.new)
        snapshot = planned.snapshot
        again = self.client.plan(
            change(list(planned.listed)),
            snapshot_id=snapshot.snapshot_id,
            parent=snapshot.parent_snapshot_id,
            added_rows=snapshot.added_rows,
        )
        return self.client.commit(again)

    def with_entries(self, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> RestCommit:
        """A right append, of which the entries of the new manifest are changed."""
        client, snapshot_id, parent = self.client, new_snapshot_id(), self.client.metadata.current_snapshot_id
        entries = change(client.added(self.new, snapshot_id=snapshot_id))
        own = client.manifest(entries, snapshot_id=snapshot_id)
        return client.commit(client.plan([own, *client.parent_list(parent)], snapshot_id=snapshot_id, parent=parent))

    def stored(self, name: str, data: bytes) -> str:
        location = f"{self.client.metadata.location}/metadata/{new_snapshot_id()}-{name}"
        self.client.files.create(location, data)
        return location


_ids = iter(range(9_000_000, 10_000_000))


def new_snapshot_id() -> int:
    return next(_ids)


def first(rows: list[Any], **changes: Any) -> list[Any]:
    """The rows of a list, the first one changed."""
    return [msgspec.structs.replace(rows[0], **changes), *rows[1:]]


def last(rows: list[Any], **changes: Any) -> list[Any]:
    return [*rows[:-1], msgspec.structs.replace(rows[-1], **changes)]


def file_of(entries: Sequence[ManifestEntry], **changes: Any) -> list[ManifestEntry]:
    (entry,) = entries
    return [msgspec.structs.replace(entry, data_file=msgspec.structs.replace(entry.data_file, **changes))]


HOSTILE: dict[str, tuple[Wrong, str, str]] = {
    "list is gone": (
        lambda c: c.with_snapshot(manifest_list=f"{c.client.metadata.location}/metadata/none.avro"),
        "invalid-snapshot", "cannot be read",
    ),
    "list is no Avro": (
        lambda c: c.with_snapshot(manifest_list=c.stored("snap.avro", b"Obj\x01 and no more")),
        "invalid-snapshot", "cannot be read",
    ),
    "list is another table's": (
        lambda c: c.with_snapshot(manifest_list=f"{WAREHOUSE}/db/other/metadata/snap.avro"),
        "location-not-allowed", "outside the table's location",
    ),
    "list climbs out": (
        lambda c: c.with_snapshot(manifest_list=f"{c.client.metadata.location}/../other/snap.avro"),
        "location-not-allowed", "manifest-list",
    ),
    "manifests without a list": (
        lambda c: c.with_snapshot(manifest_list=None, manifests=("memory://wh/m.avro",)),
        "invalid-snapshot", "must name a manifest list",
    ),
    "list is encrypted": (lambda c: c.with_snapshot(key_id="k"), "invalid-snapshot", "is encrypted"),
    "clock is ahead": (lambda c: c.with_snapshot(timestamp_ms=2**50), "invalid-snapshot", "clock"),
    "time is before all": (lambda c: c.with_snapshot(timestamp_ms=1), "invalid-snapshot", "clock"),
    "schema that there is not": (lambda c: c.with_snapshot(schema_id=9), "invalid-snapshot", "no schema 9"),
    "numbers are skipped": (lambda c: c.with_snapshot(sequence_number=99), "invalid-snapshot", "the next one is"),
    "summary speaks for firn": (
        lambda c: c.with_snapshot(summary={"operation": "append", "firn.batch-id": "b"}),
        "invalid-snapshot", "firn.batch-id",
    ),
    "manifest is gone": (
        lambda c: c.with_rows(lambda rows: first(rows, manifest_path=f"{c.client.metadata.location}/metadata/no.avro")),
        "invalid-snapshot", "cannot be read",
    ),
    "manifest is no Avro": (
        lambda c: c.with_rows(lambda rows: first(rows, manifest_path=c.stored("m.avro", b"nothing"))),
        "invalid-snapshot", "cannot be read",
    ),
    "manifest is another table's": (
        lambda c: c.with_rows(lambda rows: first(rows, manifest_path=f"{WAREHOUSE}/db/other/metadata/m.avro")),
        "location-not-allowed", "outside the table's location",
    ),
    "manifest of a spec that there is not": (
        lambda c: c.with_rows(lambda rows: first(rows, partition_spec_id=5)), "unknown-spec", "no partition spec 5",
    ),
    "manifest is listed twice": (
        lambda c: c.with_rows(lambda rows: [*rows, rows[-1]]), "invalid-snapshot", "",
    ),
    "old manifest is younger": (
        lambda c: c.with_rows(lambda rows: last(rows, sequence_number=rows[0].sequence_number)),
        "invalid-snapshot", "with other numbers",
    ),
    "old manifest is another snapshot's": (
        lambda c: c.with_rows(lambda rows: last(rows, added_snapshot_id=5)), "invalid-snapshot", "with other numbers",
    ),
    "manifest from the future": (
        lambda c: c.with_rows(lambda rows: first(rows, sequence_number=77)), "invalid-snapshot", "sequence number 77",
    ),
    "file is live already": (
        lambda c: c.client.commit(c.client.append(c.live)), "duplicate-file", "more than once",
    ),
    "file is named twice": (
        lambda c: c.client.commit(c.client.append(c.new, c.new)), "duplicate-file", "more than once",
    ),
    "file with bounds of no type": (
        lambda c: c.with_entries(lambda entries: file_of(entries, lower_bounds={1: b"abc"})),
        "invalid-snapshot", "lower-bounds",
    ),
    "file in no place": (
        lambda c: c.with_entries(lambda entries: file_of(entries, file_path="memory://wh/../x.parquet")),
        "location-not-allowed", "x.parquet",
    ),
    "file of its own age": (
        lambda c: c.with_entries(lambda entries: [msgspec.structs.replace(
            entries[0], status=Status.EXISTING, sequence_number=50, file_sequence_number=50,
        )]),
        "invalid-snapshot", "",
    ),
}  # fmt: skip


def is_refused(outcome: Outcome, rule: str, text: str) -> bool:
    return isinstance(outcome, Rejected) and outcome.rule == rule and text in outcome.message


@pytest.mark.parametrize("version", [2, 3])
async def test_what_is_not_right_in_a_clients_snapshot_is_refused(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        live, new = table.data((1, "eu")), table.data((2, "eu"))
        await table.commit(table.append(live))
        before = await table.metadata()
        case = Case(table, RestWriter(bench.files, before), live, new)
        intents = {name: wrong(case) for name, (wrong, _, _) in HOSTILE.items()}
        outcomes = await bench.settle(*intents.values())
        told = dict(zip(HOSTILE, outcomes, strict=True))
        wrong = {name: one for name, one in told.items() if not is_refused(one, *HOSTILE[name][1:])}
        assert wrong == {}
        assert await table.metadata() == before
        await bench.commit(case.client.commit(case.client.append(new)))  # on a state that none of them has touched
        assert await table.ids() == [1, 2]
        assert await table.unsound() == ()


ROW_IDS: dict[str, tuple[Wrong, str, str]] = {
    "skipped": (lambda c: c.with_snapshot(first_row_id=50), "invalid-snapshot", "the next row id is 1"),
    "past the end": (lambda c: c.with_snapshot(added_rows=2**63 - 1), "too-many-rows", "row id"),
    "too few announced": (lambda c: c.with_snapshot(added_rows=0), "invalid-snapshot", "the row ids of"),
    "others'": (lambda c: c.with_rows(lambda rows: first(rows, first_row_id=0)), "invalid-snapshot", "the row ids of"),
    "given anew": (lambda c: c.with_rows(lambda rows: last(rows, first_row_id=1)), "invalid-snapshot", ""),
}  # fmt: skip


async def test_row_ids_that_are_not_the_snapshots_own_are_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=3)
        live, new = table.data((1, "eu")), table.data((2, "eu"))
        await table.commit(table.append(live))
        case = Case(table, RestWriter(bench.files, await table.metadata()), live, new)
        for name, (wrong, rule, text) in ROW_IDS.items():
            refused = await bench.refuse(wrong(case))
            assert refused.rule == rule, (name, refused)
            assert text in refused.message, (name, refused.message)
        await bench.commit(case.client.commit(case.client.append(new)))
        assert await table.row_ids() == {1: 0, 2: 1}


async def test_rows_of_a_table_that_came_to_v3_get_their_ids_from_the_client() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "eu"))))
        await bench.commit(UpgradeFormat(intent_id=new_id(), table=TABLE, format_version=3))
        client = RestWriter(bench.files, await table.metadata())
        await bench.commit(client.commit(client.append(table.data((2, "eu")))))
        assert sorted((await table.row_ids()).values()) == [0, 1]
        assert await table.unsound() == ()


async def test_several_snapshots_of_one_request_are_committed_together() -> None:
    """As an overwrite of PyIceberg: a delete, and an append on it."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        old = table.data((1, "eu"))
        await table.commit(table.append(old))
        client = RestWriter(bench.files, await table.metadata())
        parent, number = client.metadata.current_snapshot_id, client.metadata.last_sequence_number + 1
        (entry,) = await table.entries()
        gone = msgspec.structs.replace(entry, status=Status.DELETED, snapshot_id=501)
        cleared = client.manifest([gone], snapshot_id=501)
        delete = client.plan([cleared], snapshot_id=501, parent=parent, operation="delete")
        own = client.manifest(client.added(table.data((2, "eu")), snapshot_id=502), snapshot_id=502)
        added = client.plan([own, *delete.listed], snapshot_id=502, parent=501, number=number + 1)
        intent = client.commit(delete, added)
        outcome = await bench.commit(intent)
        assert (outcome.snapshot_id, outcome.details["snapshot-ids"]) == (502, [501, 502])
        assert await table.ids() == [2]
        assert await table.unsound() == ()
        again = await bench.commit(msgspec.structs.replace(intent, intent_id=new_id()))
        assert again.details["unchanged"]


async def test_a_snapshot_may_be_staged_and_published_later_and_a_branch_made_with_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "eu"))))
        client = RestWriter(bench.files, await table.metadata())
        staged = client.append(table.data((2, "eu")), summary={"wap.id": "w"})
        await bench.commit(client.commit(staged, branch=None))
        assert await table.ids() == [1]
        client = RestWriter(bench.files, await table.metadata())
        publish = request(moved("main", staged.snapshot.snapshot_id), requirements=client.requirements())
        outcome = await bench.commit(publish)
        assert outcome.details["refs"] == ["main"]
        assert await table.ids() == [1, 2]
        client = RestWriter(bench.files, await table.metadata())
        branched = client.append(table.data((3, "eu")), branch="main")
        await bench.commit(client.commit(branched, branch="dev"))
        assert (await table.metadata()).refs["dev"].snapshot_id == branched.snapshot.snapshot_id
        assert await table.ids() == [1, 2]
        assert await table.unsound() == ()


async def test_files_elsewhere_are_listed_as_they_are_named() -> None:
    """As `add_files` and the compatibility kit do. They are nobody's to open or to remove."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = RestWriter(bench.files, await table.metadata())
        elsewhere = msgspec.structs.replace(table.data((1, "eu")), file_path="/path/to/data-a.parquet")
        await bench.commit(client.commit(client.append(elsewhere)))
        (entry,) = await table.entries()
        assert entry.data_file.file_path == "/path/to/data-a.parquet"


async def test_a_branch_that_moved_refuses_what_was_planned_before() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        base = await table.commit(table.append(table.data((1, "eu"))))
        client = RestWriter(bench.files, await table.metadata())
        await table.commit(table.append(table.data((9, "eu"))))
        dropped = client.commit(client.append(table.data((2, "eu"))), branch="main")
        # A removed branch is not one that moved: nothing of it can be replayed.
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="dev", snapshot_id=base))
        gone = [{"type": "assert-ref-snapshot-id", "ref": "nightly", "snapshot-id": base}]
        refused = await bench.refuse(request(*dropped.updates, requirements=gone))
        assert refused.message == f"Requirement failed: branch or tag nightly is missing, expected {base}"
        assert refused.rule == "requirement-failed"
