"""PyIceberg's own integration tests of REST catalogs pass against the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from tests.interop.pyiceberg_tests import RUN_SECONDS, PyIcebergTests, provide_tables
from tests.interop.rest_stack import rest_stack

MODULES = (
    "test_catalog",
    "test_rest_catalog",
    "test_rest_schema",
    "test_snapshot_operations",
    "test_sort_order_update",
    "test_partition_evolution",
    "test_statistics_operations",
)
CHOSEN = "not hive and not sqlite and not memory and not rest_test_catalog"
"""`test_catalog` runs every test with every kind of catalog."""

REFUSED = {"test_catalog.test_namespace_with_dot[rest_catalog]"}
"""Names of namespaces and tables have no dots in their parts: they could not be told from nested namespaces."""

PASSED_MIN = 460


@pytest.mark.timeout(RUN_SECONDS + 120)
def test_their_tests_pass(tmp_path: Path, redis_server: RedisServer, zookeeper_server: ZooKeeperServer):
    folder = tmp_path / "pyiceberg"
    folder.mkdir()
    with rest_stack(tmp_path / "stack", redis_server, zookeeper_server) as rest:
        provide_tables(rest.uri)
        verdicts = PyIcebergTests(folder, rest.uri).run(*MODULES, chosen=CHOSEN)
        assert {name: reason for name, reason in verdicts.failed.items() if name not in REFUSED} == {}
        assert set(verdicts.failed) == REFUSED
        assert len(verdicts.passed) >= PASSED_MIN
