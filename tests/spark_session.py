"""One Spark for all tests that need one, with Iceberg's Java runtime to read what firn wrote."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.interop.features import ICEBERG_JAVA

SPARK: Final = ".".join(pyspark.__version__.split(".")[:2])
ARTIFACT: Final = f"iceberg-spark-runtime-{SPARK}_2.13"
COORDINATE: Final = f"org.apache.iceberg:{ARTIFACT}:{ICEBERG_JAVA}"
REPOSITORY: Final = Path.home() / ".m2" / "repository"
JAR_VARIABLE: Final = "FIRN_ICEBERG_SPARK_RUNTIME"
"""Path of the jar, for machines that cannot fetch it."""
FETCH_SECONDS: Final = 300


def start_spark(warehouse: Path, *, more: Mapping[str, str] | None = None) -> SparkSession:
    """The session; `warehouse` is the folder of Spark's catalog ``wh``: the table ``wh.db.t`` is in ``db/t``.

    `more` are settings beside the ones that all tests share.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.jars": str(runtime_jar()),
        "spark.driver.memory": "2g",
        # Tests are short: what a better compiler and several collecting threads cost is never earned back.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        # Queries over a few rows: compiling them takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.wh": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.wh.type": "hadoop",
        "spark.sql.catalog.wh.warehouse": str(warehouse),
        **(more or {}),
    }
    builder = SparkSession.builder.master("local[2]").appName("firn-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def runtime_jar() -> Path:
    """Iceberg's Java runtime for Spark: from where it was put, or where Maven keeps it, fetched when it is not there.

    Without it the tests are skipped, but in CI they fail: there they must run.
    """
    named = os.environ.get(JAR_VARIABLE)
    if named:
        return Path(named)
    jar = REPOSITORY / "org/apache/iceberg" / ARTIFACT / ICEBERG_JAVA / f"{ARTIFACT}-{ICEBERG_JAVA}.jar"
    if jar.exists():
        return jar
    REPOSITORY.mkdir(parents=True, exist_ok=True)
    with (REPOSITORY / "firn-tests.lock").open("w") as lock:  # test processes beside each other fetch it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = "" if jar.exists() else _fetch()
    if not jar.exists():
        leave_out(f"needs {COORDINATE}: {missing}; or name its jar in {JAR_VARIABLE}")
    return jar


def leave_out(reason: str) -> NoReturn:
    """Skip the test; in CI, where what it needs must be there, fail it."""
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
