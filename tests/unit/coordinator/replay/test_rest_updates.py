"""Every update of a REST client does what it says, or is refused by the rule of firn's own operations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent import DropTable, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.operations.refs import CreateBranch, CreateTag
from firn.model.operations.rest import RestCommit
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import ExpireSnapshots, UpdateProperties
from firn.model.outcome import Committed, Rejected
from firn.model.rest_apply import apply_updates
from firn.model.rest_updates import _READERS, updates_from_json
from firn.model.table_properties import DROPPED_SNAPSHOTS
from tests.strategies.statistics_files import write_partition_statistics, write_statistics
from tests.unit.coordinator.replay.real_rows import RealRows
from tests.unit.coordinator.rest_writer import Json, RestWriter, moved, request
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, append, create, new_id

SPEC = {"spec-id": 1, "fields": [{"name": "r", "transform": "identity", "source-id": 2, "field-id": 1000}]}
ORDER = {"order-id": 1, "fields": [
    {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"},
]}  # fmt: skip
WIDER = {"type": "struct", "schema-id": 1, "fields": [
    {"id": 1, "name": "id", "type": "long", "required": True},
    {"id": 2, "name": "region", "type": "string", "required": False},
    {"id": 3, "name": "note", "type": "string", "required": False},
]}  # fmt: skip


class Prepared:
    """A table with two snapshots, a branch, a tag, statistics and a second schema and spec."""

    def __init__(self, bench: Workbench, table: RealRows) -> None:
        self.bench, self.table = bench, table
        self.first = self.second = 0
        self.statistics: Json = {}
        self.partitions: Json = {}

    @classmethod
    async def make(cls, bench: Workbench) -> Prepared:
        made = cls(bench, await RealRows.create(bench, version=2))
        table = made.table
        made.first = await table.commit(table.append(table.data((1, "eu"))))
        made.second = await table.commit(table.append(table.data((2, "eu"))))
        await bench.commit(CreateBranch(intent_id=new_id(), table=TABLE, ref_name="dev", snapshot_id=made.second))
        await bench.commit(CreateTag(intent_id=new_id(), table=TABLE, ref_name="v2", snapshot_id=made.second))
        location = table.created.location
        made.statistics = write_statistics(bench.files, f"{location}/metadata/1.puffin", made.second)
        made.partitions = write_partition_statistics(bench.files, f"{location}/metadata/1.parquet", made.second)
        return made

    def cases(self) -> dict[str, list[Json]]:
        """For each action of the specification, updates that it stands in."""
        uuid, location = self.table.created.table_uuid, self.table.created.location
        return {
            "assign-uuid": [{"action": "assign-uuid", "uuid": uuid}],
            "upgrade-format-version": [{"action": "upgrade-format-version", "format-version": 3}],
            "add-schema": [{"action": "add-schema", "schema": WIDER}],
            "set-current-schema": [
                {"action": "add-schema", "schema": WIDER}, {"action": "set-current-schema", "schema-id": -1},
                {"action": "set-current-schema", "schema-id": 0},
            ],
            "remove-schemas": [
                {"action": "add-schema", "schema": WIDER}, {"action": "remove-schemas", "schema-ids": [1]},
            ],
            "add-spec": [{"action": "add-spec", "spec": SPEC}],
            "set-default-spec": [
                {"action": "add-spec", "spec": SPEC}, {"action": "set-default-spec", "spec-id": -1},
                {"action": "set-default-spec", "spec-id": 0},
            ],
            "remove-partition-specs": [
                {"action": "add-spec", "spec": SPEC}, {"action": "remove-partition-specs", "spec-ids": [1]},
            ],
            "add-sort-order": [{"action": "add-sort-order", "sort-order": ORDER}],
            "set-default-sort-order": [
                {"action": "add-sort-order", "sort-order": ORDER},
                {"action": "set-default-sort-order", "sort-order-id": -1},
            ],
            "set-snapshot-ref": [
                moved("dev", self.first), moved("v1", self.first, type="tag"), moved("main", self.first),
            ],
            "remove-snapshot-ref": [
                {"action": "remove-snapshot-ref", "ref-name": "dev"},
                {"action": "remove-snapshot-ref", "ref-name": "v2"},
            ],
            "remove-snapshots": [{"action": "remove-snapshots", "snapshot-ids": [self.first, 5]}],
            "set-location": [{"action": "set-location", "location": f"{location}-moved"}],
            "set-properties": [{"action": "set-properties", "updates": {"owner": "me", "read.split.target-size": "5"}}],
            "remove-properties": [{"action": "remove-properties", "removals": ["owner", "never.set"]}],
            "set-statistics": [{"action": "set-statistics", "statistics": self.statistics}],
            "remove-statistics": [{"action": "remove-statistics", "snapshot-id": self.second}],
            "set-partition-statistics": [
                {"action": "set-partition-statistics", "partition-statistics": self.partitions},
            ],
            "remove-partition-statistics": [{"action": "remove-partition-statistics", "snapshot-id": self.second}],
            "add-encryption-key": [
                {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "AAAA"}},
            ],
            "remove-encryption-key": [{"action": "remove-encryption-key", "key-id": "k"}],
        }  # fmt: skip


async def test_every_update_makes_of_the_table_what_the_specification_says() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = await Prepared.make(bench)
        cases = made.cases()
        assert set(cases) == set(_READERS) - {"add-snapshot"}
        last = (  # nothing is as before behind these
            "set-location", "upgrade-format-version", "add-encryption-key", "remove-encryption-key", "remove-snapshots",
        )  # fmt: skip
        for action in [*(one for one in cases if one not in last), *last]:
            before = await made.table.metadata()
            outcome = await bench.commit(request(*cases[action], requirements=requirements(before.table_uuid)))
            after = await made.table.metadata()
            expected = apply_updates(before, updates_from_json(cases[action]), now_ms=after.last_updated_ms)
            assert compared(after) == compared(expected), action
            assert outcome.details["how"] == "exact"
            if action in {"set-snapshot-ref", "remove-snapshot-ref"}:
                back = [moved("dev", made.second), moved("v2", made.second, type="tag"), moved("main", made.second)]
                await bench.commit(request(*back, {"action": "remove-snapshot-ref", "ref-name": "v1"}))
        assert await made.table.ids() == [1, 2]
        assert await made.table.unsound() == ()


def requirements(uuid: str) -> list[Json]:
    return [{"type": "assert-table-uuid", "uuid": uuid}]


def compared(metadata: Any) -> Any:
    """Metadata without what every commit changes, and what only firn keeps."""
    properties = {name: value for name, value in metadata.properties.items() if name != DROPPED_SNAPSHOTS}
    return msgspec.structs.replace(metadata, metadata_log=(), last_updated_ms=0, snapshot_log=(), properties=properties)


REFUSED: list[tuple[Json, str, str]] = [
    ({"action": "assign-uuid", "uuid": "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e"}, "invalid-update", "reassigned"),
    ({"action": "upgrade-format-version", "format-version": 1}, "invalid-update", "cannot downgrade"),
    ({"action": "upgrade-format-version", "format-version": 9}, "invalid-update", "v9"),
    ({"action": "set-current-schema", "schema-id": 9}, "invalid-update", "9"),
    ({"action": "set-default-spec", "spec-id": 9}, "invalid-update", "9"),
    ({"action": "set-default-sort-order", "sort-order-id": 9}, "invalid-update", "9"),
    (moved("main", 9), "invalid-update", "unknown snapshot"),
    (moved("a\tb", 9), "invalid-ref", ""),
    ({"action": "set-location", "location": "memory://elsewhere/t"}, "location-not-allowed", "is in none of"),
    ({"action": "set-location", "location": f"{WAREHOUSE}/db/other"}, "location-taken", "db.other"),
    (
        {"action": "set-properties", "updates": {"write.data.path": f"{WAREHOUSE}/db/other/data"}},
        "location-taken", "db.other",
    ),
    (
        {"action": "set-properties", "updates": {"write.metadata.path": "memory://elsewhere"}},
        "location-not-allowed", "write.metadata.path",
    ),
    ({"action": "set-properties", "updates": {"firn.journal-head": "x"}}, "reserved-property", "firn.journal-head"),
    ({"action": "set-properties", "updates": {"encryption.key-id": "x"}}, "reserved-property", "encryption.key-id"),
    ({"action": "set-properties", "updates": {"uuid": "x"}}, "invalid-update", "reserved"),
    ({"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "x"}}, "invalid-update", "x"),
    ({"action": "set-properties", "updates": {"schema.name-mapping.default": "{"}}, "invalid-property", "name-mapping"),
]  # fmt: skip


async def test_what_no_table_may_have_done_to_it_is_refused_whole() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create("db.other"))
        made = await Prepared.make(bench)
        before = await made.table.metadata()
        cases = [
            *REFUSED,
            (
                {"action": "set-statistics", "statistics": {**made.statistics, "file-size-in-bytes": 1}},
                "not-a-statistics-file", "bytes",
            ),
            (
                {"action": "set-statistics", "statistics": {**made.statistics, "snapshot-id": 9}},
                "invalid-update", "9",
            ),
            ({"action": "remove-snapshots", "snapshot-ids": [made.second]}, "invalid-update", "still referenced"),
        ]  # fmt: skip
        good = {"action": "set-properties", "updates": {"owner": "nobody"}}
        outcomes = await bench.settle(*(request(good, update) for update, _, _ in cases))
        wrong = [
            (case, outcome)
            for case, outcome in zip(cases, outcomes, strict=True)
            if not isinstance(outcome, Rejected) or outcome.rule != case[1] or case[2] not in outcome.message
        ]
        assert wrong == []
        assert await made.table.metadata() == before


async def test_statistics_elsewhere_are_attached_as_they_are_named() -> None:
    """PyIceberg's own tests do so. What is in no place of the table is never opened and never removed."""
    bench = Workbench()
    async with bench.daemon():
        made = await Prepared.make(bench)
        elsewhere = {**made.statistics, "statistics-path": "s3://bucket/warehouse/stats.puffin"}
        await bench.commit(request({"action": "set-statistics", "statistics": elsewhere}))
        assert (await made.table.metadata()).statistics == (elsewhere,)


async def test_a_snapshot_that_waiting_work_needs_is_not_removed() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = await Prepared.make(bench)
        table = made.table
        remove = request({"action": "remove-snapshots", "snapshot-ids": [made.first]})
        waits = table.overwrite(made.first, [table.data((7, "eu"))], isolation="snapshot")
        outcomes = await bench.settle(remove, waits)
        assert isinstance(outcomes[0], Rejected)
        assert (outcomes[0].rule, outcomes[0].hint) == ("snapshot-in-use", "retry")
        assert waits.intent_id in outcomes[0].message
        assert isinstance(outcomes[1], Committed)
        removed = await bench.commit(request({"action": "remove-snapshots", "snapshot-ids": [made.first]}))
        assert removed.details["removed"] == [made.first]


async def test_an_expiry_leaves_a_waiting_request_its_base() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = await Prepared.make(bench)
        client = RestWriter(bench.files, await made.table.metadata())
        waits = client.commit(client.append(made.table.data((3, "eu"))), branch="dev")
        await bench.commit(append("later"))
        expire = ExpireSnapshots(intent_id=new_id(), table=TABLE, older_than_ms=2**62, retain_last=1)
        outcomes = await bench.settle(expire, waits)
        assert isinstance(outcomes[0], Committed)
        assert [number for number, _ in outcomes[0].details["kept"]].count(made.second) == 1


async def test_snapshots_are_not_removed_from_a_table_whose_files_others_share() -> None:
    bench = Workbench()
    async with bench.daemon():
        made = await Prepared.make(bench)
        await bench.commit(UpdateProperties(intent_id=new_id(), table=TABLE, updates={"gc.enabled": "false"}))
        remove = request({"action": "remove-snapshots", "snapshot-ids": [made.first]})
        assert (await bench.refuse(remove)).rule == "gc-disabled"


async def test_a_history_is_limited_with_the_commits_of_clients() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2, properties={"firn.snapshots-max": "4"})
        for number in range(20):
            client = RestWriter(bench.files, await table.metadata())
            await bench.commit(client.commit(client.append(table.data((number, "eu")))))
        metadata = await table.metadata()
        assert len(metadata.snapshots) < 20
        assert await table.ids() == list(range(20))
        assert await table.unsound() == ()


async def test_who_changed_what_no_snapshot_tells_is_named_to_whom_it_refuses() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = request({"action": "set-properties", "updates": {"owner": "me"}}, writer="spark-7")
        outcome = await bench.commit(first)
        assert outcome.details["properties"] == ["owner"]
        late = UpdateProperties(intent_id=new_id(), table=TABLE, updates={"owner": "you"}, expect={"owner": None})
        refused = await bench.refuse(late)
        assert (refused.conflicting_intent_id, refused.conflicting_operation) == (first.intent_id, "rest-commit")


# ---------------------------------------------------------------------------------------------------------------------
# Names and transactions


async def test_a_name_that_is_no_table_or_another_one_is_refused() -> None:
    bench = Workbench()
    change = {"action": "set-properties", "updates": {"owner": "me"}}
    async with bench.daemon():
        await bench.commit(create())
        assert (await bench.refuse(request(change, table="db.none"))).rule == "unknown-table"
        other = request(change, table_uuid="0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e")
        assert (await bench.refuse(other)).rule == "table-uuid-mismatch"
        await bench.commit(DropTable(intent_id=new_id(), table=TABLE))
        assert (await bench.refuse(request(change))).rule == "unknown-table"


def together(*members: RestCommit) -> Transaction:
    intent_id = new_id()
    own = tuple(msgspec.structs.replace(one, intent_id=intent_id) for one in members)
    return Transaction(intent_id=intent_id, table=members[0].table, members=own)


async def test_requests_on_several_tables_are_committed_together_or_not_at_all() -> None:
    bench = Workbench()
    async with bench.daemon():
        table = await RealRows.create(bench, version=2)
        await bench.commit(create("db.other"))
        client = RestWriter(bench.files, await table.metadata())
        note = request({"action": "set-properties", "updates": {"seen": "1"}}, table="db.other")
        wrong = msgspec.structs.replace(note, requirements=({"type": "assert-default-spec-id", "default-spec-id": 5},))
        appended = client.commit(client.append(table.data((1, "eu"))))
        refused = await bench.refuse(together(appended, wrong))
        assert (refused.rule, refused.details["member"], refused.details["table"]) == (
            "requirement-failed", 1, "db.other",
        )  # fmt: skip
        assert refused.message.endswith("Requirement failed: default partition spec changed: expected id 5 != 0")
        assert await table.ids() == []
        outcome = await bench.commit(together(appended, note))
        assert [member["details"]["how"] for member in outcome.details["members"]] == ["exact", "exact"]
        assert await table.ids() == [1]
        assert (await bench.metadata("db.other")).properties["seen"] == "1"
        expiring = request({"action": "remove-snapshots", "snapshot-ids": [1]})
        assert (await bench.refuse(together(appended, expiring))).rule == "invalid-transaction"
        assert await table.unsound() == ()


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"updates": ({"action": "grow"},)}, "updates[0].action"),
        ({"updates": ({"action": "set-location"},)}, "updates[0].location"),
        ({"updates": ({"action": "set-properties", "updates": {"a": 1}},)}, "updates[0].updates.a"),
        ({"updates": ({"action": "add-snapshot", "snapshot": {}},)}, "updates[0].snapshot.manifest-list"),
        ({"updates": ({"action": "add-view-version", "view-version": {}},)}, "updates[0].action"),
        ({"updates": ({},)}, "updates[0].action"),
        ({"requirements": ({"type": "assert-luck"},)}, "requirements[0].type"),
        ({"requirements": ({"type": "assert-create", "more": 1},)}, "requirements[0].more"),
        ({"requirements": ({"type": "assert-ref-snapshot-id", "ref": "main"},)}, "requirements[0].snapshot-id"),
        ({"summary": {"a": "b"}}, "summary"),
    ],
)
def test_a_request_that_is_none_is_refused_at_the_door(members: dict[str, Any], where: str) -> None:
    payload = encode_intent(RestCommit(intent_id=new_id(), table=TABLE, **members))
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(payload, limits=Limits())
    assert (refused.value.rule, refused.value.where or "") == ("invalid-field", where)


def test_a_request_names_its_branch_and_its_base() -> None:
    intent = request(moved("dev", 5), requirements=[
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 3},
        {"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": 4},
    ])  # fmt: skip
    assert (intent.branch, intent.base_snapshot_id) == ("dev", 4)
