"""The peer: Iceberg Java, N threads of one JVM that append to one table through its Java API, one file a commit.

It gets what favours it: a JDBC catalog in the memory of the same process, fast append, a warm JVM, retries sooner than
by default, files written without Hadoop (which is slow with a local disk) and not synced. It needs a JDK, and the jars
of Iceberg's runtime for Spark and of the H2 database, which Maven fetches; Hadoop's are PySpark's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec
import pyspark

from tests.bench.measurement import PROJECT
from tests.interop.features import ICEBERG_JAVA

SOURCE: Final = PROJECT / "tests" / "bench" / "AppendPeer.java"
REPOSITORY: Final = Path.home() / ".m2" / "repository"
JARS: Final = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13": ICEBERG_JAVA,
    "com.h2database:h2": "2.3.232",
}
JAR_VARIABLES: Final = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13": "FIRN_ICEBERG_SPARK_RUNTIME",
    "com.h2database:h2": "FIRN_H2",
}
"""Paths of the jars, for machines that cannot fetch them."""

FETCH_S_MAX: Final = 300
MEMORY: Final = "-Xmx2g"


class Unavailable(Exception):
    """The peer cannot be had on this machine."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Commits within the measured time, the latency of each, and how often a thread's retries ran out."""

    seconds: float
    committed: int
    latencies_ms: list[float]
    all_committed: int
    gave_up: int

    @property
    def rate(self) -> float:
        """Commits a second."""
        return self.committed / self.seconds


class JavaPeer:
    """The compiled program. Raises Unavailable, with what is missing."""

    def __init__(self, folder: Path) -> None:
        for tool in ("java", "javac"):
            if shutil.which(tool) is None:
                raise Unavailable(f"Iceberg Java needs a JDK, and there is no {tool}")
        spark = Path(pyspark.__file__).parent / "jars" / "*"
        self._classes = folder / "classes"
        self._class_path = os.pathsep.join([str(self._classes), *map(str, map(_jar, JARS)), str(spark)])
        command = ["javac", "-cp", self._class_path, "-d", str(self._classes), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"javac ended with {done.returncode}: {done.stderr[-500:]}")

    def run(self, folder: Path, *, writers: int, seconds: float, warm_up_s: float) -> Result:
        """Let the threads write to a new table in an empty folder."""
        folder.mkdir(parents=True)
        arguments = [str(folder), "jdbc:h2:mem:bench;DB_CLOSE_DELAY=-1", str(writers), str(seconds), str(warm_up_s)]
        done = subprocess.run(
            ["java", MEMORY, "-cp", self._class_path, "AppendPeer", *arguments],
            capture_output=True, timeout=seconds + warm_up_s + 300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
        return msgspec.json.decode(done.stdout, type=Result)


def _jar(coordinate: str) -> Path:
    named = os.environ.get(JAR_VARIABLES[coordinate])
    if named:
        return Path(named)
    (group, artifact), version = coordinate.split(":"), JARS[coordinate]
    jar = REPOSITORY / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.jar"
    if jar.exists():
        return jar
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(
            f"needs {coordinate}:{version}, and there is no mvn; or name it in {JAR_VARIABLES[coordinate]}"
        )
    options = [f"-Dmaven.repo.local={REPOSITORY}", f"-Dartifact={coordinate}:{version}", "-Dtransitive=false"]
    command = [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", "dependency:get", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False)
    if not jar.exists():
        raise Unavailable(f"mvn did not fetch {coordinate}:{version}: {(done.stdout + done.stderr)[-300:]}")
    return jar
