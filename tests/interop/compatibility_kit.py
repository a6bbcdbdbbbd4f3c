"""Iceberg's REST compatibility kit as a function: Maven fetches it, runs it, and leaves reports."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.interop.verdicts import Verdicts
from tests.spark_session import REPOSITORY, leave_out

POM: Final = Path(__file__).parent / "rest_kit" / "pom.xml"
NESTED: Final = "NestedNamespaceTests#testListNestedNamespaces+testDropNamespaceWithNestedNamespace"
RUN_SECONDS: Final = 900
"""The first run fetches some 120 MB of jars."""

LOG_CHARACTERS: Final = 3000
UNREACHABLE: Final = ("Could not transfer", "Could not resolve", "Could not find artifact", "could not be resolved")


def run_kit(uri: str, folder: Path, *, tests: str | None = None) -> Verdicts:
    """Run the kit, or these `tests` only, against a catalog with nothing in it.

    `folder` is for what Maven builds. Without Maven, a JDK or the jars the test is skipped, but in CI it fails.
    """
    for tool in ("mvn", "javac"):
        if shutil.which(tool) is None:
            leave_out(f"the REST compatibility kit needs Maven and a JDK, and there is no {tool}")
    done = _maven(uri, folder, tests, "--offline")  # asks no repository whether it has anything newer
    if "offline" in done.stdout and done.returncode:
        done = _maven(uri, folder, tests)
        if done.returncode and any(words in done.stdout for words in UNREACHABLE):
            leave_out(f"Maven did not fetch the REST compatibility kit: {done.stdout[-LOG_CHARACTERS:]}")
    assert done.returncode == 0, done.stdout[-LOG_CHARACTERS:]
    verdicts = Verdicts.read(sorted((folder / "surefire-reports").glob("TEST-*.xml")))
    assert verdicts.passed or verdicts.failed, f"no test ran: {done.stdout[-LOG_CHARACTERS:]}"
    return verdicts


def _maven(uri: str, folder: Path, tests: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    named = [f"-Dtest={tests}"] if tests else []
    where = [f"-Dmaven.repo.local={REPOSITORY}", f"-Dkit.build={folder}", "--file", str(POM)]
    failures_are_read = ["-Dmaven.test.failure.ignore=true", "-Dstyle.color=never"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CATALOG_")}
    return subprocess.run(
        ["mvn", "--batch-mode", *options, *where, *named, *failures_are_read, "test"],
        env={**kept, "CATALOG_URI": uri}, capture_output=True, text=True, timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
