"""Requests of REST clients whose requirements hold are committed as they were sent, and all others are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.intent import ContentFile
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import RestCommit
from firn.model.outcome import Committed
from firn.model.schema import schema_to_json
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.rest_writer import RestWriter, moved, request
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, append, create

UUID = "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e"
OTHER = "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5f"
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def writer(table: RealRows, metadata: TableMetadata) -> RestWriter:
    return RestWriter(table.bench.files, metadata)


@VERSIONS
async def test_an_append_is_committed_with_the_clients_own_list(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        await table.commit(table.append(table.data((1, "eu"))))
        client = writer(table, await table.metadata())
        planned = client.append(table.data((2, "eu"), (3, "us")))
        outcome = await bench.commit(client.commit(planned))
        metadata = await table.metadata()
        assert metadata.current_snapshot == planned.snapshot
        assert outcome.snapshot_id == planned.snapshot.snapshot_id
        assert outcome.sequence_number == planned.snapshot.sequence_number
        assert outcome.details == {
            "how": "exact", "engine": "spark 4.1", "client": "test-client/1",
            "snapshot-ids": [planned.snapshot.snapshot_id],
        }  # fmt: skip
        await table.commit(table.append(table.data((4, "eu"))))  # goes on from it, without reading it anew
        assert await table.ids() == [1, 2, 3, 4]
        assert await table.unsound() == ()


@VERSIONS
async def test_the_first_snapshot_of_a_table_may_be_a_clients(version: int) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=version)
        client = writer(table, await table.metadata())
        await bench.commit(client.commit(client.append(table.data((1, "eu")))))
        assert await table.ids() == [1]
        assert await table.unsound() == ()


@pytest.mark.parametrize("catalog", ["metastore", "file-system"])
async def test_what_follows_in_the_same_batch_goes_on_from_a_clients_snapshot(catalog: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, catalog=catalog)
        await table.commit(table.append(table.data((1, "eu"))))
        client = writer(table, await table.metadata())
        theirs = table.data((2, "eu"))
        outcomes = await bench.settle(
            client.commit(client.append(theirs)),
            table.append(table.data((3, "eu"))),
            table.delete(theirs),
            table.append(table.data((4, "eu"))),
        )
        assert all(isinstance(outcome, Committed) for outcome in outcomes), outcomes
        client = writer(table, await table.metadata())
        await bench.commit(client.commit(client.append(table.data((5, "eu")))))
        assert await table.ids() == [1, 3, 4, 5]
        assert await table.unsound() == ()


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_swap_whose_answer_is_lost_commits_a_request_once(lost: Any) -> None:
    bench = Workbench()
    async with bench.daemon("a"):
        table = await RealRows.create(bench, version=2)
        for number in range(4):
            client = writer(table, await table.metadata())
            bench.sessions["a"].drop_next_write(lost)
            outcome = await bench.commit(client.commit(client.append(table.data((number, "eu")))))
            assert "unchanged" not in outcome.details
        assert await table.ids() == [0, 1, 2, 3]
        assert await table.unsound() == ()


async def test_the_same_request_again_changes_nothing() -> None:
    """A client makes its list anew on each attempt; the snapshot keeps its id."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = writer(table, await table.metadata())
        file = table.data((1, "eu"))
        first = client.append(file, snapshot_id=77)
        again = client.append(file, snapshot_id=77)
        await bench.commit(client.commit(first))
        before = await table.metadata()
        outcome = await bench.commit(client.commit(again))
        assert (outcome.snapshot_id, outcome.details["unchanged"]) == (77, True)
        assert (await table.metadata()).snapshots == before.snapshots
        assert await table.unsound() == ()


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"type": "assert-create"}, "table already exists"),
        (
            {"type": "assert-table-uuid", "uuid": "5b0f6a52-6e26-4c1e-8a2c-8d6a7f2f9b11"},
            "UUID does not match: expected",
        ),
        ({"type": "assert-view-uuid", "uuid": OTHER}, "cannot be asserted of a table"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}, "branch main has changed: expected id 5"),
        (
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
            "branch main was created",
        ),
        (
            {"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": 5},
            "branch or tag dev is missing",
        ),
        (
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7},
            "last assigned field id changed: expected id 7 != 3",
        ),
        ({"type": "assert-current-schema-id", "current-schema-id": 7}, "current schema changed: expected id 7 != 0"),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 7},
            "last assigned partition id changed: expected id 7 != 999",
        ),
        (
            {"type": "assert-default-spec-id", "default-spec-id": 7},
            "default partition spec changed: expected",
        ),
        (
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 7},
            "default sort order changed: expected id 7 != 0",
        ),
    ],
)
async def test_a_requirement_that_does_not_hold_is_refused_in_the_references_words(
    requirement: dict[str, Any], message: str
) -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(append("a"))
        before = await bench.metadata()
        change = {"action": "set-properties", "updates": {"owner": "me"}}
        refused = await bench.refuse(request(change, requirements=[requirement]))
        assert (refused.rule, refused.hint) == ("requirement-failed", "replan")
        assert refused.message.startswith(f"Requirement failed: {message}")
        assert refused.details == {"engine": "spark 4.1", "client": "test-client/1"}
        assert await bench.metadata() == before


async def test_a_table_is_created_with_its_first_rows() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = writer(table, await table.metadata())
        made = request(*creation(client.metadata), requirements=[{"type": "assert-create"}], table="db.made")
        outcome = await bench.commit(made)
        assert outcome.details["created"]
        metadata = await bench.metadata("db.made")
        assert (metadata.location, metadata.table_uuid) == (f"{WAREHOUSE}/db/made", UUID)
        assert metadata.properties == {"owner": "me"}
        again = await bench.commit(request(*made.updates, requirements=made.requirements, table="db.made"))
        assert again.details["unchanged"]
        other = request(*creation(metadata, uuid=OTHER), requirements=made.requirements, table="db.made")
        assert (await bench.refuse(other)).message == "Requirement failed: table already exists"


def replaced(client: RestWriter, file: ContentFile, snapshot_id: int) -> RestCommit:
    """What Java sends for a table that is put in another's place: nothing is asserted of the branch that it empties."""
    own = client.manifest(client.added(file, snapshot_id=snapshot_id), snapshot_id=snapshot_id)
    planned = client.plan([own], snapshot_id=snapshot_id, parent=None)
    return request(
        {"action": "remove-snapshot-ref", "ref-name": "main"},
        planned.update,
        moved("main", snapshot_id),
        requirements=client.requirements(None),
    )


async def test_of_two_replacements_that_were_planned_together_the_last_is_the_table() -> None:
    """As in Iceberg: its client makes no other snapshot for a second attempt."""
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await table.commit(table.append(table.data((1, "eu"))))
        client = writer(table, await table.metadata())
        for row, snapshot_id in ((2, 71), (3, 72)):
            await bench.commit(replaced(client, table.data((row, "eu")), snapshot_id))
            assert await table.ids() == [row]
        assert (await table.metadata()).last_sequence_number == 2
        await table.commit(table.append(table.data((4, "eu"))))
        assert (await table.metadata()).last_sequence_number == 3
        assert await table.ids() == [3, 4]
        assert await table.unsound() == ()


async def test_a_data_file_may_have_a_relative_name_which_is_listed_as_it_is() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        client = writer(table, await table.metadata())
        named = msgspec.structs.replace(table.data((1, "eu")), file_path="part-1.parquet")
        await bench.commit(client.commit(client.append(named)))
        assert await bench.live("db.events") == ["part-1"]
        for wrong in ("../part-2.parquet", "a\nb.parquet", "part-2/"):
            client = writer(table, await table.metadata())
            refused = await bench.refuse(client.commit(client.append(msgspec.structs.replace(named, file_path=wrong))))
            assert refused.rule == "location-not-allowed"


def creation(like: TableMetadata, *, uuid: str = UUID, location: str = f"{WAREHOUSE}/db/made") -> list[dict[str, Any]]:
    return [
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": schema_to_json(like.current_schema)},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"owner": "me"}},
    ]
