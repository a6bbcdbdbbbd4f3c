"""Views: a definition that came meanwhile is never undone by who did not see it, and what is written engines read."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from pyiceberg.view.metadata import ViewMetadata as TheirViewMetadata

from firn.coordinator.fsck.run import check_table
from firn.coordinator.insight.dry_runs import DryRuns
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import DropTable, encode_intent
from firn.model.operations.upkeep import UpdateProperties
from firn.model.operations.views import (
    DropView,
    RegisterView,
    RenameView,
    SetCurrentViewVersion,
    UpdateViewProperties,
)
from firn.model.outcome import Committed, Rejected
from firn.model.sharding import shard_of
from firn.model.view import ViewMetadata
from firn.storage.pointers import Pointer, Pointers
from tests.unit.coordinator.view_intents import COLUMNS, VIEW, change, new_view, queries, replaced
from tests.unit.coordinator.workbench import WAREHOUSE, Workbench, append, create, decision, new_id


async def pointer_of(bench: Workbench, name: str = VIEW) -> Pointer:
    return (await Pointers(bench.zookeeper.connect()).read(name)).pointer


async def view_of(bench: Workbench, name: str = VIEW) -> ViewMetadata:
    pointer = await pointer_of(bench, name)
    return TableReader(bench.files, limits=bench.limits).view(pointer.metadata_location, digest=pointer.metadata_digest)


async def test_a_view_is_made_with_its_first_version_and_other_libraries_read_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        outcome = await bench.commit(
            new_view("SELECT 1", "spark", "trino", properties={"comment": "daily"}, summary={"engine-name": "Spark"},
                     default_catalog="prod", writer="dbt")
        )  # fmt: skip
        view, pointer = await view_of(bench), await pointer_of(bench)
        stored = bench.files.read(pointer.metadata_location, bytes_max=10**6)
        (event,) = [e for e in await bench.events() if e["type"].endswith("committed")]
    assert (pointer.kind, pointer.uuid, pointer.location) == ("view", view.view_uuid, f"{WAREHOUSE}/db/daily")
    assert outcome.details == {"version-id": 1, "timestamp-ms": view.current_version.timestamp_ms}
    assert [entry.version_id for entry in view.version_log] == [1]
    assert view.current_version.default_namespace == ("db",)
    assert view.current_version.summary["engine-name"] == "Spark"
    assert view.current_version.summary["firn.writer"] == "dbt"
    assert (event["type"], event["subject"]) == ("firn.view.committed", VIEW)
    theirs = TheirViewMetadata.model_validate_json(_plain(stored))
    assert theirs.current_version_id == 1
    assert [one.root.dialect for one in theirs.versions[0].representations] == ["spark", "trino"]
    assert theirs.properties == {"comment": "daily"}


def _plain(data: bytes) -> bytes:
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


async def test_of_two_writers_who_saw_the_same_version_one_replaces_the_view() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1"))
        won, lost = await bench.settle(
            replaced(first, "SELECT 2", writer="alice"), replaced(first, "SELECT 3", writer="bob")
        )
        view = await view_of(bench)
    assert isinstance(won, Committed)
    assert isinstance(lost, Rejected)
    assert (lost.rule, lost.hint) == ("view-conflict", "replan")
    assert (lost.conflicting_intent_id, lost.conflicting_writer) == (won.intent_id, "alice")
    assert [one.sql for one in view.current_version.representations] == ["SELECT 2"]  # type: ignore[union-attr]


async def test_a_version_that_was_given_the_same_id_again_is_not_the_one_that_was_seen() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1", properties={"version.history.num-entries": "1"}))
        second = await bench.commit(replaced(first, "SELECT 2"))
        seen = await bench.commit(change(DropView, second))
        assert seen.details == {}
        again = await bench.commit(new_view("SELECT 9"))
        assert again.details["version-id"] == first.details["version-id"]
        forged = {"base_version_id": 1, "base_timestamp_ms": again.details["timestamp-ms"] - 1}
        late = await bench.refuse(replaced(again, "SELECT 3", **forged))
    assert late.rule == "view-conflict"


async def test_the_same_content_is_the_same_version_and_nothing_is_written_for_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1", writer="alice"))
        location = (await pointer_of(bench)).metadata_location
        same = await bench.commit(replaced(first, "SELECT 1", writer="bob"))
        assert (await pointer_of(bench)).metadata_location == location
        second = await bench.commit(replaced(same, "SELECT 2"))
        back = await bench.commit(replaced(second, "SELECT 1"))
        view = await view_of(bench)
        late = await bench.refuse(replaced(second, "SELECT 4"))
    assert same.details == {**first.details, "unchanged": True}
    assert back.details == {**first.details, "reused": True}
    assert [one.version_id for one in view.versions] == [1, 2]
    assert [entry.version_id for entry in view.version_log] == [1, 2, 1]
    # Version 1 names its maker, alice, who is not the one that brought it back.
    assert (late.conflicting_intent_id, late.conflicting_operation) == (back.intent_id, "replace-view")


async def test_history_is_capped_and_what_is_gone_cannot_come_back() -> None:
    bench = Workbench()
    async with bench.daemon():
        seen = first = await bench.commit(new_view("SELECT 0", properties={"version.history.num-entries": "3"}))
        for number in range(1, 6):
            seen = await bench.commit(replaced(seen, f"SELECT {number}"))
        view = await view_of(bench)
        assert [one.version_id for one in view.versions] == [4, 5, 6]
        assert [entry.version_id for entry in view.version_log] == [4, 5, 6]
        gone = await bench.refuse(change(SetCurrentViewVersion, seen, version_id=first.details["version-id"]))
        back = await bench.commit(change(SetCurrentViewVersion, seen, version_id=4))
        view = await view_of(bench)
        # The capped history starts over at the highest id that is left, so an id may be given again.
        await bench.commit(replaced(back, "SELECT 99"))
        after = await view_of(bench)
    assert (gone.rule, gone.hint) == ("unknown-version", "replan")
    assert view.current_version_id == 4
    assert [entry.version_id for entry in view.version_log] == [4, 5, 6, 4]
    assert [one.version_id for one in after.versions] == [5, 6, 7]


async def test_a_dialect_is_not_lost_unless_the_view_allows_it() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1", "spark", "trino"))
        lost = await bench.refuse(replaced(first, "SELECT 2", "spark"))
        allowed = {"replace.drop-dialect.allowed": "true"}
        narrow = await bench.commit(replaced(first, "SELECT 2", "spark", properties=allowed))
        wide = await bench.commit(
            replaced(narrow, "SELECT 3", "spark", "hive", properties={"replace.drop-dialect.allowed": "false"})
        )
        back = await bench.refuse(change(SetCurrentViewVersion, wide, version_id=narrow.details["version-id"]))
    assert (lost.rule, lost.hint) == ("lost-dialect", "fix")
    assert back.rule == "lost-dialect"


async def test_properties_are_merged_key_by_key_on_the_version_that_was_seen() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view(properties={"comment": "old", "owner": "me"}))
        outcomes = await bench.settle(
            change(UpdateViewProperties, first, updates={"comment": "new"}),
            change(UpdateViewProperties, first, updates={"team": "data"}, removals=("owner",), expect={"x": None}),
            change(UpdateViewProperties, first, updates={"comment": "x"}, expect={"comment": "old"}),
            change(UpdateViewProperties, first, updates={"version.history.num-entries": "0"}),
            change(UpdateViewProperties, first, updates={"a": "1"}, removals=("a",)),
        )
        view = await view_of(bench)
        second = await bench.commit(replaced(first, "SELECT 2"))
        late = await bench.refuse(change(UpdateViewProperties, first, updates={"comment": "about version 1"}))
        assert (await view_of(bench)).current_version_id == second.details["version-id"]
    assert outcomes[2].conflicting_intent_id == outcomes[0].intent_id  # type: ignore[union-attr]
    rules = [o.rule if isinstance(o, Rejected) else None for o in outcomes]
    assert rules == [None, None, "expectation-failed", "invalid-property", "invalid-field"]
    assert view.properties == {"comment": "new", "team": "data"}
    assert len(view.version_log) == 1
    assert late.rule == "view-conflict"


@pytest.mark.parametrize(
    "members",
    [
        {"representations": queries("SELECT 1", "spark", "Spark")},
        {"representations": queries(" ")},
        {"representations": ({"sql": "SELECT 1", "dialect": "spark"},)},
        {"schema": {"type": "struct", "fields": [{"id": 1, "name": "a", "type": "no such type", "required": True}]}},
        {"schema": {"type": "list"}},
        {"properties": {"version.history.num-entries": "many"}},
        {"table_uuid": "no uuid"},
    ],
    ids=lambda members: next(iter(members)),
)
async def test_a_view_that_engines_cannot_read_is_refused_and_leaves_no_trace(members: dict[str, Any]) -> None:
    bench = Workbench()
    async with bench.daemon():
        refused = await bench.refuse(new_view(**members))
        assert (refused.rule, refused.hint) == ("invalid-view", "fix")
        first = await bench.commit(new_view("SELECT 1"))
        if "table_uuid" not in members:
            again = await bench.refuse(replaced(first, "SELECT 2", **members))
            assert again.rule == "invalid-view"
        assert (await view_of(bench)).current_version_id == 1


async def test_tables_and_views_are_never_taken_for_each_other() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view())
        await bench.commit(create())
        seen = {"table": "db.events"}
        refusals = [
            await bench.refuse(intent)
            for intent in (
                append("a", table=VIEW),
                DropTable(intent_id=new_id(), table=VIEW),
                UpdateProperties(intent_id=new_id(), table=VIEW, updates={"a": "1"}),
                replaced(first, "SELECT 2", **seen),
                change(DropView, first, **seen),
                change(UpdateViewProperties, first, updates={"a": "1"}, **seen),
            )
        ]
        taken = [await bench.refuse(create(VIEW)), await bench.refuse(new_view(**seen)), await bench.refuse(new_view())]
        assert (await view_of(bench)).current_version_id == 1
    assert {(one.rule, one.hint) for one in refusals} == {("wrong-kind", "fix")}
    assert {one.rule for one in taken} == {"table-exists"}
    assert "as a view" in taken[0].message
    assert "as a view" not in taken[1].message


async def test_a_name_may_be_a_table_after_it_was_a_view_and_repeats_keep_their_answers() -> None:
    bench = Workbench()
    made = new_view()
    async with bench.daemon("a"):
        first = await bench.commit(made)
        dropped = change(DropView, first)
        await bench.commit(dropped)
        nothing = await bench.refuse(replaced(first, "SELECT 2"))
        await bench.commit(create(VIEW))
        await bench.commit(append("x", table=VIEW))
    # Nothing in memory, and Redis has forgotten every outcome.
    bench.redis = type(bench.redis)()
    bench.streams = bench.redis.connect(names=bench.names)
    async with bench.daemon("b"):
        assert decision(await bench.commit(made)) == decision(first)
        assert isinstance((await bench.settle(dropped))[0], Committed)
        assert (await pointer_of(bench)).kind == "table"
        assert await bench.live(VIEW) == ["x"]
        segments = await bench.journal(VIEW)
    assert (nothing.rule, nothing.conflicting_operation) == ("unknown-table", "drop-view")
    assert [s.batch.kind for s in segments] == ["view", "view", "view", "table", "table"]


async def test_a_change_needs_the_version_that_was_seen() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view())
        members = json.loads(encode_intent(replaced(first, "SELECT 2")))
        del members["base-timestamp-ms"]
        payload = json.dumps(members).encode()
        await bench.streams.submit(shard_of(VIEW, shards=bench.shards), payload)
        refused = await bench.outcome(replaced(first, "", intent_id=members["intent-id"]))
    assert isinstance(refused, Rejected)
    assert refused.rule == "missing-field"


async def test_views_keep_out_of_each_others_and_of_tables_places() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        first = await bench.commit(new_view())
        home = f"{WAREHOUSE}/db/events"
        refusals = [
            await bench.refuse(intent)
            for intent in (
                new_view(table="db.other", location=f"{home}/views"),
                create("db.more", location=f"{WAREHOUSE}/db/daily"),
                replaced(first, "SELECT 2", location=home),
                change(UpdateViewProperties, first, updates={"write.metadata.path": home}),
            )
        ]
        outside = await bench.refuse(new_view(table="db.other", location="memory://elsewhere/v"))
        await bench.commit(replaced(first, "SELECT 2", location=f"{WAREHOUSE}/moved/daily"))
        pointer = await pointer_of(bench)
        assert pointer.metadata_location.startswith(f"{WAREHOUSE}/moved/daily/metadata/")
        assert pointer.also_at == (f"{WAREHOUSE}/db/daily",)
        await bench.commit(UpdateViewProperties(
            intent_id=new_id(), table=VIEW, base_version_id=2,
            base_timestamp_ms=(await view_of(bench)).current_version.timestamp_ms, updates={"a": "b"},
        ))  # fmt: skip
    assert {one.rule for one in refusals} == {"location-taken"}
    assert outside.rule == "location-not-allowed"


OLDEST: dict[str, Any] = {
    "format-version": 1,
    "location": f"{WAREHOUSE}/theirs/v",
    "schemas": [{"schema-id": 1, **COLUMNS}],
    "current-schema-id": 1,
    "current-version-id": 3,
    "versions": [{
        "version-id": 3, "timestamp-ms": 1573518431292, "summary": {"engine-name": "Spark"},
        "representations": [
            {"type": "sql", "sql": "SELECT 1", "dialect": "spark", "default-catalog": "prod",
             "default-namespace": ["default"]},
            {"type": "plan", "text": "?"},
        ],
    }],
    "unheard-of": {"a": 1},
}  # fmt: skip
"""A view as the specification's first edition has it: no uuid, no log, defaults of names in the representations."""


def registered(document: dict[str, Any], bench: Workbench, name: str = "a", **changes: Any) -> RegisterView:
    location = f"{document['location']}/metadata/00007-{name}.metadata.json"
    bench.files.create(location, json.dumps(document).encode())
    return RegisterView(**{"intent_id": new_id(), "table": VIEW, "metadata_location": location, **changes})


async def test_a_view_of_another_writer_is_taken_over_and_changed() -> None:
    bench = Workbench()
    async with bench.daemon():
        intent = registered({**OLDEST, "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385"}, bench)
        done = await bench.commit(intent)
        pointer = await pointer_of(bench)
        assert (pointer.metadata_location, pointer.kind) == (intent.metadata_location, "view")
        second = await bench.commit(replaced(done, "SELECT 2"))
        view = await view_of(bench)
        again = await bench.refuse(registered(OLDEST, bench, "b"))
        verdict = check_table(await pointer_of(bench), files=bench.files, limits=bench.limits)
    assert done.details == {"version-id": 3, "timestamp-ms": 1573518431292}
    assert second.details["version-id"] == 4
    assert view.extra == {"unheard-of": {"a": 1}}
    assert view.versions[0].default_namespace == ("default",)
    assert again.rule == "table-exists"
    assert verdict.ok, verdict.findings


async def test_a_view_without_uuid_gets_one_that_stays() -> None:
    bench = Workbench()
    async with bench.daemon():
        done = await bench.commit(registered(OLDEST, bench))
        first = await view_of(bench)
        await bench.commit(replaced(done, "SELECT 2"))
        assert (await view_of(bench)).view_uuid == first.view_uuid == (await pointer_of(bench)).uuid != ""


@pytest.mark.parametrize(
    ("edit", "members", "rule"),
    [
        ({"current-version-id": 9}, {}, "invalid-view"),
        ({"format-version": 2}, {}, "invalid-view"),
        ({}, {"table_uuid": "fa6506c3-7681-40c8-86dc-e36561f83385"}, "table-uuid-mismatch"),
        ({"location": "memory://elsewhere/v"}, {}, "location-not-allowed"),
        ({}, {"metadata_location": f"{WAREHOUSE}/none/metadata/1.metadata.json"}, "invalid-view"),
        ({}, {"metadata_location": "memory://elsewhere/1.metadata.json"}, "location-not-allowed"),
    ],
)
async def test_what_cannot_be_taken_over_is_refused(edit: dict[str, Any], members: dict[str, Any], rule: str) -> None:
    bench = Workbench()
    async with bench.daemon():
        refused = await bench.refuse(registered({**OLDEST, **edit}, bench, **members))
    assert refused.rule == rule


async def test_a_dry_run_says_what_would_become_of_a_change() -> None:
    bench = Workbench()
    async with bench.daemon():
        first = await bench.commit(new_view("SELECT 1"))
        await bench.commit(replaced(first, "SELECT 2"))
        now = await view_of(bench)
        base = {"base_version_id": 2, "base_timestamp_ms": now.current_version.timestamp_ms}
        intents = (replaced(first, "SELECT 3"), replaced(first, "SELECT 3", **base), append("a", table=VIEW))
        dry = DryRuns(streams=bench.streams, files=bench.files, pointers=Pointers(bench.zookeeper.connect()))
        told = await dry.of(intents)
        names = {"new_name": "db.other"}
        told += await dry.of([change(RenameView, first, **names)])
        told += await dry.of([change(RenameView, first, **names, **base)])
        assert await view_of(bench) == now
    assert [one.status for one in told] == [
        "would-reject", "would-commit", "would-reject", "would-reject", "would-commit",
    ]  # fmt: skip
    rules = [one.outcome.rule for one in told if isinstance(one.outcome, Rejected)]
    assert rules == ["view-conflict", "wrong-kind", "view-conflict"]
