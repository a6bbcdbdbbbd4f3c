"""Clients that know nothing of firn append to one table at once, with retries off: every commit succeeds, once.

A plain catalog answers most of these commits with 409.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from tests.interop.java_racer import JavaRacer
from tests.interop.rest_stack import RestStack, rest_stack
from tests.interop.rest_writers import (
    NO_RETRIES,
    SCHEMA,
    append_with_either,
    append_with_pyiceberg,
    attached_duckdb,
    insert_with_duckdb,
    race,
)

NAMESPACE = "raced"


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, zookeeper_server: ZooKeeperServer):
    with rest_stack(tmp_path_factory.mktemp("rest"), redis_server, zookeeper_server) as running:
        RestCatalog("tests", uri=running.uri).create_namespace(NAMESPACE)
        yield running


@pytest.fixture
def new_table(rest: RestStack) -> Callable[..., Table]:
    def create(name: str, **properties: str) -> Table:
        catalog = RestCatalog("tests", uri=rest.uri)
        return catalog.create_table((NAMESPACE, name), SCHEMA, properties={**NO_RETRIES, **properties})

    return create


def check(rest: RestStack, table: Table, expected: list[int], *, commits: int) -> None:
    """Every row is there once, by one snapshot a commit, and no commit was refused."""
    table.refresh()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(expected)
    assert len(table.snapshots()) == commits
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == list(range(1, commits + 1))
    assert [str(exchange) for exchange in rest.recorder.exchanges if exchange.status == 409] == []
    rest.check(".".join(table.name()))


@pytest.mark.parametrize(
    ("name", "writers", "appends", "properties"),
    [
        ("many_writers", 16, 2, {}),
        ("many_appends", 6, 6, {}),
        ("merged", 6, 5, {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "3"}),
        ("format_1", 4, 4, {"format-version": "1"}),
    ],
)
def test_appends_of_pyiceberg_all_succeed(rest, new_table, name, writers, appends, properties):
    table = new_table(name, **properties)
    expected = race(append_with_pyiceberg, rest.uri, f"{NAMESPACE}.{name}", writers=writers, appends=appends)
    check(rest, table, expected, commits=writers * appends)


def test_inserts_of_duckdb_all_succeed(rest, new_table):
    table = new_table("duckdb")
    expected = race(insert_with_duckdb, rest.uri, f"{NAMESPACE}.duckdb", writers=4, appends=3)
    check(rest, table, expected, commits=12)
    connection = attached_duckdb(rest.uri)
    seen = connection.execute(f"SELECT count(*), sum(id) FROM lake.{NAMESPACE}.duckdb").fetchone()
    connection.execute("DETACH lake")
    assert seen == (len(expected), sum(expected))


@pytest.fixture(scope="module")
def java_racer(tmp_path_factory: pytest.TempPathFactory) -> JavaRacer:
    return JavaRacer(tmp_path_factory.mktemp("classes"))


@pytest.mark.parametrize("how", ["fast", "merging", "transaction"])
def test_appends_of_java_all_succeed(rest, new_table, java_racer, how):
    table = new_table(f"java_{how}", **{"commit.manifest.min-count-to-merge": "4"})
    expected = java_racer.race(rest.uri, f"{NAMESPACE}.java_{how}", how, writers=4, appends=4)
    check(rest, table, expected, commits=16)
    if how == "transaction":
        assert [table.properties[f"writer-{writer}"] for writer in range(4)] == ["3"] * 4


def test_different_clients_append_to_one_table_at_once(rest, new_table):
    table = new_table("mixed")
    expected = race(append_with_either, rest.uri, f"{NAMESPACE}.mixed", writers=6, appends=3)
    check(rest, table, expected, commits=18)
