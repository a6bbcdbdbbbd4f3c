"""Daemons and a foreign writer race on one file-system table: whatever either was told of is there, exactly once."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark
import pytest

from tests.acceptance.race import (
    BY_WRITER,
    OUTCOME_S,
    SCHEMA,
    TABLE,
    FirnWriter,
    ForeignWriter,
    check_race,
    newest,
    turns_taken,
    wait_for,
)
from tests.acceptance.stack import DaemonProcess, Stack
from tests.spark_session import FETCH_SECONDS, runtime_jar

SAMPLE, LONG = 8, 100
"""Commits of each writer, at least."""

pytestmark = pytest.mark.alone

COMMIT_S: Final = 30.0
"""For one commit of each writer, on a machine that does much else."""

READY_S: Final = 300.0
FILE_SYSTEM: Final = Path(__file__).with_name("NoOverwriteFileSystem.java")


@pytest.mark.parametrize(
    ("commits", "rest_s"),
    [
        pytest.param(SAMPLE, 0.5, marks=pytest.mark.timeout(600)),
        pytest.param(LONG, 3, marks=(pytest.mark.long, pytest.mark.timeout(3600))),
    ],
)
def test_two_daemons_and_pyiceberg_race_on_one_table(stack: Stack, commits: int, rest_s: float) -> None:
    """The daemon that has the table is killed on the way, and the other takes over. PyIceberg writes no v3.

    Its attempts take longer with every snapshot: after some hundreds it would lose every race without a longer rest.
    """
    daemons, location = _table(stack, version=2)
    folder = str(stack.warehouse / "db" / "raced")
    with ForeignWriter("pyiceberg_racer.py", [folder, "9"], stack.folder) as foreign:
        _race(stack, daemons, location, foreign, commits=commits, rest_s=rest_s)


@pytest.mark.spark
@pytest.mark.timeout(FETCH_SECONDS + 900)
@pytest.mark.parametrize(
    ("version", "commits"),
    [(2, SAMPLE), pytest.param(2, LONG, marks=pytest.mark.long), pytest.param(3, LONG, marks=pytest.mark.long)],
)
def test_two_daemons_and_spark_race_on_one_table(stack: Stack, version: int, commits: int) -> None:
    """Spark commits with a rename that overwrites nothing, as that of HDFS."""
    runtime_jar()
    classes = _compiled(stack.folder / "classes")
    daemons, location = _table(stack, version=version)
    with ForeignWriter("spark_racer.py", [str(stack.warehouse), "9", str(classes)], stack.folder) as foreign:
        _race(stack, daemons, location, foreign, commits=commits, rest_s=3)


def _table(stack: Stack, *, version: int) -> tuple[list[DaemonProcess], str]:
    """Two daemons and an empty table; where that is."""
    daemons = [stack.daemon(name) for name in ("a", "b")]
    with stack.client() as client:
        created = client.create_table(
            TABLE,
            SCHEMA,
            partition_spec=BY_WRITER,
            catalog="file-system",
            format_version=version,
            properties={"commit.retry.num-retries": "20"},
        )
        created.committed(30)
    return daemons, newest(stack)


def _race(
    stack: Stack,
    daemons: Sequence[DaemonProcess],
    location: str,
    foreign: ForeignWriter,
    *,
    commits: int,
    rest_s: float,
) -> None:
    """Let both sides commit, kill the daemon that has the table on the way, and check what is there in the end."""
    ours = [FirnWriter(stack, number, location=location, rest_s=rest_s) for number in (1, 2)]
    foreign.wait_ready(READY_S)
    for writer in ours:
        writer.start()
    wait_for([*ours, foreign], commits // 2, commits * COMMIT_S)
    max(daemons, key=lambda daemon: daemon.metric("firn_intents_total")).kill()
    wait_for([*ours, foreign], commits, commits * COMMIT_S)
    told = [step for writer in ours for step in writer.finish(OUTCOME_S)]
    theirs = foreign.finish(OUTCOME_S)
    metadata = check_race(stack, told, foreign=theirs)
    turns = turns_taken(metadata)
    print(f"{len(told)} commits through firn, {len(theirs)} by the other side, {turns} times one after the other")
    assert any(step.deleted for step in theirs)
    assert turns >= 2


def _compiled(folder: Path) -> Path:
    """The folder with the class of Spark's file system."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("needs a Java compiler (javac) for a local file system whose rename does not overwrite")
    folder.mkdir()
    (hadoop,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    command = [compiler, "-cp", str(hadoop), "-d", str(folder), str(FILE_SYSTEM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder
