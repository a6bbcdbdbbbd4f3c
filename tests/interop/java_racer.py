"""Iceberg's Java client as a race: `CatalogRacer.java`, compiled against Iceberg's runtime for Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pyspark

from tests.spark_session import leave_out, runtime_jar

SOURCE: Final = Path(__file__).parent / "CatalogRacer.java"
RACE_S: Final = 240.0
OUTPUT_CHARACTERS: Final = 3000


class JavaRacer:
    """The compiled program. Without a JDK or Iceberg's jar the test is skipped; in CI it fails."""

    def __init__(self, folder: Path) -> None:
        for tool in ("java", "javac"):
            if shutil.which(tool) is None:
                leave_out(f"Iceberg's Java client needs a JDK, and there is no {tool}")
        hadoop = Path(pyspark.__file__).parent / "jars" / "*"
        self._class_path = os.pathsep.join([str(folder), str(runtime_jar()), str(hadoop)])
        self._run(["javac", "-cp", self._class_path, "-d", str(folder), str(SOURCE)])

    def race(self, uri: str, table: str, how: str, *, writers: int, appends: int) -> list[int]:
        """Let the threads append at once; the ids of the rows, one an append."""
        options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        self._run(
            ["java", *options, "-cp", self._class_path, "CatalogRacer", uri, table, how, str(writers), str(appends)]
        )
        return [writer * 1000 + turn for writer in range(writers) for turn in range(appends)]

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RACE_S, check=False)
        assert done.returncode == 0, f"{Path(command[0]).name}: {done.stderr[-OUTPUT_CHARACTERS:]}"
