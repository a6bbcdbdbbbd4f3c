"""Every operation has a method on every client, which makes the intent that the daemon understands."""

from __future__ import annotations

import datetime as dt
import inspect
import pickle
from typing import Any

import msgspec
import pytest

from firn import AsyncClient, Client, Intents, TableView
from firn.coordinator.client.intents import sealed
from firn.coordinator.client.operations import Operations
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.intent import OPERATIONS, DeleteFileRef, Intent, WrittenManifest, encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.operations.layout import UpdateSchema, UpdateSortOrder, UpdateSpec
from firn.model.outcome import Committed
from firn.model.types import LONG
from tests.unit.coordinator.workbench import SCHEMA, TABLE, Workbench, content_file, path_of

MAKE = Intents()
FILE = content_file("a")
MANIFEST = WrittenManifest(
    manifest_path="memory://wh/m.avro", manifest_length=1, partition_spec_id=0, files_count=1, rows_count=1
)
WHEN = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
WHEN_MS = 1_795_219_200_000

MADE: dict[str, Intent] = {
    "append": MAKE.append(TABLE, [FILE], manifests=[MANIFEST], branch="b", stage=True, wap_id="w", base_snapshot_id=1),
    "delete-files": MAKE.delete_files(TABLE, [FILE, "memory://wh/b"]),
    "delete-where": MAKE.delete_where(TABLE, "id > 5 and name in ('a', 'b')", case_sensitive=False),
    "replace": MAKE.replace(
        TABLE, removed=["memory://wh/a"], added=[FILE], base_snapshot_id=1, data_sequence_number=3,
        removed_deletes=[DeleteFileRef(file_path="memory://wh/d")], priority="maintenance",
    ),
    "rewrite-manifests": MAKE.rewrite_manifests(TABLE, removed=["memory://wh/m0"], added=[MANIFEST]),
    "overwrite": MAKE.overwrite(
        TABLE, base_snapshot_id=None, row_filter=True, added=[FILE], conflict_filter="id = 1", isolation="snapshot"
    ),
    "replace-partitions": MAKE.replace_partitions(TABLE, [FILE], base_snapshot_id=2, validate="none"),
    "row-delta": MAKE.row_delta(TABLE, added=[FILE], referenced=[FILE], removed=[FILE], base_snapshot_id=4),
    "create-table": MAKE.create_table(TABLE, SCHEMA, properties={"a": "b"}, format_version=3, catalog="file-system"),
    "register-table": MAKE.register_table(TABLE, location="memory://wh/t"),
    "drop-table": MAKE.drop_table(TABLE, table_uuid="u"),
    "create-branch": MAKE.create_branch(TABLE, "b", snapshot_id=1, max_snapshot_age_ms=5, min_snapshots_to_keep=1),
    "create-tag": MAKE.create_tag(TABLE, "t", snapshot_id=1, max_ref_age_ms=9),
    "set-ref": MAKE.set_ref(TABLE, "t", snapshot_id=1, expected_snapshot_id=2),
    "remove-ref": MAKE.remove_ref(TABLE, "t", expected_snapshot_id=2),
    "rename-branch": MAKE.rename_branch(TABLE, "b", "c", expected_snapshot_id=2),
    "fast-forward": MAKE.fast_forward(TABLE, to="b"),
    "set-retention": MAKE.set_retention(TABLE, "b", max_ref_age_ms=9, expected_snapshot_id=2),
    "rollback": MAKE.rollback(TABLE, before=WHEN, branch="b"),
    "set-current-snapshot": MAKE.set_current_snapshot(TABLE, 3),
    "cherry-pick": MAKE.cherry_pick(TABLE, 3, branch="b"),
    "publish": MAKE.publish(TABLE, "w"),
    "expire-snapshots": MAKE.expire_snapshots(TABLE, older_than=WHEN, retain_last=2, snapshot_ids=[1]),
    "update-properties": MAKE.update_properties(TABLE, {"a": "b"}, removals=["c"], expect={"d": None}),
    "set-location": MAKE.set_location(TABLE, "memory://wh/x"),
    "set-statistics": MAKE.set_statistics(TABLE, {"snapshot-id": 1}),
    "remove-statistics": MAKE.remove_statistics(TABLE, 1),
    "set-partition-statistics": MAKE.set_partition_statistics(TABLE, {"snapshot-id": 1}),
    "remove-partition-statistics": MAKE.remove_partition_statistics(TABLE, 1),
    "upgrade-format": MAKE.upgrade_format(TABLE, 3, deadline=WHEN, writer="w", writer_sequence=1, summary={"a": "b"}),
    "update-schema": MAKE.update_schema(TABLE, base=0).add_column("c", "decimal(10, 2)", required=True).submit(),
    "update-spec": MAKE.update_spec(TABLE, base=0, base_spec_id=0).add_field("ts", "day").submit(),
    "update-sort-order": MAKE.update_sort_order(TABLE, base=0, base_sort_order_id=0).desc("ts").submit(),
}  # fmt: skip


@pytest.mark.parametrize("operation", MADE)
def test_a_method_makes_the_intent_of_its_operation_as_the_daemon_reads_it(operation: str) -> None:
    intent = MADE[operation]
    assert OPERATIONS[type(intent)] == operation
    assert decode_intent(encode_intent(intent), limits=Limits()).intent == intent


@pytest.mark.parametrize("operation", MADE)
def test_an_intent_that_came_through_a_pickle_is_sent_as_it_would_have_been_before(operation: str) -> None:
    """Out of a pickle come values that equal their defaults without being them: they would be written out."""
    intent = MADE[operation]
    copy = pickle.loads(pickle.dumps(intent))
    sent = sealed(copy, reply_to="firn:replies:x")
    assert encode_intent(sent) == encode_intent(sealed(intent, reply_to="firn:replies:x"))
    assert decode_intent(encode_intent(sent), limits=Limits()).digest == sent.digest


def test_every_operation_on_tables_has_a_method() -> None:
    tested_elsewhere = {name for name in OPERATIONS.values() if "view" in name or name in {
        "create-or-replace-table", "rename-table", "transaction", "rest-commit",
    }}  # fmt: skip
    assert set(OPERATIONS.values()) - tested_elsewhere == set(MADE)


def test_both_clients_have_the_same_methods_with_help() -> None:
    methods = [name for name in dir(Operations) if not name.startswith("_") and name != "submit"]
    assert len(methods) >= len(MADE)
    for name in methods:
        assert inspect.getdoc(getattr(Operations, name)), name
        assert getattr(Client, name) is getattr(AsyncClient, name) is getattr(Operations, name)


def test_members_are_what_was_given() -> None:
    upgrade, rollback = MADE["upgrade-format"], MADE["rollback"]
    assert (upgrade.deadline_ms, upgrade.writer, upgrade.summary) == (WHEN_MS, "w", {"a": "b"})
    assert getattr(rollback, "timestamp_ms", None) == WHEN_MS
    assert MADE["replace"].priority == "maintenance"
    filter = getattr(MADE["delete-where"], "row_filter", None)
    assert isinstance(filter, dict)
    assert filter["type"] == "and"


def test_changes_are_collected_in_order() -> None:
    schema = (
        MAKE.update_schema(TABLE, base=2, allow_incompatible=True)
        .add_column("x", LONG, parent="p", doc="d", default=1).drop_column("y").rename_column("a", "b")
        .update_type("n", {"type": "list", "element-id": 1, "element": "int", "element-required": False})
        .update_doc("n", None).set_default("n", 3).make_optional("n").require_column("m").move_first("a")
        .move_before("a", "c").move_after("a", "d").set_identifier_fields("id", "b").submit()
    )  # fmt: skip
    assert isinstance(schema, UpdateSchema)
    assert [change["action"] for change in schema.changes] == [
        "add-column", "drop-column", "rename-column", "update-column-type", "update-column-doc", "set-column-default",
        "make-column-optional", "require-column", "move-column-first", "move-column-before", "move-column-after",
        "set-identifier-fields",
    ]  # fmt: skip
    spec = MAKE.update_spec(TABLE, base=0, base_spec_id=1).remove_field("a").rename_field("b", "c").submit()
    assert isinstance(spec, UpdateSpec)
    assert [change["action"] for change in spec.changes] == ["remove-field", "rename-field"]
    order = MAKE.update_sort_order(TABLE, base=0, base_sort_order_id=1).asc("a", null_order="nulls-last").submit()
    assert isinstance(order, UpdateSortOrder)
    assert order.sort_by == ({"source": "a", "null-order": "nulls-last"},)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: MAKE.delete_files(TABLE, "one name"),
        lambda: MAKE.delete_where(TABLE, "id >"),
        lambda: MAKE.rollback(TABLE, before=dt.datetime(2026, 1, 1)),  # noqa: DTZ001 - that is what is wrong
        lambda: MAKE.update_schema(TABLE, base=0).submit(),
        lambda: MAKE.update_spec(TABLE, base=0),
        lambda: MAKE.update_schema(TABLE, base=0).add_column("x", "lung"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_it_is_sent(wrong: Any) -> None:
    with pytest.raises((InvalidIntent, InvalidInput)):
        wrong()


async def test_a_day_of_a_table_with_the_client_alone() -> None:
    bench = Workbench()
    async with bench.daemon(), AsyncClient(connect=bench.redis.connect, files=bench.files) as client:

        async def done(submitted: Any) -> Committed:
            return await (await submitted).committed(10)

        await done(client.create_table(TABLE, SCHEMA))
        first = (await done(client.append(TABLE, [content_file("a")]))).snapshot_id
        assert first is not None
        await done(client.create_branch(TABLE, "audit", snapshot_id=first))
        await done(client.append(TABLE, [content_file("b")], branch="audit"))
        await done(client.fast_forward(TABLE, to="audit"))
        assert await bench.live() == ["a", "b"]
        table = await client.table(TABLE)
        await done(client.update_schema(TABLE, base=table).add_column("country", "string").submit())
        assert (await client.table(TABLE)).schema.find_field("country") is not None
        await done(client.update_spec(TABLE, base=await client.table(TABLE)).add_field("country").submit())
        await done(client.update_sort_order(TABLE, base=await client.table(TABLE)).desc("ts").submit())
        await done(client.append(TABLE, [msgspec.structs.replace(content_file("w"), spec_id=1, partition=("FI",))],
                                 stage=True, wap_id="w"))  # fmt: skip
        await done(client.publish(TABLE, "w"))
        await done(client.delete_files(TABLE, [path_of("a"), path_of("w")]))
        assert await bench.live() == ["b"]
        await done(client.update_properties(TABLE, {"owner": "me"}))
        await done(client.rollback(TABLE, snapshot_id=first))
        view: TableView = await client.table(TABLE)
        assert (view.snapshot_id, view.metadata.properties["owner"]) == (first, "me")
        await done(client.expire_snapshots(TABLE, older_than=dt.datetime.now(dt.UTC), retain_last=1))
        await done(client.delete_where(TABLE, "id is not null or id is null"))
        assert await bench.live() == []
        await done(client.drop_table(TABLE))
