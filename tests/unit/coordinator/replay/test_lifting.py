"""Requests of REST clients whose branch has moved are replayed on it, as the operations that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from firn.model.manifest import Status
from firn.model.operations.upkeep import UpdateProperties
from tests.unit.coordinator.changing_writer import ChangingWriter
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.rest_writer import Planned, moved, request
from tests.unit.coordinator.workbench import Workbench, new_id

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])
ROW_LEVEL = pytest.mark.parametrize("version", [2, 3])
SNAPSHOT = {f"write.{name}.isolation-level": "snapshot" for name in ("delete", "update", "merge")}


async def client_of(table: RealRows) -> ChangingWriter:
    """A client that has read the table as it is now."""
    return ChangingWriter(table.bench.files, await table.metadata())


async def require_sound(table: RealRows, *ids: int) -> None:
    assert await table.ids() == sorted(ids)
    assert await table.unsound() == ()


@VERSIONS
async def test_appends_of_two_clients_that_read_the_same_table_are_both_committed(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        await table.commit(table.append(table.data((1, "eu"))))
        first, second = await client_of(table), await client_of(table)
        one, two = first.append(table.data((2, "eu"))), second.append(table.data((3, "eu")), summary={"engine-x": "y"})
        await bench.commit(first.commit(one))
        outcome = await bench.commit(second.commit(two))
        metadata = await table.metadata()
        head = metadata.current_snapshot
        assert head is not None
        assert head.snapshot_id == outcome.snapshot_id == two.snapshot.snapshot_id
        assert head.parent_snapshot_id == one.snapshot.snapshot_id
        assert outcome.details["how"] == "lifted"
        assert outcome.details["as"] == ["append"]
        assert head.summary is not None
        assert (head.summary["engine-x"], head.summary["added-records"]) == ("y", "1")
        await require_sound(table, 1, 2, 3)
        if version == 3:
            assert len(set((await table.row_ids()).values())) == 3


@ROW_LEVEL
async def test_a_manifest_of_an_append_is_listed_as_it_is(version: int) -> None:
    """Java deletes those of its manifests that the list of its snapshot does not name."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        client = await client_of(table)
        planned = client.append(table.data((1, "eu")))
        await table.commit(table.append(table.data((2, "eu"))))
        await bench.commit(client.commit(planned))
        listed = [row.manifest_path for row in (await client_of(table)).parent_list(planned.snapshot.snapshot_id)]
        assert planned.listed[0].manifest_path in listed
        await require_sound(table, 1, 2)


@VERSIONS
async def test_the_stale_entries_of_a_merged_manifest_bring_nothing_back(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        a, b = table.data((1, "eu")), table.data((2, "eu"))
        await table.commit(table.append(a))
        await table.commit(table.append(b))
        client = await client_of(table)
        planned = client.change(table.data((3, "eu")), merged=True, operation="append")
        await table.commit(table.delete(a))
        await bench.commit(client.commit(planned))
        await require_sound(table, 2, 3)
        paths = {row.manifest_path for row in (await client_of(table)).parent_list(planned.snapshot.snapshot_id)}
        assert planned.listed[0].manifest_path not in paths


Case = Callable[[RealRows, ChangingWriter, dict[str, Any]], Planned]
"""A client's change of files a (rows 1, 2), b (row 3) and c (row 4), which it has read."""


def overwrites(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(table.data((20, "eu")), removed=[files["a"]])


def deletes(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(removed=[files["a"]], operation="delete")


def deletes_rows(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    version = client.metadata.format_version
    a = files["a"]
    delete = table.vector(a, 0) if version > 2 else table.positions({a.file_path: [0]}, like=a)
    return client.change(deletes=[delete], operation="delete")


def updates_rows(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    version = client.metadata.format_version
    a = files["a"]
    delete = table.vector(a, 0) if version > 2 else table.positions({a.file_path: [0]}, like=a)
    return client.change(table.data((21, "eu")), deletes=[delete])


def compacts(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(
        table.data((1, "eu"), (2, "eu"), (3, "us")), removed=[files["a"], files["b"]], operation="replace"
    )


def replaces_partitions(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(table.data((22, "eu")), removed=[*files.values()], summary={"replace-partitions": "true"})


def upserts(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(table.data((1, "new")), deletes=[table.equality(1)])


def merges_manifests(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(merged=True, operation="replace")


def says_nothing(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(operation="append")


def overwrites_nothing(table: RealRows, client: ChangingWriter, files: dict[str, Any]) -> Planned:
    return client.change(table.data((23, "eu")))


CHANGES: list[tuple[Case, str, list[int], bool]] = [
    (overwrites, "overwrite", [20, 3, 4], False),
    (deletes, "overwrite", [3, 4], False),
    (deletes_rows, "row-delta", [2, 3, 4], False),
    (updates_rows, "row-delta", [2, 21, 3, 4], False),
    (compacts, "replace", [1, 2, 3, 4], True),
    (replaces_partitions, "replace-partitions", [22], False),
    (upserts, "row-delta", [1, 2, 3, 4], True),
    (merges_manifests, "rewrite-manifests", [1, 2, 3, 4], True),
    (says_nothing, "append", [1, 2, 3, 4], True),
    (overwrites_nothing, "append", [1, 2, 3, 4, 23], False),
]
"""Each with what it stands for, the rows after it, and whether rows that came since are no matter."""

EACH = pytest.mark.parametrize(
    ("change", "stands_for", "ids", "on_rows"), CHANGES, ids=[c[0].__name__ for c in CHANGES]
)


async def three_files(table: RealRows) -> dict[str, Any]:
    files = {
        "a": table.data((1, "eu"), (2, "eu")), "b": table.data((3, "us")), "c": table.data((4, "us")),
    }  # fmt: skip
    for file in files.values():
        await table.commit(table.append(file))
    return files


@ROW_LEVEL
@EACH
async def test_a_change_is_lifted_over_what_brought_no_rows(
    change: Case, stands_for: str, ids: list[int], on_rows: bool, version: int
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        files = await three_files(table)
        client = await client_of(table)
        planned = change(table, client, files)
        gone = await client_of(table)
        nothing = gone.change(operation="delete", merged=False)
        await bench.commit(gone.commit(nothing))
        outcome = await bench.commit(client.commit(planned))
        assert outcome.details["as"] == [stands_for]
        assert (await table.snapshot()) is not None
        assert outcome.snapshot_id == planned.snapshot.snapshot_id
        await require_sound(table, *ids)
        await table.commit(table.append(table.data((99, "eu"))))
        await require_sound(table, *ids, 99)


@ROW_LEVEL
@EACH
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
async def test_rows_that_came_are_in_the_way_of_what_may_have_read_them(
    change: Case, stands_for: str, ids: list[int], on_rows: bool, version: int, isolation: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        properties = SNAPSHOT if isolation == "snapshot" else {}
        table = await RealRows.create(bench, version=version, properties=properties)
        files = await three_files(table)
        client = await client_of(table)
        planned = change(table, client, files)
        await table.commit(table.append(table.data((5, "eu"))))
        if on_rows or isolation == "snapshot":
            await bench.commit(client.commit(planned))
            came = [] if change is replaces_partitions else [5]  # as a client's retry would replace it
            await require_sound(table, *ids, *came)
            return
        refused = await table.refused(client.commit(planned))
        assert (refused.rule, refused.details["not-lifted"]) == ("requirement-failed", "rows-came")
        assert refused.message.startswith("Requirement failed: branch main has changed: expected id")
        await require_sound(table, 1, 2, 3, 4, 5)


@ROW_LEVEL
@pytest.mark.parametrize("change", [overwrites, deletes, deletes_rows, updates_rows, compacts])
async def test_a_file_that_went_is_not_changed(change: Case, version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version, properties=SNAPSHOT)
        files = await three_files(table)
        client = await client_of(table)
        planned = change(table, client, files)
        await table.commit(table.delete(files["a"]))
        refused = await table.refused(client.commit(planned))
        assert refused.details["not-lifted"] == "missing-file"
        await require_sound(table, 3, 4)


@pytest.mark.parametrize(
    ("mode", "summary", "members", "rule"),
    [
        ("always", {}, {}, None),
        ("blind-only", {}, {}, "rows-came"),
        ("blind-only", {}, {"blind": True}, None),
        ("blind-only", {"flink.job-id": "1"}, {}, None),
        ("blind-only", {"kafka.connect.commit-id": "1"}, {}, None),
        ("always", {"spark.merge-into.num-target-rows-inserted": "1"}, {}, "merge-rows-came"),
    ],
)
async def test_appends_on_rows_that_came(
    mode: str, summary: dict[str, str], members: dict[str, Any], rule: str | None
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, properties={"firn.rest.append": mode})
        client = await client_of(table)
        planned = client.append(table.data((1, "eu")), summary=summary)
        await table.commit(table.append(table.data((2, "eu"))))
        if rule is None:
            await bench.commit(client.commit(planned, **members))
            await require_sound(table, 1, 2)
        else:
            refused = await table.refused(client.commit(planned, **members))
            assert refused.details["not-lifted"] == rule


@pytest.mark.parametrize(
    ("first", "second", "properties", "lifted"),
    [
        ({"flink.max-committed-checkpoint-id": "1"}, {"flink.max-committed-checkpoint-id": "2"}, {}, False),
        ({"kafka.connect.offsets.x": "1"}, {"kafka.connect.offsets.x": "1"}, {}, False),
        ({"kafka.connect.offsets.x": "1"}, {"kafka.connect.offsets.y": "1"}, {}, True),
        ({"spark.app.id": "1"}, {"spark.app.id": "1"}, {}, True),
        ({"trino_query_id": "1"}, {"trino_query_id": "2"}, {}, True),
        ({"team": "1"}, {"team": "1"}, {}, False),
        ({"team": "1"}, {"team": "1"}, {"firn.rest.harmless-keys": "owner, team"}, True),
    ],
)
async def test_a_summary_that_may_say_how_far_a_source_was_read(
    first: dict[str, str], second: dict[str, str], properties: dict[str, str], lifted: bool
) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, properties=properties)
        one, two = await client_of(table), await client_of(table)
        before, after = (
            one.append(table.data((1, "eu")), summary=first),
            two.append(table.data((2, "eu")), summary=second),
        )
        await bench.commit(one.commit(before))
        if lifted:
            await bench.commit(two.commit(after))
            await require_sound(table, 1, 2)
        else:
            refused = await table.refused(two.commit(after))
            assert refused.details["not-lifted"] == "watermark"
            assert refused.conflicting_snapshot_id == before.snapshot.snapshot_id


@ROW_LEVEL
async def test_several_snapshots_are_lifted_all_or_none(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        files = await three_files(table)
        client = await client_of(table)
        first = client.change(removed=[files["a"]], operation="delete")
        second = client.change(table.data((30, "eu")), on=first, operation="append")
        gone = await client_of(table)
        await bench.commit(gone.commit(gone.change(operation="delete")))
        outcome = await bench.commit(client.commit(first, second))
        assert outcome.details["as"] == ["overwrite", "append"]
        ids = [first.snapshot.snapshot_id, second.snapshot.snapshot_id]
        assert [one.snapshot_id for one in (await table.metadata()).snapshots][-2:] == ids
        await require_sound(table, 3, 4, 30)
        client = await client_of(table)
        first = client.change(table.data((31, "eu")), operation="append")
        second = client.change(removed=[files["b"]], on=first, operation="delete")
        await table.commit(table.append(table.data((32, "eu"))))
        refused = await table.refused(client.commit(first, second))
        assert refused.details["not-lifted"] == "rows-came"
        await table.commit(table.append(table.data((33, "eu"))))
        await require_sound(table, 3, 4, 30, 32, 33)


async def test_another_branch_that_took_the_number_is_no_conflict() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "eu"))))
        client = await client_of(table)
        planned = client.append(table.data((2, "eu")))
        await bench.commit(table.append(table.data((3, "eu")), stage=True))
        outcome = await bench.commit(client.commit(planned))
        assert outcome.details["how"] == "lifted"
        await require_sound(table, 1, 2)


async def test_properties_of_the_same_request_are_set_on_the_fresh_table() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = await client_of(table)
        planned = client.append(table.data((1, "eu")))
        await bench.commit(UpdateProperties(intent_id=new_id(), table="db.events", updates={"a": "1"}))
        await table.commit(table.append(table.data((2, "eu"))))
        change = {"action": "set-properties", "updates": {"b": "2"}}
        move = moved("main", planned.snapshot.snapshot_id)
        await bench.commit(request(change, planned.update, move, requirements=client.requirements()))
        properties = (await table.metadata()).properties
        assert (properties["a"], properties["b"]) == ("1", "2")
        await require_sound(table, 1, 2)


def cut(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A list that lost a manifest."""
    planned = client.append(table.data((9, "eu")))
    return client.plan(planned.listed[:-1], snapshot_id=9_000_001, parent=planned.snapshot.parent_snapshot_id)


def again(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A file of a manifest that is replaced, listed as added."""
    planned = client.change(merged=True, operation="append")
    entries = [
        msgspec.structs.replace(
            one, status=Status.ADDED, snapshot_id=9_000_002, sequence_number=None, file_sequence_number=None
        )
        for one in client.entries(planned.listed[0])
    ]
    row = client.manifest(entries, snapshot_id=9_000_002)
    return client.plan([row], snapshot_id=9_000_002, parent=planned.snapshot.parent_snapshot_id)


def others(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A new manifest whose files another snapshot is said to have added."""
    row = client.manifest(client.added(table.data((9, "eu")), snapshot_id=5), snapshot_id=5)
    row = msgspec.structs.replace(row, added_snapshot_id=9_000_003)
    parent = client.metadata.current_snapshot_id
    return client.plan([row, *client.parent_list(parent)], snapshot_id=9_000_003, parent=parent)


def existing(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A new file that is listed as existing."""
    entries = [
        msgspec.structs.replace(one, status=Status.EXISTING, sequence_number=1, file_sequence_number=1)
        for one in client.added(table.data((9, "eu")), snapshot_id=9_000_004)
    ]
    row = client.manifest(entries, snapshot_id=9_000_004)
    parent = client.metadata.current_snapshot_id
    return client.plan([row, *client.parent_list(parent)], snapshot_id=9_000_004, parent=parent)


def tombstone(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A tombstone of a file that is listed on."""
    entries = [
        msgspec.structs.replace(one, status=Status.DELETED, sequence_number=1, file_sequence_number=1)
        for one in client.added(files["a"], snapshot_id=9_000_005)
    ]
    row = client.manifest(entries, snapshot_id=9_000_005)
    parent = client.metadata.current_snapshot_id
    return client.plan([row, *client.parent_list(parent)], snapshot_id=9_000_005, parent=parent)


def missing(client: ChangingWriter, files: dict[str, Any], table: RealRows) -> Planned:
    """A list that is not there."""
    planned = client.append(table.data((9, "eu")))
    nowhere = f"{client.metadata.location}/metadata/nowhere.avro"
    return msgspec.structs.replace(planned, snapshot=msgspec.structs.replace(planned.snapshot, manifest_list=nowhere))


@pytest.mark.parametrize("lie", [cut, again, others, existing, tombstone, missing])
async def test_a_list_that_contradicts_itself_is_refused(lie: Any) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, properties=SNAPSHOT)
        files = await three_files(table)
        client = await client_of(table)
        planned = lie(client, files, table)
        await table.commit(table.append(table.data((5, "eu"))))
        refused = await table.refused(client.commit(planned))
        assert refused.details["not-lifted"] == "list-contradicts"
        await require_sound(table, 1, 2, 3, 4, 5)


async def test_a_file_that_was_removed_since_is_not_added_again() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, properties=SNAPSHOT)
        files = await three_files(table)
        client = await client_of(table)
        planned = client.append(files["a"])
        live = await client_of(table)
        await table.commit(table.append(table.data((5, "eu"))))
        refused = await table.refused(live.commit(live.append(files["a"])))
        assert refused.details["not-lifted"] == "duplicate-file"
        await table.commit(table.delete(files["a"]))
        refused = await table.refused(client.commit(planned))
        assert refused.details["not-lifted"] == "list-contradicts"
        await require_sound(table, 3, 4, 5)


async def test_a_parent_that_is_not_of_the_branch_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "eu"))))
        client = await client_of(table)
        planned = client.plan(
            client.parent_list(client.metadata.current_snapshot_id), snapshot_id=9_000_006, parent=123_456
        )
        wrong = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 123_456}
        refused = await table.refused(request(planned.update, moved("main", 9_000_006), requirements=[wrong]))
        assert refused.details["not-lifted"] == "unknown-base"
