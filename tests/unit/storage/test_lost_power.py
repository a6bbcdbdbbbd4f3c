"""A machine that loses its power right after files were written: they are there when it comes back, whole.

On a file system of its own, in a file, of which a copy is what a disk would have kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firn.storage.local_files import LocalFiles
from firn.storage.whole_sync import WholeSyncs, syncfs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has syncfs"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system"),
    pytest.mark.skipif(not (shutil.which("mkfs.ext4") and shutil.which("losetup")), reason="there is no mkfs.ext4"),
]

FILES = {f"{folder}/{name}": os.urandom(size) for folder, name, size in [
    ("db/t/metadata", "manifest.avro", 3_000), ("db/t/metadata", "list.avro", 7_000),
    ("db/t/metadata", "00001.metadata.json", 700_000), (".firn/journal/t", "segment", 2_500),
]}  # fmt: skip


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir()
    found = subprocess.run(["mount", "-o", "loop", image, at], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {found.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


def after_power_was_lost(folder: Path, files: LocalFiles, *, journal: bool) -> dict[str, bytes | None]:
    """What is there of `FILES`, the second batch of `files` on a disk that loses its power when that is written."""
    image, kept = folder / "disk", folder / "kept"
    with image.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    features = "has_journal" if journal else "^has_journal"
    subprocess.run(["mkfs.ext4", "-q", "-O", features, image], check=True)
    with mounted(image, folder / "before") as root:
        files.create_all([(f"{root}/first/{number}", b"first") for number in range(2)])
        files.create_all([(f"{root}/{name}", content) for name, content in FILES.items()])
        shutil.copyfile(image, kept)
        files.close()
    checked = subprocess.run(["e2fsck", "-fy", kept], capture_output=True, text=True, check=False)
    assert checked.returncode in (0, 1), checked.stdout  # 1: mended, which a journal is for
    with mounted(kept, folder / "after") as root:
        paths = {name: root / name for name in FILES}
        return {name: path.read_bytes() if path.exists() else None for name, path in paths.items()}


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "no-journal"])
def test_what_was_synced_as_a_whole_is_there(tmp_path: Path, journal: bool) -> None:
    synced = []

    def sync(descriptor: int) -> None:
        synced.append(descriptor)
        syncfs(descriptor)

    files = LocalFiles(whole_syncs=WholeSyncs(sync=sync, unwritten_bytes=lambda: 0))
    assert after_power_was_lost(tmp_path, files, journal=journal) == FILES
    assert len(synced) == 1


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "no-journal"])
def test_what_was_not_synced_is_not(tmp_path: Path, journal: bool) -> None:
    """Otherwise this would show nothing."""
    syncs = WholeSyncs(sync=lambda _: None, unwritten_bytes=lambda: 0)
    files = LocalFiles(fsync=lambda _: None, whole_syncs=syncs)
    assert after_power_was_lost(tmp_path, files, journal=journal) != FILES
