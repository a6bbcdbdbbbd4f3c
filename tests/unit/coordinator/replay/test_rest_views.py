"""Requests of REST clients for views: created and changed as they were sent where their requirements hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import InvalidIntent
from firn.model.intent import encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.operations.rest import RestViewCommit
from firn.model.view import ViewMetadata
from firn.storage.pointers import Pointers
from tests.unit.coordinator.rest_writer import Json, request
from tests.unit.coordinator.view_intents import COLUMNS, VIEW, new_view, queries
from tests.unit.coordinator.workbench import TABLE, WAREHOUSE, Workbench, create, new_id

UUID = "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e"
OTHER = "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5f"


def view_request(*updates: Json, requirements: tuple[Json, ...] = (), **members: Any) -> RestViewCommit:
    return RestViewCommit(**{
        "intent_id": new_id(), "table": VIEW, "requirements": requirements, "updates": updates, "client": "trino/1",
        **members,
    })  # fmt: skip


def version(sql: str, *, number: int = 1, dialects: tuple[str, ...] = ("spark",)) -> list[Json]:
    """The updates that give a view a definition."""
    members = {
        "version-id": number, "schema-id": -1, "timestamp-ms": 1_790_000_000_000, "summary": {"engine-name": "trino"},
        "representations": list(queries(sql, *dialects)), "default-namespace": ["db"],
    }  # fmt: skip
    return [
        {"action": "add-schema", "schema": {**COLUMNS, "schema-id": 0}},
        {"action": "add-view-version", "view-version": members},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]


def creation(uuid: str = UUID, location: str = f"{WAREHOUSE}/db/daily") -> RestViewCommit:
    return view_request(
        {"action": "assign-uuid", "uuid": uuid},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "set-location", "location": location},
        {"action": "set-properties", "updates": {"owner": "me"}},
        *version("SELECT 1"),
        requirements=({"type": "assert-create"},),
    )


def same(uuid: str = UUID) -> tuple[Json, ...]:
    return ({"type": "assert-view-uuid", "uuid": uuid},)


async def stored(bench: Workbench) -> ViewMetadata:
    versioned = await Pointers(bench.zookeeper.connect()).read(VIEW)
    return TableReader(bench.files, limits=bench.limits).view(versioned.pointer.metadata_location)


async def test_a_view_is_created_and_changed() -> None:
    bench = Workbench()
    async with bench.daemon():
        intent = creation()
        made = await bench.commit(intent)
        assert made.details["created"]
        assert (made.details["how"], made.details["client"]) == ("exact", "trino/1")
        view = await stored(bench)
        assert (view.view_uuid, view.location, view.properties) == (UUID, f"{WAREHOUSE}/db/daily", {"owner": "me"})
        again = await bench.commit(msgspec.structs.replace(intent, intent_id=new_id()))
        assert again.details["unchanged"]
        changed = await bench.commit(view_request(*version("SELECT 2", number=2), requirements=same()))
        view = await stored(bench)
        assert changed.details["version-id"] == view.current_version.version_id == 2
        assert [one.version_id for one in view.versions] == [1, 2]
        removal = {"action": "remove-properties", "removals": ["owner"]}
        await bench.commit(view_request(removal, requirements=same()))
        assert (await stored(bench)).properties == {}
        nothing = await bench.commit(view_request(requirements=same()))
        assert nothing.details["unchanged"]


async def test_what_does_not_hold_or_is_no_view_is_refused() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(create())
        await bench.commit(creation())
        before = await stored(bench)
        cases: list[tuple[RestViewCommit, str, str]] = [
            (creation(OTHER), "requirement-failed", "Requirement failed: view already exists"),
            (view_request(*version("SELECT 2"), requirements=same(OTHER)), "requirement-failed", "UUID does not match"),
            (
                view_request(requirements=({"type": "assert-default-spec-id", "default-spec-id": 0},)),
                "requirement-failed", "cannot be asserted of a view",
            ),
            (view_request(*version("SELECT 2"), table="db.none"), "unknown-table", "there is no"),
            (view_request(*version("SELECT 2"), table=TABLE), "wrong-kind", "is a table"),
            (msgspec.structs.replace(creation(OTHER), table=TABLE, intent_id=new_id()), "table-exists", "exists"),
            (
                view_request({"action": "set-current-view-version", "view-version-id": 9}, requirements=same()),
                "invalid-view", "9",
            ),
            (
                view_request({"action": "set-location", "location": "memory://elsewhere/v"}, requirements=same()),
                "location-not-allowed", "is in none of",
            ),
            (
                view_request(*version("SELECT 2", number=2, dialects=("trino",)), requirements=same()),
                "invalid-view", "",
            ),
        ]  # fmt: skip
        for intent, rule, text in cases:
            refused = await bench.refuse(intent)
            assert (refused.rule, text in refused.message) == (rule, True), refused
            assert rule == "unknown-table" or refused.details["client"] == "trino/1"
        assert await stored(bench) == before


async def test_a_request_of_the_wrong_kind_is_refused_for_a_name_that_is_taken() -> None:
    bench = Workbench()
    async with bench.daemon():
        await bench.commit(new_view("SELECT 1"))
        refused = await bench.refuse(request({"action": "set-properties", "updates": {"a": "b"}}, table=VIEW))
        assert refused.rule == "wrong-kind"
        assert (
            await bench.refuse(request(requirements=[{"type": "assert-create"}], table=VIEW))
        ).rule == "table-exists"


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"updates": ({"action": "add-view-version", "view-version": {}},)}, "updates[0].view-version"),
        ({"updates": ({"action": "set-statistics"},)}, "updates[0]"),
        ({"requirements": ({"type": "assert-view-uuid"},)}, "requirements[0].uuid"),
    ],
)
def test_a_request_that_is_none_is_refused_at_the_door(members: dict[str, Any], where: str) -> None:
    payload = encode_intent(RestViewCommit(intent_id=new_id(), table=VIEW, **members))
    with pytest.raises(InvalidIntent) as refused:
        decode_intent(payload, limits=Limits())
    assert refused.value.rule == "invalid-field"
    assert (refused.value.where or "").startswith(where)
