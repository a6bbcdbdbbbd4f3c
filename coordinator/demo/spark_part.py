"""The demo's Spark application: it appends beside the other writers, compacts when they are done, and reads back.

It is a program of the pipeline's (`firn.pipeline.cli.demo_spark`) in a process of its own, which tells what it does as
JSON lines. Where there is no Java that Spark runs on, it says so, and the demo goes on without it.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from rich.console import Console

from firn.coordinator.demo.actors import Report
from firn.coordinator.demo.dataset import FileStats
from firn.model.errors import FirnError

PROGRAM: Final = "firn.pipeline.cli.demo_spark"
PACKAGES: Final = ("pyspark", "pandas", "numpy")
FINISH_S: Final = 300.0
"""How long compaction and read-back may take on a machine that is busy."""

_LOG_TAIL_CHARS: Final = 2_000


class SparkLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the program's: what it has come to, maybe with an outcome or what it has read."""

    stage: Literal["skipped", "appended", "compacted", "read-back"]
    text: str = ""
    report: Report | None = None
    read: FileStats | None = None


class SparkPart:
    """The program while it runs. `process` None: it takes no part, because of `missing`."""

    def __init__(self, process: subprocess.Popen[bytes] | None, *, log: Path, missing: str = "") -> None:
        self._process = process
        self._log = log
        self._missing = missing
        self._lines: queue.SimpleQueue[SparkLine | None] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        if process is not None:
            self._listener.start()

    def finish(self, console: Console) -> tuple[list[Report], FileStats | None]:
        """Let it compact and read back, now that the others are done; what it was told, and what it has read."""
        reports: list[Report] = []
        read: FileStats | None = None
        skipped = self._missing
        if self._process is not None:
            console.print("Spark compacts a day of the table, and reads the table back …", highlight=False)
            assert self._process.stdin is not None
            self._process.stdin.close()  # what it waits for
            for line in self._rest():
                skipped = line.text if line.stage == "skipped" else skipped
                read = line.read or read
                if line.report is not None:
                    reports.append(line.report)
                if line.stage in {"compacted", "read-back"}:
                    console.print(f"Spark: {line.text}", highlight=False, markup=False, soft_wrap=True)
        if skipped:
            console.print(f"without Spark: {skipped}", highlight=False, markup=False, soft_wrap=True)
        return reports, read

    def _rest(self) -> Iterator[SparkLine]:
        """All its lines to the end; raises FirnError when that is none that it should come to."""
        assert self._process is not None
        while True:
            try:
                line = self._lines.get(timeout=FINISH_S)
            except queue.Empty:
                raise FirnError(f"Spark has said nothing for {FINISH_S:.0f} s{self._log_tail()}") from None
            if line is None:
                break
            yield line
        if self._process.wait() != 0:
            raise FirnError(f"Spark failed{self._log_tail()}")

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(SparkLine)
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(decoder.decode(line))
        self._lines.put(None)

    def _log_tail(self) -> str:
        return f"; the end of its log:\n{self._log.read_text(errors='replace')[-_LOG_TAIL_CHARS:]}"


@contextmanager
def spark_part(
    folder: Path, *, redis_url: str, seconds: float, environment: Mapping[str, str], wanted: bool
) -> Iterator[SparkPart]:
    """Start the program, and end it whatever happens. It appends for `seconds`, then waits for `SparkPart.finish`."""
    log = folder / "spark.log"
    absent = next((name for name in PACKAGES if importlib.util.find_spec(name) is None), None)
    if not wanted:
        yield SparkPart(None, log=log, missing="as you wished")
        return
    if absent is not None:
        yield SparkPart(None, log=log, missing=f"{absent} is not installed: pip install 'firn[spark]'")
        return
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, redis_url, str(seconds), str(os.getpid())],
            env=dict(environment), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_file,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield SparkPart(process, log=log)
    finally:
        if process.poll() is None:
            process.terminate()  # Java ends with the Python that started it
            process.wait()
