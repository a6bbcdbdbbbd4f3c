"""What the tests of other engines share: one Spark session, and tables that are built once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.interop.features import ICEBERG_JAVA
from tests.interop.table_builder import BuiltTable
from tests.interop.tables import TABLES

ARTIFACT: Final = "iceberg-spark-runtime-4.1_2.13"
COORDINATE: Final = f"org.apache.iceberg:{ARTIFACT}:{ICEBERG_JAVA}"
REPOSITORY: Final = Path.home() / ".m2" / "repository"
JAR_VARIABLE: Final = "FIRN_ICEBERG_SPARK_RUNTIME"
"""Path of the jar, for machines that cannot fetch it."""
FETCH_SECONDS: Final = 300


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
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.jars": str(_runtime_jar()),
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Queries over a few rows: compiling them takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.wh": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.wh.type": "hadoop",
        "spark.sql.catalog.wh.warehouse": str(warehouse),
    }
    builder = SparkSession.builder.master("local[2]").appName("firn-interop")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def _runtime_jar() -> Path:
    """Iceberg's Java runtime for Spark: from where it was put, or where Maven keeps it, fetched when it is not there.

    Without it the tests are skipped, but in CI they fail: there they must run.
    """
    named = os.environ.get(JAR_VARIABLE)
    if named:
        return Path(named)
    jar = REPOSITORY / "org/apache/iceberg" / ARTIFACT / ICEBERG_JAVA / f"{ARTIFACT}-{ICEBERG_JAVA}.jar"
    if jar.exists():
        return jar
    missing = _fetch()
    if jar.exists():
        return jar
    reason = f"needs {COORDINATE}: {missing}; or name its jar in {JAR_VARIABLE}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _fetch() -> str:
    """Ask Maven for the jar; what went wrong, if anything did."""
    maven = shutil.which("mvn")
    if maven is None:
        return "there is no mvn to fetch it with"
    # Said, because Java takes the home folder from the password file, whatever HOME is.
    where = f"-Dmaven.repo.local={REPOSITORY}"
    options = [where, f"-Dartifact={COORDINATE}", "-Dtransitive=false"]
    command = [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", "dependency:get", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"mvn did not fetch it within {FETCH_SECONDS} s"
    return f"mvn ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
