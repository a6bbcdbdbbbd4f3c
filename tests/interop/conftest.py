"""What the tests of other engines share: one Spark session, and tables that are built once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.java_library import JavaLibrary
from tests.interop.table_builder import BuiltTable
from tests.interop.tables import TABLES
from tests.spark_session import FETCH_SECONDS, start_spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use Spark are marked, and may find the sockets that PySpark leaves for the garbage collector."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("spark")
            item.add_marker(pytest.mark.timeout(FETCH_SECONDS + 300))  # the first one fetches the jar and starts Spark
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], BuiltTable]:
    """Tables by their name in `TABLES`, each built on first use."""
    root = tmp_path_factory.mktemp("tables")
    found: dict[str, BuiltTable] = {}

    def get(name: str) -> BuiltTable:
        if name not in found:
            found[name] = TABLES[name](root / name)
        return found[name]

    return get


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Spark's catalog ``wh``: the table ``wh.db.t`` is in ``db/t``."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(warehouse: Path) -> Iterator[SparkSession]:
    """One Spark with Iceberg's Java runtime for the whole session."""
    session = start_spark(warehouse)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def java(spark: SparkSession) -> JavaLibrary:
    """Iceberg's Java library in Spark's virtual machine."""
    return JavaLibrary(spark)
