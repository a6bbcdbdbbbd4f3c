"""Iceberg's own REST compatibility kit passes against the catalog, on a warehouse that was empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.coordinator.embedded import RedisServer, ZooKeeperServer
from tests.interop.compatibility_kit import NESTED, RUN_SECONDS, run_kit
from tests.interop.rest_stack import rest_stack

SKIPPED = 12
"""By the kit's assumptions: names with a dot or a slash, an empty namespace, nested namespaces, unique locations."""

pytestmark = pytest.mark.timeout(RUN_SECONDS + 120)


def test_the_compatibility_kit_passes(tmp_path: Path, redis_server: RedisServer, zookeeper_server: ZooKeeperServer):
    with rest_stack(tmp_path / "stack", redis_server, zookeeper_server) as rest:
        verdicts = run_kit(rest.uri, tmp_path / "kit")
        assert verdicts.failed == {}
        assert (len(verdicts.passed), len(verdicts.skipped)) == (145, SKIPPED), verdicts.skipped


def test_namespaces_can_be_nested(tmp_path: Path, redis_server: RedisServer, zookeeper_server: ZooKeeperServer):
    with rest_stack(tmp_path / "stack", redis_server, zookeeper_server) as rest:
        verdicts = run_kit(rest.uri, tmp_path / "kit", tests=NESTED)
        assert verdicts.failed == {}
        assert len(verdicts.passed) == 2, verdicts
