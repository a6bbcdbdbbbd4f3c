"""Writers at work in the background, and what they have been told so far."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import msgspec

from tests.acceptance.stack import Stack
from tests.acceptance.writers import Told, WriterPlan

PROGRAM = Path(__file__).with_name("writers.py")


class Load:
    """Starts the writers; `told` grows as they hear of outcomes."""

    def __init__(self, stack: Stack, table: str = "db.events", **plan: Any) -> None:
        self.table = table
        self._enough = stack.folder / f"enough-{time.monotonic_ns()}"
        self.plan = WriterPlan(
            redis_url=stack.redis_url,
            table=table,
            metadata_location=stack.pointer(table).metadata_location,
            until=str(self._enough),
            **plan,
        )
        self.told: list[Told] = []
        self._errors = stack.folder / f"writers-{time.monotonic_ns()}.log"
        self._lock = threading.Condition()
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), msgspec.json.encode(self.plan).decode()],
                env=stack.environment(), stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join(5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def enough(self) -> None:
        """Nothing is left to show: the writers end with the append that each is at."""
        self._enough.touch()

    @property
    def expected(self) -> int:
        """Outcomes there will be; once there was enough, as many as the files that were written for an append."""
        if self._enough.exists():
            return len(list((Path(self.plan.metadata_location).parents[1] / "data").glob("*.parquet")))
        return self.plan.writers * self.plan.appends

    @property
    def running(self) -> bool:
        """Whether some writer is not done."""
        return self._process.poll() is None

    def wait_for(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until so many outcomes have been told."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.told) >= count, timeout_s), (
                f"{len(self.told)} of {count} outcomes after {timeout_s} s\n{self.errors()}"
            )

    def finish(self, timeout_s: float = 100.0) -> list[Told]:
        """Wait for the last writer; everything that was told, in that order."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{len(self.told)} of {self.expected} told\n{self.errors()}") from None
        self._listener.join(10)
        assert code == 0, self.errors()
        return self.told

    def first_after(self, moment: float) -> float | None:
        """When the first outcome after `moment` was told of an intent that was sent after it."""
        times = [told.at for told in list(self.told) if told.at > moment and told.sent_at > moment]
        return min(times, default=None)

    def errors(self) -> str:
        """What the writers wrote to standard error."""
        return self._errors.read_text(errors="replace")[-4000:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        decoder = msgspec.json.Decoder(Told)
        for line in self._process.stdout:
            with self._lock:
                self.told.append(decoder.decode(line))
                self._lock.notify_all()
