"""Whether there is a Java that Spark runs on, asked before Spark fails in its own words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from firn.model.errors import Misconfigured

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

ASK_TIMEOUT_S: Final = 30.0

_VECTOR: Final = "jdk.incubator.vector"
"""A module that Spark asks for by name; slim Java runtimes leave it out."""

_BASE: Final = re.compile(r"^java\.base@(\d+)", re.MULTILINE)
_ADVICE: Final = f"install a Java of version {JAVA_MIN} or newer (a whole JDK or JRE), or point JAVA_HOME at one"


def require_java() -> str:
    """The Java that PySpark will start: JAVA_HOME's, else the one on PATH. Raises Misconfigured with what to do."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise Misconfigured(f"Spark needs Java, and there is none on PATH: {_ADVICE}")
    try:
        asked = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Misconfigured(f"Spark needs Java, and {java} does not run ({error}): {_ADVICE}") from error
    version = _BASE.search(asked.stdout)
    if version is None:
        raise Misconfigured(f"Spark needs Java {JAVA_MIN} or newer, and {java} is older, or no Java: {_ADVICE}")
    if int(version[1]) < JAVA_MIN:
        raise Misconfigured(f"Spark needs Java {JAVA_MIN} or newer, and {java} is Java {version[1]}: {_ADVICE}")
    if f"{_VECTOR}@" not in asked.stdout:
        raise Misconfigured(f"Spark needs a Java with the module {_VECTOR}, and {java} has it not: {_ADVICE}")
    return java
