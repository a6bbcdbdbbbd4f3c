"""The process between firn and a server that it started: the server ends when firn does, however firn ends.

Run as a script by `GuardedProcess`, with nothing but the standard library, so that it is up in milliseconds. It
starts the server as its own child and then waits for whichever comes first:

- the server ends: kill what it left behind and exit as it did;
- firn ends: its end of our stdin closes, even after `kill -9`. Should a forked copy of firn hold that end open, our
  parent's process id changes, which we look at once a second. Then the server is killed: both servers write to disk
  before they answer, so nothing is lost;
- this guardian is killed: Linux kills the server (`PR_SET_PDEATHSIG`). That signal is bound to the *thread* that
  forked; this process has only one, which is why firn does not set it itself.

Prints the server's process id on stdout, or a line starting with ``error:``.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys

PARENT_CHECK_SECONDS = 1.0
PR_SET_PDEATHSIG = 1


def die_with(guardian_pid: int) -> None:
    """Between fork and exec of the server: have Linux kill it when its parent ends; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian_pid:  # it ended before we asked
            os._exit(1)


def guard(parent_pid: int, kept_fds: list[int], command: list[str]) -> int:
    """Run `command` until it ends or firn does; returns its exit code, negative if a signal ended it."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    guardian_pid = os.getpid()
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        pass_fds=kept_fds,
        # Safe here, unlike in firn: there is no other thread that could hold a lock while this process forks.
        preexec_fn=lambda: die_with(guardian_pid),  # noqa: PLW1509
        process_group=0,
    )
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    try:
        while (exit_code := server.poll()) is None:
            ready, _, _ = select.select([0, wake_read], [], [], PARENT_CHECK_SECONDS)
            if wake_read in ready:
                os.read(wake_read, 512)
            if os.getppid() != parent_pid or (0 in ready and os.read(0, 1) == b""):
                return -signal.SIGKILL
        return exit_code
    finally:
        # The whole group: Redis may have forked a child that rewrites its log.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def main() -> int:
    """Arguments: firn's process id, file descriptors to keep open for the server (comma-separated), the command."""
    fds = [int(fd) for fd in sys.argv[2].split(",") if fd]
    try:
        return guard(int(sys.argv[1]), fds, sys.argv[3:])
    except OSError as error:
        sys.stdout.write(f"error: {error}\n")
        return 127


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
