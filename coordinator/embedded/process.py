"""A child process that cannot outlive this one and does not hear the terminal's Ctrl-C."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from firn.coordinator.embedded import guardian
from firn.model.errors import Unavailable

KILL_WAIT_SECONDS = 10.0


class GuardedProcess:
    """A server under a guardian (see `firn.coordinator.embedded.guardian`), in a session of its own.

    Its own session means that Ctrl-C reaches firn alone, which then drains and stops the servers last.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        log: BinaryIO,
        environment: Mapping[str, str] | None = None,
        kept_fds: Sequence[int] = (),
    ) -> None:
        """Start `command` in `folder`; its output goes to `log`, and `kept_fds` stay open until it has ended.

        Raises:
            Unavailable: the program could not be started.

        """
        self._guardian = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", guardian.__file__),
                *(str(os.getpid()), ",".join(map(str, kept_fds))),
                *command,
            ],
            stdin=subprocess.PIPE,  # never written to: that it closes is the message
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=folder,
            pass_fds=kept_fds,
            start_new_session=True,
        )
        assert self._guardian.stdout is not None
        with self._guardian.stdout as report:
            line = report.readline().decode().strip()
        if not line.isdigit():
            self.wait(KILL_WAIT_SECONDS)
            msg = f"could not start {command[0]}: {line.removeprefix('error: ') or 'its guardian ended early'}"
            raise Unavailable(msg)
        self.pid = int(line)

    @property
    def running(self) -> bool:
        """Whether the server has not ended; a paused one runs."""
        return self._guardian.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the server ended, 128 and more for a signal; None while it runs."""
        return self._guardian.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server; nothing happens if it has ended."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the server's end; returns whether it came in time."""
        try:
            self._guardian.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        if self._guardian.stdin is not None:
            self._guardian.stdin.close()
        return True

    def terminate(self, *, grace_seconds: float) -> None:
        """Ask the server to end, and kill it if it has not within `grace_seconds`."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a paused server hears nothing else
        if not self.wait(grace_seconds):
            self.kill()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        self.signal(signal.SIGKILL)
        if not self.wait(KILL_WAIT_SECONDS):
            msg = f"process {self.pid} is still there {KILL_WAIT_SECONDS} s after it was killed"
            raise Unavailable(msg)
