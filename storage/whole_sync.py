"""One sync for all files of a batch: a file system that is synced as a whole (``syncfs``).

Syncing four small files and their folder one by one waits for the disk five times. Linux can bring all that was written
to a file system to its disk at once. What others have written there comes along, so this is for times when that is
little. Only where it is known to be as good as a sync of each file: see docs/decisions/0018-one-sync.md.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_log: Final = logging.getLogger(__name__)
"""The process that writes files has no log of its own: what is said here is on the daemon's standard error."""

OTHERS_BYTES_MAX: Final = 16 * 1024 * 1024
"""With more bytes of others that wait to be written, a batch would wait for them: its files are synced one by one."""

UNWRITTEN_S: Final = 0.02
"""How long it is believed how much that is: to ask takes as long as to name four files."""

FILE_SYSTEMS: Final = frozenset({"ext4"})
"""Those of which it was read and tried what a sync as a whole does."""

REPORTS_ERRORS: Final = (5, 8)
"""Since this version of Linux the call says that writing failed since the descriptor was opened."""

_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)

_UNWRITTEN: Final = re.compile(rb"^(?:Dirty|Writeback): *(\d+) kB$", re.MULTILINE)


def syncfs(descriptor: int) -> None:
    """Bring everything written to the file system of `descriptor` to its disk. Raises OSError. Linux only."""
    if _syncfs(descriptor) != 0:  # type: ignore[misc]
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class WholeSync:
    """Syncs of one file system; for threads, of which those that come meanwhile share the next sync.

    `descriptor` is of the file system and was opened before anything was written that is to be synced: an error is
    told to it once, whichever file it is of. So after one nothing is synced this way any more.
    """

    def __init__(self, descriptor: int, *, sync: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._sync = sync
        self._change = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._failed: tuple[int, OSError] | None = None
        """The round that failed, and why."""

    def sync(self) -> bool:
        """Whether all that was written before the call is on the disk now; False where each file has to be asked.

        Raises OSError when something, perhaps of the caller, could not be written.
        """
        with self._change:
            own = self._begun + 1  # a round that has begun may have passed over what was just written
            while self._begun > self._ended and self._ended < own:
                self._change.wait()
            if self._ended >= own or self._failed is not None:
                return self._said(own)
            self._begun += 1
            begun = self._begun
        failed: OSError | None = None
        try:
            self._sync(self._descriptor)
        except OSError as error:
            failed = error
        with self._change:
            if failed is not None:
                self._failed = begun, failed
            self._ended = begun
            self._change.notify_all()
        if failed is not None:
            _log.warning(
                "a file system could not be synced as a whole (%s): from now on files are synced one by one",
                failed.strerror,
            )
        return self._said(begun)

    def close(self) -> None:
        """Give the descriptor up."""
        os.close(self._descriptor)

    def _said(self, own: int) -> bool:
        if self._failed is None:
            return True
        number, error = self._failed
        if number == own:
            raise OSError(error.errno, error.strerror)
        return own < number


class WholeSyncs:
    """The file systems that can be synced as a whole, as they are met; for threads."""

    def __init__(
        self,
        *,
        sync: Callable[[int], None] = syncfs,
        unwritten_bytes: Callable[[], int | None] | None = None,
        is_fit: Callable[[int], bool] | None = None,
    ) -> None:
        self._sync = sync
        self._unwritten_bytes = unwritten_bytes or _Unwritten()
        self._is_fit = is_fit or _is_fit
        self._lock = threading.Lock()
        self._of_devices: dict[int, WholeSync | None] = {}

    def of(self, descriptors: Iterable[int], *, folder: str, own_bytes: int) -> WholeSync | None:
        """That of the file system of open files, one of them in `folder`, `own_bytes` of which were just written.

        None where they are to be synced one by one, as when a file system is met for the first time: errors are only
        told of what is written after that.
        """
        devices = {os.fstat(descriptor).st_dev for descriptor in descriptors}
        if len(devices) != 1:
            return None
        (device,) = devices
        if device not in self._of_devices:
            self._meet(device, folder)
            return None
        found = self._of_devices[device]
        if found is None:
            return None
        unwritten = self._unwritten_bytes()
        return found if unwritten is not None and unwritten <= OTHERS_BYTES_MAX + own_bytes else None

    def close(self) -> None:
        """Give up the descriptors, which keep file systems from being unmounted; nothing may be written meanwhile."""
        with self._lock:
            for whole in self._of_devices.values():
                if whole is not None:
                    whole.close()
            self._of_devices.clear()

    def _meet(self, device: int, folder: str) -> None:
        with self._lock:
            if device in self._of_devices:
                return
            if not self._is_fit(device):
                self._of_devices[device] = None
                return
            try:
                opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError:  # it has gone again: the next batch may meet it
                return
            if os.fstat(opened).st_dev == device:
                self._of_devices[device] = WholeSync(opened, sync=self._sync)
            else:  # a file with a mount of its own
                os.close(opened)
                self._of_devices[device] = None


class _Unwritten:
    """Bytes in memory that wait to be written, of all file systems: as they were at most `UNWRITTEN_S` ago."""

    def __init__(self) -> None:
        self._read_at = -UNWRITTEN_S
        self._found: int | None = None
        try:
            self._descriptor = os.open("/proc/meminfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    def __call__(self) -> int | None:
        """None where the system does not say."""
        now = time.monotonic()
        if now - self._read_at >= UNWRITTEN_S:
            self._read_at, self._found = now, self._read()
        return self._found

    def _read(self) -> int | None:
        try:
            found = _UNWRITTEN.findall(os.pread(self._descriptor, 8192, 0))
        except OSError:
            return None
        return sum(map(int, found)) * 1024 if len(found) == 2 else None


def _is_fit(device: int) -> bool:
    """Whether the device has a file system that is known to be synced as a whole as well as file by file."""
    if _syncfs is None or _version() < REPORTS_ERRORS:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    # <id> <parent> <device> <root> <mount point> <options> [<tags> …] - <type> <source> <options>
    kinds = {behind.split()[0] for mount, _, behind in (line.partition(" - ") for line in mounts)
             if mount.split()[2] == number}  # fmt: skip
    return bool(kinds) and kinds <= FILE_SYSTEMS


def _version() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (0, 0) if found is None else (int(found[1]), int(found[2]))
