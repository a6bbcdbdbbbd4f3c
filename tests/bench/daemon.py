"""`firn serve` as a process, with its defaults but for addresses."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from firn.coordinator.embedded.server import free_port
from tests.bench.measurement import PROJECT

READY_S = 30.0
EXIT_S = 30.0
FIRN_SERVE = ("firn", "serve")


class Daemon:
    """A running daemon."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], *, http: str, log: Path) -> None:
        self._start = start
        self._process = start()
        self._http = http
        self._log = log

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Its clock is stopped meanwhile; ZooKeeper must not lose patience."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """End it, and start another in its place."""
        self.stop()
        self._process = self._start()
        self.wait_ready()

    def stop(self) -> None:
        """Have it drain and end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(EXIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def intents_per_batch(self) -> float:
        """Of all batches so far."""
        values = self.metrics()
        return values["firn_batch_intents_sum"] / values["firn_batch_intents_count"]

    def metrics(self) -> dict[str, float]:
        """Each sample's value by its name and labels, as Prometheus is shown them."""
        page = self.get("/metrics") or ""
        lines = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def memory_bytes(self) -> int:
        """Resident memory of the daemon and of all processes that it started."""
        command = ["ps", "-A", "-o", "pid=,ppid=,rss="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = [tuple(map(int, line.split())) for line in listed.splitlines()]
        family, total = {self._process.pid}, 0
        while found := [row for row in rows if row[0] in family or row[1] in family]:
            family |= {row[0] for row in found}
            total += sum(row[2] for row in found) * 1024
            rows = [row for row in rows if row not in found]
        return total

    def get(self, path: str) -> str | None:
        """A page; None when it does not answer with 200."""
        try:
            with urllib.request.urlopen(f"{self._http}{path}", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return None

    def wait_ready(self) -> None:
        """Wait until it can commit."""
        ends_at = time.monotonic() + READY_S
        while self._process.poll() is None and time.monotonic() < ends_at:
            if self.get("/readyz") is not None:
                return
            time.sleep(0.05)
        raise AssertionError(f"the daemon did not get ready; the end of its log:\n{self._log.read_text()[-2000:]}")


@contextlib.contextmanager
def running_daemon(
    folder: Path, settings: Mapping[str, str], *, program: Sequence[str] = FIRN_SERVE
) -> Iterator[Daemon]:
    """A daemon with these settings (names without ``FIRN_``), its warehouse and its log in `folder`."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FIRN_")}
    own = {"WAREHOUSE": str(folder / "warehouse"), "HTTP_PORT": str(port), **settings}
    environment.update({f"FIRN_{name}": value for name, value in own.items()})
    environment["PYTHONPATH"] = os.pathsep.join([str(PROJECT), *filter(None, [environment.get("PYTHONPATH")])])
    log = folder / "daemon.log"

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as log_file:
            return subprocess.Popen(
                [sys.executable, "-m", *program],
                env=environment, cwd=folder, stdout=log_file, stderr=log_file, start_new_session=True,
            )  # fmt: skip

    daemon = Daemon(start, http=f"http://127.0.0.1:{port}", log=log)
    try:
        daemon.wait_ready()
        yield daemon
    finally:
        daemon.stop()
