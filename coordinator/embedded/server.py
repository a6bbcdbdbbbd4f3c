"""What an embedded Redis and an embedded ZooKeeper share: a folder, a loopback port, and a life that others may end."""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from firn.coordinator.embedded.process import GuardedProcess
from firn.model.errors import Unavailable

LOOPBACK = "127.0.0.1"
START_SECONDS_MAX = 30.0
PAUSE_S_MAX = 1.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.02
FOLDER_WAIT_SECONDS_MAX = 5.0  # for the server of a firn that was just killed to be gone, too
PORT_ATTEMPTS_MAX = 5
LOG_BYTES_MAX = 10_000_000
LOG_TAIL_BYTES = 2_000
PORT_TAKEN = "ddress already in use"  # in both servers' logs, upper case or lower


class EmbeddedServer(ABC):
    """A real server as a child of this process: on loopback, with its own folder, ending when this process does.

    `data_dir` keeps state from one run to the next (in a folder of the server's name, logs in ``logs/``); without it,
    a temporary folder goes when the server is stopped. Port 0 picks a free one (with `usual_port`, the one that
    everybody knows, unless it is taken), which the server then keeps over `restart` and over `start` after `kill`, so
    that clients find it again. Used as a context manager it starts and stops.
    """

    name: ClassVar[str]
    port_usual: ClassVar[int]

    def __init__(self, data_dir: Path | None = None, *, port: int = 0, usual_port: bool = False) -> None:
        self._given_dir = data_dir
        self._usual_port = usual_port
        self._dir: Path | None = None
        self._port = port
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    # -- what each server says of itself ------------------------------------------------------------------------------

    @abstractmethod
    def _command(self, *, folder: Path, port: int) -> Sequence[str]:
        """The command that serves `folder` on `port`; writes the files that it needs there. Runs in `folder`."""

    @abstractmethod
    def _answers(self, *, port: int, pid: int) -> bool:
        """Whether the server on `port` is ready, and is ours and not another that took the port."""

    def _environment(self) -> Mapping[str, str] | None:
        """The environment to run in; None for ours."""
        return None

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port on 127.0.0.1, known once started."""
        assert self._port, f"{self.name} was never started"
        return self._port

    @property
    def address(self) -> str:
        """Host and port, ``127.0.0.1:2181``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, f"{self.name} is not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server's process is there, paused or not."""
        return self._process is not None and self._process.running

    @property
    def log_path(self) -> Path:
        """The file that takes the server's output."""
        assert self._dir is not None, f"{self.name} is not started"
        return self._dir / "logs" / f"{self.name}.log"

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the server and return when it answers; does nothing if it runs.

        Raises:
            Misconfigured: a program is missing; says what to install.
            Unavailable: it did not start or did not answer in time, or another server uses the folder.

        """
        if self.running:
            return self
        if self._process is not None:
            self._process.wait(0)  # it ended by itself: let go of its guardian
        folder = self._root() / self.name
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path.parent.mkdir(exist_ok=True)
        try:
            with _lock(folder) as lock_fd:
                self._start_on_some_port(folder, lock_fd)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server in good order and remove its temporary folder, if it had one; it may be started again."""
        if self._process is not None:
            self._process.terminate(grace_seconds=STOP_SECONDS_MAX)
            self._process = None
        if self._given_dir is None and self._dir is not None:
            shutil.rmtree(self._dir, ignore_errors=True)
            self._dir = None

    def restart(self) -> Self:
        """End the server in good order and start it on the same port with the same data."""
        if self._process is not None:
            self._process.terminate(grace_seconds=STOP_SECONDS_MAX)
        return self.start()

    def kill(self) -> None:
        """End the server as a crash would; `start` brings it back on the same port with what it had written."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop the server's clock: it keeps its connections and answers nothing until `resume`."""
        if self._process is not None:
            self._process.signal(signal.SIGSTOP)
            _wait_until_stopped(self.pid)

    def resume(self) -> None:
        """Let a paused server go on."""
        if self._process is not None:
            self._process.signal(signal.SIGCONT)

    # -- how it starts ------------------------------------------------------------------------------------------------

    def _root(self) -> Path:
        """The folder given, or the temporary one, made on first use."""
        if self._dir is None:
            self._dir = self._given_dir or Path(tempfile.mkdtemp(prefix=f"firn-{self.name}-"))
            self._dir = self._dir.absolute()
        return self._dir

    def _start_on_some_port(self, folder: Path, lock_fd: int) -> None:
        """Start, and again if another process took the port between our choosing it and the server's binding it."""
        said = ""
        for attempt in range(PORT_ATTEMPTS_MAX):
            port = self._port or (self.port_usual if self._usual_port and attempt == 0 else free_port())
            log_start = self._start_process(folder, port=port, lock_fd=lock_fd)
            if self._wait_until_it_answers(port):
                self._port = port
                return
            said = self._log_since(log_start)
            if PORT_TAKEN not in said:
                break
            time.sleep(POLL_SECONDS)
        msg = f"{self.name} did not start; its log ends with: {said or '(nothing)'}"
        raise Unavailable(msg)

    def _start_process(self, folder: Path, *, port: int, lock_fd: int) -> int:
        """Start the process; returns where in the log its output begins."""
        if self.log_path.exists() and self.log_path.stat().st_size > LOG_BYTES_MAX:
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        command = self._command(folder=folder, port=port)
        with self.log_path.open("ab") as log:
            begins_at = log.tell()
            self._process = GuardedProcess(
                command, folder=folder, log=log, environment=self._environment(), kept_fds=[lock_fd]
            )
        return begins_at

    def _wait_until_it_answers(self, port: int) -> bool:
        """Whether the server answers in time; False as soon as it has ended, or when time is up, killed."""
        assert self._process is not None
        gives_up_at = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < gives_up_at:
            if not self._process.running:
                self._process.wait(0)
                return False
            if self._answers(port=port, pid=self._process.pid):
                return True
            time.sleep(POLL_SECONDS)
        self._process.kill()
        return False

    def _log_since(self, offset: int) -> str:
        """The last lines that the server wrote to its log, as far back as `offset`."""
        with self.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(offset, end - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").strip()


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[int]:
    """A locked file descriptor for `folder`; the lock lasts as long as any process has inherited the descriptor.

    Two servers on one folder would write over each other. The server itself holds the lock, not firn, so the folder is
    free exactly when the server is gone.

    Raises:
        Unavailable: another server holds it and does not let go.

    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        gives_up_at = time.monotonic() + FOLDER_WAIT_SECONDS_MAX
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > gives_up_at:
                    msg = f"{folder} is in use by a server that another firn started: stop that, or use another folder"
                    raise Unavailable(msg) from None
                time.sleep(POLL_SECONDS)
        yield fd
    finally:
        os.close(fd)


def _wait_until_stopped(pid: int) -> None:
    """Wait for threads that were at work when their process was told to stop. Only Linux says when all stand still."""
    tasks = Path(f"/proc/{pid}/task")
    ends_at = time.monotonic() + PAUSE_S_MAX
    while tasks.is_dir() and time.monotonic() < ends_at:
        with contextlib.suppress(OSError):  # a thread that has just ended
            if all((task / "stat").read_text().rpartition(")")[2].split()[0] in "Tt" for task in tasks.iterdir()):
                return
        time.sleep(0.001)
