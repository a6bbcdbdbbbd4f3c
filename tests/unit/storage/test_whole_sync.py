"""A file system is synced as a whole: who shares a sync, who hears of an error, where each file is synced instead."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from firn.model.errors import Unavailable
from firn.storage import whole_sync
from firn.storage.local_files import LocalFiles
from firn.storage.whole_sync import OTHERS_BYTES_MAX, WholeSync, WholeSyncs, syncfs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has syncfs")

FAILED = OSError(errno.EIO, os.strerror(errno.EIO))


class Kernel:
    """Syncs that wait until they are let go, and fail as often as `failing` says."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.rounds = 0
        self.failing: set[int] = set()

    def __call__(self, descriptor: int) -> None:
        self.rounds += 1
        number = self.rounds
        self.begun.release()
        assert self.go.acquire(timeout=10)
        if number in self.failing:
            raise FAILED


class Disk:
    """What was synced, and how."""

    def __init__(self) -> None:
        self.whole = 0
        self.one_by_one = 0
        self.unwritten: int | None = 0
        self.fit = True
        self.error: OSError | None = None

    def sync(self, descriptor: int) -> None:
        os.fstat(descriptor)  # it is open
        self.whole += 1
        if self.error is not None:
            raise self.error

    def fsync(self, descriptor: int) -> None:
        self.one_by_one += 1
        os.fsync(descriptor)

    def files(self) -> LocalFiles:
        syncs = WholeSyncs(sync=self.sync, unwritten_bytes=lambda: self.unwritten, is_fit=lambda _: self.fit)
        return LocalFiles(fsync=self.fsync, whole_syncs=syncs)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def write(disk: Disk, tmp_path: Path) -> Callable[[str], list[Path]]:
    """Write two files whose names begin so; they are checked."""
    files = disk.files()

    def _write(name: str) -> list[Path]:
        paths = [tmp_path / f"{name}{number}" for number in range(2)]
        files.create_all([(str(path), f"of {path.name}".encode()) for path in paths])
        assert [path.read_text() for path in paths] == [f"of {path.name}" for path in paths]
        return paths

    return _write


def waits(sync: WholeSync, number: int) -> None:
    """Wait until so many threads wait for a round."""
    for _ in range(10_000):
        with sync._change:
            if len(sync._change._waiters) == number:  # type: ignore[attr-defined]
                return
        threading.Event().wait(0.001)
    raise AssertionError("nobody waits")


def test_who_comes_while_a_sync_is_under_way_shares_the_next() -> None:
    kernel = Kernel()
    sync = WholeSync(0, sync=kernel)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(sync.sync)
        assert kernel.begun.acquire(timeout=10)
        others = [threads.submit(sync.sync) for _ in range(7)]
        waits(sync, 7)
        kernel.go.release()
        assert first.result(timeout=10)
        assert kernel.begun.acquire(timeout=10)
        assert not any(other.done() for other in others), "the first may have passed over what they had written"
        kernel.go.release()
        assert all(other.result(timeout=10) for other in others)
    assert kernel.rounds == 2


def test_an_error_is_told_to_all_of_a_round_and_later_each_file_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[Any, ...]] = []
    monkeypatch.setattr(whole_sync._log, "warning", lambda *words: said.append(words))
    kernel = Kernel()
    kernel.failing = {2}
    sync = WholeSync(0, sync=kernel)
    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(sync.sync)
        assert kernel.begun.acquire(timeout=10)
        second = [threads.submit(sync.sync) for _ in range(3)]
        waits(sync, 3)
        kernel.go.release()
        assert kernel.begun.acquire(timeout=10)
        # What was written while that round was under way may be what it was told of.
        third = [threads.submit(sync.sync) for _ in range(3)]
        waits(sync, 5)
        kernel.go.release()
        assert first.result(timeout=10) is True
        for one in second:
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                one.result(timeout=10)
        assert [one.result(timeout=10) for one in third] == [False] * 3
        assert sync.sync() is False
    assert kernel.rounds == 2
    ((_, reason),) = said
    assert reason == os.strerror(errno.EIO)


def test_files_that_come_together_are_synced_by_one_call(disk: Disk, write: Any) -> None:
    write("a")
    assert (disk.whole, disk.one_by_one) == (0, 3), "errors are told of what is written from here on only"
    write("b")
    assert (disk.whole, disk.one_by_one) == (1, 4), "the folder's sync has the disk keep what it was given"


def test_where_others_have_much_to_write_each_file_is_synced(disk: Disk, write: Any) -> None:
    write("a")
    for unwritten in (2 * OTHERS_BYTES_MAX, None):
        disk.unwritten = unwritten
        write(f"b{unwritten}")
    assert (disk.whole, disk.one_by_one) == (0, 9)
    disk.unwritten = OTHERS_BYTES_MAX
    write("c")
    assert (disk.whole, disk.one_by_one) == (1, 10)


def test_own_bytes_are_not_others(disk: Disk, tmp_path: Path) -> None:
    files = disk.files()
    files.create_all([(f"{tmp_path}/{name}", b"") for name in "ab"])
    disk.unwritten = OTHERS_BYTES_MAX + 1_000
    files.create_all([(f"{tmp_path}/{name}", bytes(500)) for name in "cd"])
    assert disk.whole == 1
    files.create_all([(f"{tmp_path}/{name}", bytes(499)) for name in "ef"])
    assert disk.whole == 1


def test_file_systems_of_which_nothing_is_known_are_synced_file_by_file(disk: Disk, write: Any) -> None:
    disk.fit = False
    for name in "abc":
        write(name)
    assert (disk.whole, disk.one_by_one) == (0, 9)


def test_files_of_a_sync_that_failed_are_not_there_and_the_next_are_synced_one_by_one(
    disk: Disk, write: Any, tmp_path: Path
) -> None:
    write("a")
    disk.error = FAILED
    with pytest.raises(Unavailable, match=os.strerror(errno.EIO)):
        write("b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a0", "a1"]
    disk.error = None
    write("b")
    assert (disk.whole, disk.one_by_one) == (1, 6)


def test_two_file_systems_are_synced_file_by_file(disk: Disk, tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    elsewhere = other / f"firn-{os.getpid()}"
    files = disk.files()
    try:
        for number in range(2):
            files.create_all([(f"{tmp_path}/{number}", b"1"), (f"{elsewhere}/{number}", b"2")])
    finally:
        for path in elsewhere.iterdir():
            path.unlink()
        elsewhere.rmdir()
    assert disk.whole == 0


@pytest.mark.parametrize(
    ("mounts", "release", "fit"),
    [
        (["7:1 / /a rw - ext4 /dev/x rw"], "6.1.0-9", True),
        (["7:1 / /a rw shared:1 master:2 - ext4 /dev/x rw", "7:1 /b /c ro - ext4 /dev/x rw"], "5.8", True),
        (["7:1 / /a rw - ext4 /dev/x rw"], "5.7.19", False),
        (["7:1 / /a rw - ext4 /dev/x rw"], "4.18.0-553.el8", False),
        (["7:1 / /a rw - xfs /dev/x rw"], "6.1.0", False),
        (["7:11 / /a rw - ext4 /dev/x rw"], "6.1.0", False),
        ([], "6.1.0", False),
    ],
)  # fmt: skip
def test_which_file_systems_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: list[str], release: str, fit: bool
) -> None:
    listed = tmp_path / "mountinfo"
    listed.write_text("".join(f"1 0 {mount}\n" for mount in ["0:5 / /proc rw - proc proc rw", *mounts]))
    monkeypatch.setattr(whole_sync, "Path", lambda _: listed)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", release, "", "")))
    assert whole_sync._is_fit(os.makedev(7, 1)) is fit


def test_the_call_itself(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.write(b"x")
        file.flush()
        syncfs(file.fileno())
        number = file.fileno()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        syncfs(number)


def test_this_machine_says_how_much_waits_to_be_written() -> None:
    found = whole_sync._Unwritten()()
    assert found is not None
    assert found >= 0


def test_what_is_unwritten_is_asked_again_after_a_moment(monkeypatch):
    now, said = [100.0], [b"Dirty:              8 kB\nWriteback:          0 kB\n"]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "pread", lambda *_: said[0])
    unwritten = whole_sync._Unwritten()
    assert unwritten() == 8 * 1024
    said[0] = b"Dirty:             90 kB\nWriteback:         10 kB\n"
    assert unwritten() == 8 * 1024
    now[0] += 2 * whole_sync.UNWRITTEN_S
    assert unwritten() == 100 * 1024
    said[0] = b"nothing of the kind"
    now[0] += 2 * whole_sync.UNWRITTEN_S
    assert unwritten() is None
