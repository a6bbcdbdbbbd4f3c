"""A large file reaches the disk in pieces, whole, and an error of any piece is heard of."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Any

import pytest

from firn.model.errors import FirnError
from firn.storage import write_back
from firn.storage.local_files import LocalFiles
from firn.storage.write_back import PIECE_BYTES, write_piecewise

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sync_file_range")

LARGE = os.urandom(3 * PIECE_BYTES + 7)


class Kernel:
    """`sync_file_range` that answers with an error from the call `failing` on; what it was asked for."""

    def __init__(self, number: int = 0, *, failing: int = 0) -> None:
        self.asked: list[tuple[int, int]] = []
        self._number, self._failing = number, failing

    def __call__(self, descriptor: int, start: int, size: int, flags: int) -> int:
        self.asked.append((start, size))
        if not self._number or len(self.asked) <= self._failing:
            return 0
        ctypes.set_errno(self._number)
        return -1


def test_what_is_written_is_there_whatever_its_size(tmp_path: Any) -> None:
    files = LocalFiles()
    for size in (0, 1, PIECE_BYTES, PIECE_BYTES + 1, len(LARGE)):
        files.create(f"{tmp_path}/{size}", LARGE[:size])
        assert (tmp_path / str(size)).read_bytes() == LARGE[:size]
    files.close()


def test_a_large_file_is_waited_for_piece_by_piece_and_a_small_one_is_not(tmp_path: Any, monkeypatch: Any) -> None:
    kernel = Kernel()
    monkeypatch.setattr(write_back, "_sync_file_range", kernel)
    with (tmp_path / "x").open("wb") as file:
        write_piecewise(file.fileno(), LARGE[:PIECE_BYTES])
        assert kernel.asked == []
        write_piecewise(file.fileno(), memoryview(LARGE))
    assert kernel.asked == [(n * PIECE_BYTES, min(PIECE_BYTES, len(LARGE) - n * PIECE_BYTES)) for n in range(4)]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_where_nobody_waits_for_pieces_the_file_is_whole(tmp_path: Any, monkeypatch: Any, number: int) -> None:
    kernel = Kernel(number)
    monkeypatch.setattr(write_back, "_sync_file_range", kernel)
    files = LocalFiles()
    files.create(f"{tmp_path}/x", LARGE)
    assert (tmp_path / "x").read_bytes() == LARGE
    assert len(kernel.asked) == 1
    files.close()


def test_a_piece_that_did_not_reach_the_disk_fails_the_file(tmp_path: Any, monkeypatch: Any) -> None:
    """The kernel tells of it once: the sync would say that all is well."""
    monkeypatch.setattr(write_back, "_sync_file_range", Kernel(errno.EIO, failing=1))
    files = LocalFiles()
    with pytest.raises(FirnError):
        files.create(f"{tmp_path}/x", LARGE)
    assert list(tmp_path.iterdir()) == []
    files.close()
