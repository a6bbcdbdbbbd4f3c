"""Requests that change tables and views, over HTTP, on in-memory twins with a real daemon."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from firn import AsyncClient
from firn.coordinator.catalog.errors import answer_errors
from firn.coordinator.catalog.refusals import Kind, no_such
from firn.coordinator.catalog.routes import Routes
from firn.coordinator.catalog.statuses import CatalogError, Status
from firn.coordinator.catalog.submission import Submission
from firn.coordinator.catalog.table_writes import TableWrites
from firn.coordinator.catalog.view_writes import ViewWrites
from firn.coordinator.tables.table_locations import TableLocations
from firn.model.errors import NotFound, Unavailable
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.model.view import ViewMetadata
from firn.storage.metadata_files import decode_metadata
from firn.storage.pointers import Pointers
from firn.storage.view_files import decode_view
from tests.unit.coordinator.workbench import SCHEMA, WAREHOUSE, Workbench, new_id

NAMESPACES = {("db",), ("other",)}
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_790_000_000_000,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


class Answered:
    """The reading side, as small as these tests need it."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._pointers = Pointers(bench.zookeeper.connect())

    async def require_namespace(self, namespace: Sequence[str]) -> None:
        if tuple(namespace) not in NAMESPACES:
            raise CatalogError(Status(404, "NoSuchNamespaceException"), f"Namespace does not exist: {namespace}")

    async def kind_of(self, name: str) -> Kind | None:
        try:
            pointer = (await self._pointers.read(name)).pointer
        except NotFound:
            return None
        return None if pointer.dropped else pointer.kind

    async def seen_view(self, name: str) -> ViewMetadata:
        if await self.kind_of(name) != "view":
            raise CatalogError(*no_such(name, "view"))
        return self._read_view((await self._pointers.read(name)).pointer.metadata_location)

    async def table(self, committed: Committed) -> web.Response:
        location = committed.metadata_location
        assert location is not None
        metadata = decode_metadata(self._bench.files.read(location, bytes_max=10**6), location=location)
        return web.json_response({"metadata-location": location, "uuid": metadata.table_uuid})

    async def view(self, committed: Committed) -> web.Response:
        location = committed.metadata_location
        assert location is not None
        return web.json_response({"metadata-location": location, "uuid": self._read_view(location).view_uuid})

    def _read_view(self, location: str) -> ViewMetadata:
        return decode_view(self._bench.files.read(location, bytes_max=10**6), location=location)


class Catalog:
    """A catalog and the client of it."""

    def __init__(self, bench: Workbench, client: TestClient[web.Request, web.Application]) -> None:
        self.bench = bench
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the body of an answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else msgspec.json.encode(body)
        async with self._client.request(method, f"/v1/{path}", data=data, headers=named) as answer:
            text = await answer.read()
            found = msgspec.json.decode(text) if text else None
            return answer.status, found.get("error", found) if found else None

    async def create(self, name: str = "t", namespace: str = "db", **more: Any) -> dict[str, Any]:
        """A table that is there."""
        status, answer = await self.ask(
            "POST", f"namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA, **more}
        )
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    async def create_view(self, name: str = "v") -> None:
        """A view that is there."""
        body = {"name": name, "schema": SCHEMA, "view-version": VERSION, "properties": {}}
        status, answer = await self.ask("POST", "namespaces/db/views", body)
        assert status == 200, answer

    async def entries(self) -> int:
        """Entries that were ever queued."""
        return sum(s.added for name, s in self.bench.redis.streams.items() if ":intents:" in name)


@asynccontextmanager
async def catalog() -> AsyncIterator[Catalog]:
    bench = Workbench()
    client = AsyncClient(connect=bench.redis.connect, files=bench.files, resubmit_after_s=0.1)
    pointers, answers = Pointers(bench.zookeeper.connect()), Answered(bench)
    submission = Submission(client, pointers, wait_s=10.0)
    tables = TableWrites(submission, answers, TableLocations(pointers), warehouse=WAREHOUSE, limits=Limits())
    views = ViewWrites(submission, answers, limits=Limits())
    app = web.Application(middlewares=[answer_errors])
    for handlers in (tables, views):
        handlers.add_to(Routes(app))
    async with bench.daemon(), client, TestClient(TestServer(app)) as http:
        yield Catalog(bench, http)


def change(name: str, value: str, *requirements: dict[str, Any]) -> dict[str, Any]:
    updates = [{"action": "set-properties", "updates": {name: value}}]
    return {"requirements": list(requirements), "updates": updates}


def identifier(name: str, namespace: str = "db") -> dict[str, Any]:
    return {"namespace": [namespace], "name": name}


async def test_a_table_is_created_once_and_told_by_its_name() -> None:
    async with catalog() as c:
        made = await c.create(properties={"format-version": "3", "a": "b"})
        metadata = await c.bench.metadata("db.t")
        assert (metadata.table_uuid, metadata.format_version) == (made["uuid"], 3)
        assert (metadata.location, metadata.properties["a"]) == (f"{WAREHOUSE}/db/t", "b")
        status, answer = await c.ask("POST", "namespaces/db/tables", {"name": "t", "schema": SCHEMA})
        assert (status, answer["message"]) == (409, "Table already exists: db.t")
        status, answer = await c.ask("POST", "namespaces/none/tables", {"name": "t", "schema": SCHEMA})
        assert (status, answer["type"]) == (404, "NoSuchNamespaceException")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "namespaces/db/tables", {"name": "new", "schema": SCHEMA}),
        ("POST", "tables/rename", {"source": identifier("t"), "destination": identifier("u")}),
        ("POST", "views/rename", {"source": identifier("v"), "destination": identifier("w")}),
        ("DELETE", "namespaces/db/tables/t", None),
        ("DELETE", "namespaces/db/views/v", None),
    ],
)
async def test_a_request_that_is_repeated_with_its_key_is_done_once(method, path, body) -> None:
    async with catalog() as c:
        await c.create()
        await c.create_view()
        key = new_id().upper()
        first = await c.ask(method, path, body, Idempotency_Key=key)
        assert first[0] in {200, 204}
        entries = await c.entries()
        assert await c.ask(method, path, body, Idempotency_Key=key) == first
        assert await c.entries() == entries
        again, answer = await c.ask(method, path, body, Idempotency_Key=new_id())
        assert again in {404, 409}, answer


async def test_a_key_that_is_none_is_refused_before_anything_is_queued() -> None:
    async with catalog() as c:
        entries = await c.entries()
        body = {"name": "t", "schema": SCHEMA}
        status, answer = await c.ask("POST", "namespaces/db/tables", body, Idempotency_Key=str(uuid.uuid4()))
        assert (status, answer["message"].partition(":")[0]) == (400, "Idempotency-Key")
        assert await c.entries() == entries


async def test_a_staged_table_is_shown_and_not_stored() -> None:
    async with catalog() as c:
        entries = await c.entries()
        body = {"name": "t", "schema": SCHEMA, "stage-create": True, "properties": {"a": "b"}}
        status, answer = await c.ask("POST", "namespaces/db/tables", body)
        metadata = answer["metadata"]
        assert (status, answer["config"], "metadata-location" in answer) == (200, {}, False)
        assert (metadata["location"], metadata["properties"]["a"]) == (f"{WAREHOUSE}/db/t", "b")
        assert await c.entries() == entries
        await c.create()
        status, answer = await c.ask("POST", "namespaces/db/tables", body)
        assert (status, answer["message"]) == (409, "Table already exists: db.t")


async def test_a_table_that_is_staged_where_a_renamed_one_is_goes_beside_it() -> None:
    async with catalog() as c:
        await c.create()
        rename = {"source": identifier("t"), "destination": identifier("u", "other")}
        assert (await c.ask("POST", "tables/rename", rename))[0] == 204
        body = {"name": "t", "schema": SCHEMA, "stage-create": True}
        status, answer = await c.ask("POST", "namespaces/db/tables", body)
        assert status == 200
        assert answer["metadata"]["location"] == f"{WAREHOUSE}/db/t-{answer['metadata']['table-uuid']}"


@pytest.mark.parametrize(
    ("source", "destination", "status", "message"),
    [
        (identifier("no"), identifier("x"), 404, "Table does not exist: db.no"),
        (identifier("v"), identifier("x"), 404, "Table does not exist: db.v"),
        (identifier("t"), identifier("u"), 409, "Cannot rename db.t to db.u. Table already exists"),
        (identifier("t"), identifier("v"), 409, "Cannot rename db.t to db.v. View already exists"),
        (identifier("t"), identifier("x", "none"), 404, "Namespace does not exist: "),
    ],
)
async def test_a_rename_that_cannot_be_says_why(source, destination, status, message) -> None:
    async with catalog() as c:
        await c.create("t")
        await c.create("u")
        await c.create_view()
        got, answer = await c.ask("POST", "tables/rename", {"source": source, "destination": destination})
        assert (got, answer["message"].startswith(message)) == (status, True), answer


async def test_a_dropped_table_is_registered_again() -> None:
    async with catalog() as c:
        made = await c.create()
        assert await c.ask("DELETE", "namespaces/db/tables/t?purgeRequested=false") == (204, None)
        body = {"name": "t", "metadata-location": made["metadata-location"]}
        status, answer = await c.ask("POST", "namespaces/db/register", {**body, "overwrite": True})
        assert (status, "overwrite is not supported" in answer["message"]) == (400, True)
        status, answer = await c.ask("POST", "namespaces/db/register", body)
        assert (status, answer["uuid"]) == (200, made["uuid"])
        status, answer = await c.ask("POST", "namespaces/db/register", body)
        assert (status, answer["message"]) == (409, "Table already exists: db.t")


async def test_a_drop_may_ask_for_the_files_to_go() -> None:
    async with catalog() as c:
        await c.create()
        status, _ = await c.ask("DELETE", "namespaces/db/tables/t?purgeRequested=perhaps")
        assert status == 400
        assert (await c.ask("DELETE", "namespaces/db/tables/t?purgeRequested=TRUE"))[0] == 204
        pointer = (await Pointers(c.bench.zookeeper.connect()).read("db.t")).pointer
        assert (pointer.dropped, pointer.purge) == (True, True)


async def test_views_and_tables_share_their_names() -> None:
    async with catalog() as c:
        await c.create()
        await c.create_view()
        view = {"name": "t", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
        for method, path, body, message in (
            (
                "POST",
                "namespaces/db/tables",
                {"name": "v", "schema": SCHEMA},
                "View with same name already exists: db.v",
            ),
            ("POST", "namespaces/db/views", view, "Table with same name already exists: db.t"),
            ("POST", "namespaces/db/views", {**view, "name": "v"}, "View already exists: db.v"),
        ):
            status, answer = await c.ask(method, path, body)
            assert (status, answer["message"]) == (409, message)
        for kind, name in (("view", "t"), ("table", "v")):
            status, answer = await c.ask("DELETE", f"namespaces/db/{kind}s/{name}")
            assert (status, answer["message"]) == (404, f"{kind.capitalize()} does not exist: db.{name}")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("namespaces/db/tables/t", {"updates": [], "identifier": identifier("u")}, "identifier: db.u"),
        ("namespaces/db/views/v", {"updates": [], "identifier": identifier("u")}, "identifier: db.u"),
        ("namespaces/db/tables/t", {"updates": [{"action": "grow"}], "requirements": []}, "updates[0].action"),
        ("namespaces/db/tables/t", {"updates": []}, None),
        ("transactions/commit", {"table-changes": []}, "table-changes: must not be empty"),
        ("transactions/commit", {"table-changes": [{"updates": []}]}, "table-changes[0].identifier"),
        (
            "transactions/commit",
            {"table-changes": [{"updates": [{"action": "grow"}], "identifier": identifier("t")}]},
            "table-changes[0].updates[0].action",
        ),
    ],
)  # fmt: skip
async def test_a_commit_that_is_none_is_refused_before_anything_is_queued(path, body, message) -> None:
    async with catalog() as c:
        await c.create()
        entries = await c.entries()
        status, answer = await c.ask("POST", path, body)
        if message is None:
            assert status == 200
        else:
            assert (status, answer["message"].startswith(message)) == (400, True), answer
            assert await c.entries() == entries


async def test_a_commit_answers_the_table_that_it_made_and_says_who_sent_it() -> None:
    async with catalog() as c:
        made = await c.create()
        same = {"type": "assert-table-uuid", "uuid": made["uuid"]}
        body = {**change("a", "1", same), "identifier": identifier("t")}
        status, answer = await c.ask("POST", "namespaces/db/tables/t", body, User_Agent="PyIceberg/0.12.0")
        assert status == 200
        assert answer["metadata-location"] != made["metadata-location"]
        assert (await c.bench.metadata("db.t")).properties["a"] == "1"
        decided = [one for segment in await c.bench.journal("db.t") for one in segment.decided]
        assert decided[-1].outcome.details["client"] == "PyIceberg/0.12.0"


@pytest.mark.parametrize(
    ("path", "requirement", "status", "message"),
    [
        ("tables/t", {"type": "assert-table-uuid", "uuid": "u"}, 409, "Requirement failed: UUID does not match"),
        ("tables/t", {"type": "assert-default-spec-id", "default-spec-id": 9}, 409, "Requirement failed: default part"),
        ("tables/t", {"type": "assert-create"}, 409, "Requirement failed: table already exists"),
        ("tables/v", {"type": "assert-create"}, 409, "View with same name already exists: db.v"),
        ("tables/v", {"type": "assert-table-uuid", "uuid": "u"}, 404, "Table does not exist: db.v"),
        ("tables/no", {"type": "assert-table-uuid", "uuid": "u"}, 404, "Table does not exist: db.no"),
        ("views/v", {"type": "assert-view-uuid", "uuid": "u"}, 409, "Requirement failed: view UUID does not match"),
        ("views/t", {"type": "assert-view-uuid", "uuid": "u"}, 404, "View does not exist: db.t"),
        ("views/no", {"type": "assert-view-uuid", "uuid": "u"}, 404, "View does not exist: db.no"),
        ("views/v", {"type": "assert-create"}, 409, "View already exists: db.v"),
    ],
)
async def test_a_commit_whose_requirement_fails_changes_nothing(path, requirement, status, message) -> None:
    async with catalog() as c:
        await c.create()
        await c.create_view()
        got, answer = await c.ask("POST", f"namespaces/db/{path}", change("a", "1", requirement))
        assert (got, answer["message"].startswith(message)) == (status, True), answer
        assert "a" not in (await c.bench.metadata("db.t")).properties


async def test_a_staged_table_is_finished_by_a_commit_once() -> None:
    async with catalog() as c:
        body = {"name": "t", "schema": SCHEMA, "stage-create": True}
        _, staged = await c.ask("POST", "namespaces/db/tables", body)
        metadata = staged["metadata"]
        finish = {
            "requirements": [{"type": "assert-create"}],
            "updates": [
                {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
                {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
                {"action": "add-schema", "schema": metadata["schemas"][0]},
                {"action": "set-current-schema", "schema-id": -1},
                {"action": "add-spec", "spec": metadata["partition-specs"][0]},
                {"action": "set-default-spec", "spec-id": -1},
                {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
                {"action": "set-default-sort-order", "sort-order-id": -1},
                {"action": "set-location", "location": metadata["location"]},
                {"action": "set-properties", "updates": metadata["properties"]},
            ],
        }
        status, answer = await c.ask("POST", "namespaces/none/tables/t", finish)
        assert (status, answer["type"]) == (404, "NoSuchNamespaceException")
        status, answer = await c.ask("POST", "namespaces/db/tables/t", finish)
        assert (status, answer["uuid"]) == (200, metadata["table-uuid"]), answer
        assert (await c.bench.metadata("db.t")).location == metadata["location"]


async def test_commits_together_are_all_or_none() -> None:
    async with catalog() as c:
        await c.create("t")
        await c.create("u")
        both = [{**change("a", "1"), "identifier": identifier(name)} for name in ("t", "u")]
        assert await c.ask("POST", "transactions/commit", {"table-changes": both}) == (204, None)
        stale = {"type": "assert-table-uuid", "uuid": "no"}
        torn = [{**change("a", "2"), "identifier": identifier("t")}, {**change("a", "2", stale), **both[1]}]
        torn[1]["requirements"] = [stale]
        status, answer = await c.ask("POST", "transactions/commit", {"table-changes": torn})
        assert (status, answer["type"]) == (409, "CommitFailedException")
        assert "Requirement failed: UUID does not match" in answer["message"]
        missing = [both[0], {**change("a", "3"), "identifier": identifier("no")}]
        status, answer = await c.ask("POST", "transactions/commit", {"table-changes": missing})
        assert (status, answer["message"]) == (404, "Table does not exist: db.no")
        assert [(await c.bench.metadata(f"db.{name}")).properties["a"] for name in ("t", "u")] == ["1", "1"]


@pytest.mark.parametrize("name", ["", "a.b", "."])
async def test_a_part_of_a_name_holds_no_dot(name) -> None:
    async with catalog() as c:
        status, answer = await c.ask("POST", "namespaces/db/tables", {"name": name, "schema": SCHEMA})
        assert (status, "is no part of a name" in answer["message"]) == (400, True)


@pytest.mark.parametrize("error", [NotFound("gone"), Unavailable("no disk"), OSError("bad disk")])
async def test_what_was_committed_is_never_answered_as_a_failure(error, monkeypatch) -> None:
    async def unread(_self: Answered, _committed: Committed) -> web.Response:
        raise error

    async with catalog() as c:
        monkeypatch.setattr(Answered, "table", unread)
        status, answer = await c.ask("POST", "namespaces/db/tables", {"name": "t", "schema": SCHEMA})
        assert (status, answer["type"]) == (504, "CommitStateUnknownException")
        assert (await c.bench.metadata("db.t")).location == f"{WAREHOUSE}/db/t"
