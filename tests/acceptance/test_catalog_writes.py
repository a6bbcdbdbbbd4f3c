"""Writes through the REST catalog on real servers: unchanged clients, answers that are cut, a daemon that halts."""

from __future__ import annotations

import json
import secrets
import socket
import time
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from firn.coordinator.config import Settings
from firn.coordinator.embedded.server import free_port
from firn.model.identifiers import uuid7
from tests.acceptance.stack import Stack

pytestmark = pytest.mark.skipif(
    "catalog" not in Settings.__struct_fields__, reason="the daemon starts no catalog: it has no [catalog] settings"
)

READY_S: Final = 30.0
WAIT_S: Final = 2.0
COLUMNS: Final = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False)
)
SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
VIEW: Final = {
    "name": "v",
    "schema": SCHEMA,
    "properties": {},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1_790_000_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1 as id", "dialect": "spark"}],
    },
}


def key() -> str:
    return uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))


class Catalog:
    """The catalog of a stack, as HTTP."""

    def __init__(self, stack: Stack, uri: str) -> None:
        self.stack = stack
        self.uri = uri

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The status and the body of an answer."""
        request = urllib.request.Request(
            f"{self.uri}/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **{n.replace("_", "-"): v for n, v in headers.items()}},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def cut(self, method: str, path: str, body: Any, **headers: str) -> None:
        """Send a request, and end the connection before its answer."""
        data = json.dumps(body).encode()
        lines = [
            f"{method} /v1/{path} HTTP/1.1", f"Host: {urlsplit(self.uri).netloc}", f"Content-Length: {len(data)}",
            "Content-Type: application/json", *(f"{n.replace('_', '-')}: {value}" for n, value in headers.items()),
        ]  # fmt: skip
        address = urlsplit(self.uri)
        assert address.hostname is not None
        assert address.port is not None
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + data)
            time.sleep(0.05)

    def table(self, name: str = "t") -> dict[str, Any]:
        """A table as it is loaded."""
        status, answer = self.ask("GET", f"namespaces/ns/tables/{name}")
        assert status == 200, answer
        metadata: dict[str, Any] = answer["metadata"]
        return metadata


@pytest.fixture
def catalog(stack: Stack) -> Catalog:
    """A daemon with a catalog, and a namespace in it."""
    port = free_port()
    stack.daemon(CATALOG_PORT=str(port), CATALOG_COMMIT_WAIT_S=str(WAIT_S))
    found = Catalog(stack, f"http://127.0.0.1:{port}")
    ends_at = time.monotonic() + READY_S
    while True:
        try:
            found.ask("GET", "config")
            break
        except OSError:
            assert time.monotonic() < ends_at, stack.daemons["a"].log()[-3000:]
            time.sleep(0.1)
    assert found.ask("POST", "namespaces", {"namespace": ["ns"]})[0] == 200
    return found


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{i}" for i in ids])})


def set_property(name: str, value: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: value}}]}


def test_an_unchanged_pyiceberg_writes_through_the_catalog(catalog: Catalog) -> None:
    theirs = RestCatalog("firn", uri=catalog.uri)
    table = theirs.create_table("ns.t", COLUMNS, properties={"owner": "me"})
    assert table.location().removeprefix("file://") == f"{catalog.stack.warehouse}/ns/t"
    with pytest.raises(TableAlreadyExistsError):
        theirs.create_table("ns.t", COLUMNS)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.overwrite(rows(20), overwrite_filter="id = 2")
    table.delete("id = 1")
    with table.update_schema() as change:
        change.add_column("more", StringType())
    with table.transaction() as transaction:
        transaction.set_properties(owner="you")
    with theirs.create_table_transaction("ns.staged", COLUMNS) as staged:
        staged.set_properties(a="b")
        staged.append(rows(7))
    assert theirs.load_table("ns.staged").scan().to_arrow()["id"].to_pylist() == [7]
    theirs.rename_table("ns.t", "ns.u")
    with pytest.raises(NoSuchTableError):
        theirs.load_table("ns.t")
    loaded = theirs.load_table("ns.u")
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == [3, 20]
    assert loaded.properties["owner"] == "you"
    assert "more" in loaded.schema().column_names
    assert sorted(theirs.list_tables("ns")) == [("ns", "staged"), ("ns", "u")]
    for name in ("ns.u", "ns.staged"):
        assert catalog.stack.firn("fsck", name).returncode == 0
    theirs.drop_table("ns.u")
    theirs.purge_table("ns.staged")
    assert theirs.list_tables("ns") == []
    theirs.register_table("ns.back", loaded.metadata_location)
    assert sorted(theirs.load_table("ns.back").scan().to_arrow()["id"].to_pylist()) == [3, 20]


def test_views_are_made_changed_renamed_and_dropped(catalog: Catalog) -> None:
    status, made = catalog.ask("POST", "namespaces/ns/views", VIEW)
    assert status == 200, made
    change = {
        "requirements": [{"type": "assert-view-uuid", "uuid": made["metadata"]["view-uuid"]}],
        "updates": [{"action": "set-properties", "updates": {"comment": "c"}}],
    }
    status, changed = catalog.ask("POST", "namespaces/ns/views/v", change)
    assert (status, changed["metadata"]["properties"]["comment"]) == (200, "c")
    assert changed["metadata-location"] != made["metadata-location"]
    change["requirements"][0]["uuid"] = key()
    status, answer = catalog.ask("POST", "namespaces/ns/views/v", change)
    assert (status, answer["error"]["type"]) == (409, "CommitFailedException")
    theirs = RestCatalog("firn", uri=catalog.uri)
    assert theirs.view_exists("ns.v")
    move = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "w"}}
    assert catalog.ask("POST", "views/rename", move) == (204, None)
    assert theirs.list_views("ns") == [("ns", "w")]
    theirs.drop_view("ns.w")
    with pytest.raises(NoSuchViewError):
        theirs.drop_view("ns.w")


def test_answers_that_are_cut_are_asked_for_again_and_nothing_is_doubled(catalog: Catalog) -> None:
    new = {"name": "t", "schema": SCHEMA}
    create, change = key(), key()
    catalog.cut("POST", "namespaces/ns/tables", new, Idempotency_Key=create)
    status, answer = catalog.ask("POST", "namespaces/ns/tables", new, Idempotency_Key=create)
    assert status == 200, answer
    catalog.cut("POST", "namespaces/ns/tables/t", set_property("a", "1"), Idempotency_Key=change)
    for _ in range(2):
        status, answer = catalog.ask("POST", "namespaces/ns/tables/t", set_property("a", "1"), Idempotency_Key=change)
        assert (status, answer["metadata"]["properties"]["a"]) == (200, "1")
    together = {
        "table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, **set_property("b", "2")}],
    }
    transaction = key()
    catalog.cut("POST", "transactions/commit", together, Idempotency_Key=transaction)
    assert catalog.ask("POST", "transactions/commit", together, Idempotency_Key=transaction) == (204, None)
    metadata = catalog.table()
    assert (metadata["properties"]["a"], metadata["properties"]["b"]) == ("1", "2")
    assert len(metadata["metadata-log"]) == 2, "each request has changed the table once"
    drop = key()
    catalog.cut("DELETE", "namespaces/ns/tables/t", None, Idempotency_Key=drop)
    assert catalog.ask("DELETE", "namespaces/ns/tables/t", Idempotency_Key=drop) == (204, None)
    assert catalog.ask("DELETE", "namespaces/ns/tables/t")[0] == 404


def test_a_commit_of_several_tables_is_all_or_none(catalog: Catalog) -> None:
    for name in ("t", "u"):
        assert catalog.ask("POST", "namespaces/ns/tables", {"name": name, "schema": SCHEMA})[0] == 200
    changes = [{"identifier": {"namespace": ["ns"], "name": name}, **set_property("a", "1")} for name in ("t", "u")]
    assert catalog.ask("POST", "transactions/commit", {"table-changes": changes}) == (204, None)
    assert [catalog.table(name)["properties"]["a"] for name in ("t", "u")] == ["1", "1"]
    changes = [{"identifier": {"namespace": ["ns"], "name": name}, **set_property("a", "2")} for name in ("t", "u")]
    changes[1]["requirements"] = [{"type": "assert-table-uuid", "uuid": key()}]
    status, answer = catalog.ask("POST", "transactions/commit", {"table-changes": changes})
    assert (status, answer["error"]["type"]) == (409, "CommitFailedException")
    assert "Requirement failed: UUID does not match" in answer["error"]["message"]
    assert [catalog.table(name)["properties"]["a"] for name in ("t", "u")] == ["1", "1"]


def test_while_the_daemon_halts_the_state_is_unknown_and_the_repetition_hears_of_the_commit(catalog: Catalog) -> None:
    assert catalog.ask("POST", "namespaces/ns/tables", {"name": "t", "schema": SCHEMA})[0] == 200
    change, daemon = key(), catalog.stack.daemons["a"]
    daemon.pause()
    try:
        began = time.monotonic()
        status, answer = catalog.ask("POST", "namespaces/ns/tables/t", set_property("a", "1"), Idempotency_Key=change)
        assert (status, answer["error"]["type"]) == (504, "CommitStateUnknownException")
        assert WAIT_S <= time.monotonic() - began < WAIT_S + 5
    finally:
        daemon.resume()
    ends_at = time.monotonic() + READY_S
    while status == 504 and time.monotonic() < ends_at:
        status, answer = catalog.ask("POST", "namespaces/ns/tables/t", set_property("a", "1"), Idempotency_Key=change)
    assert (status, answer["metadata"]["properties"]["a"]) == (200, "1")
    assert len(answer["metadata"]["metadata-log"]) == 1, "it was committed once"


def test_a_paused_table_sends_writers_away_with_a_time_to_come_back(catalog: Catalog) -> None:
    assert catalog.ask("POST", "namespaces/ns/tables", {"name": "t", "schema": SCHEMA})[0] == 200
    paused = catalog.stack.firn("pause", "ns.t", "--reason", "moving house")
    assert paused.returncode == 0, paused.stderr
    status, answer = catalog.ask("POST", "namespaces/ns/tables/t", set_property("a", "1"))
    assert status == 503
    assert "moving house" in answer["error"]["message"]
    assert catalog.stack.firn("resume", "ns.t").returncode == 0
    assert catalog.ask("POST", "namespaces/ns/tables/t", set_property("a", "1"))[0] == 200
