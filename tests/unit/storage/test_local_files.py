"""The local disk: what is not a regular file is never touched, and what did not reach the disk never counts."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from firn.model.errors import AlreadyExists, CorruptFile, InvalidInput, Misconfigured, Unavailable, UnknownOutcome
from firn.storage.local_files import LocalFiles
from firn.storage.locations import TEMPORARY_PREFIX


@pytest.fixture
def files():
    files = LocalFiles()
    yield files
    files.close()


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "link", "dangling link", "socket"])
def test_only_regular_files_are_read(files, tmp_path, kind):
    path = tmp_path / "x"
    (tmp_path / "secret").write_bytes(b"secret")
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path = "/dev/zero"
        case "link":
            path.symlink_to(tmp_path / "secret")
        case "dangling link":
            path.symlink_to(tmp_path / "none")
        case "socket":
            script = "import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
            subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    for attempt in (
        lambda: files.read(str(path), bytes_max=100),
        lambda: files.read_range(str(path), offset=0, length=1),
        lambda: files.size(str(path)),
    ):
        with pytest.raises(InvalidInput):
            attempt()


def test_a_name_that_a_link_or_folder_has_is_taken(files, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        with pytest.raises(AlreadyExists):
            files.create(str(tmp_path / name), b"x")
    assert not (tmp_path / "target").exists()


def test_links_and_devices_are_not_listed_and_not_followed(files, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"1")
    table = tmp_path / "t"
    table.mkdir()
    (table / "a").write_bytes(b"1")
    (table / "link").symlink_to(outside / "secret")
    (table / "folder").symlink_to(outside)
    os.mkfifo(table / "fifo")
    assert [info.location for info in files.list(str(table))] == [f"{table}/a"]


def test_the_form_of_the_prefix_is_the_form_of_what_is_listed(files, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    for prefix in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}", f"file://localhost{tmp_path}/"):
        (found,) = files.list(prefix)
        assert found.location == f"{prefix.rstrip('/')}/a"
        assert files.read(found.location, bytes_max=1) == b"1"


def test_a_file_and_its_folder_are_synced_before_create_returns(tmp_path):
    inodes: list[int] = []
    files = LocalFiles(fsync=lambda descriptor: inodes.append(os.fstat(descriptor).st_ino))

    def synced():
        """What was synced since the last call; a hidden file and its later name are one inode."""
        paths = {path.stat().st_ino: str(path.relative_to(tmp_path)) for path in [tmp_path, *tmp_path.rglob("*")]}
        found = [paths[inode] for inode in inodes]
        inodes.clear()
        return found

    files.create(f"{tmp_path}/new/folder/file", b"1")
    # Folders first, each in the one above it, so that they are there after a crash, too.
    assert synced() == [".", "new", "new/folder/file", "new/folder"]
    (tmp_path / "p").mkdir()
    (tmp_path / "q").mkdir()
    files.create_all([(f"{tmp_path}/{folder}/{n}", b"x") for n in range(3) for folder in ("p", "q")])
    assert sorted(synced()) == ["p", "p/0", "p/1", "p/2", "q", "q/0", "q/1", "q/2"]
    files.replace(f"{tmp_path}/hint", b"2")
    assert synced() == ["hint", "."]
    files.close()


@pytest.mark.parametrize("reason", [errno.EIO, errno.ENOSPC])
def test_a_file_that_could_not_be_synced_never_gets_its_name(tmp_path, reason):
    def fsync(_descriptor):
        raise OSError(reason, os.strerror(reason))

    files = LocalFiles(fsync=fsync)
    for attempt in (
        lambda: files.create(f"{tmp_path}/a", b"1"),
        lambda: files.create_all([(f"{tmp_path}/{name}", b"1") for name in "abc"]),
        lambda: files.replace(f"{tmp_path}/a", b"1"),
    ):
        with pytest.raises(Unavailable, match="/a: ") as raised:
            attempt()
        assert not isinstance(raised.value, UnknownOutcome)
    assert names(tmp_path) == []
    files.close()


def test_when_the_folder_cannot_be_synced_nobody_knows_and_nothing_is_deleted(tmp_path):
    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "I/O error")

    files = LocalFiles(fsync=fsync)
    with pytest.raises(UnknownOutcome):
        files.create(f"{tmp_path}/v2.metadata.json", b"1")
    with pytest.raises(UnknownOutcome):
        files.create_all([(f"{tmp_path}/{name}", b"1") for name in "ab"])
    assert names(tmp_path) == ["a", "b", "v2.metadata.json"]
    files.close()


def test_a_refused_create_leaves_nothing_hidden_behind(files, tmp_path):
    files.create(f"{tmp_path}/a", b"1")
    with pytest.raises(AlreadyExists):
        files.create(f"{tmp_path}/a", b"2")
    with pytest.raises(AlreadyExists):
        files.create_all([(f"{tmp_path}/a", b"2"), (f"{tmp_path}/b", b"3")])
    assert names(tmp_path) == ["a"]


def test_a_process_killed_while_writing_leaves_no_file_under_the_name(tmp_path):
    script = f"""
import os, signal
from firn.storage.local_files import LocalFiles
files = LocalFiles(fsync=lambda descriptor: os.kill(os.getpid(), signal.SIGKILL))
files.create({str(tmp_path / "v2.json")!r}, b"x" * 100000)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -9
    (leftover,) = names(tmp_path)
    assert leftover.startswith(TEMPORARY_PREFIX)
    files = LocalFiles()
    assert [info.location for info in files.list(str(tmp_path))] == [f"{tmp_path}/{leftover}"]  # for the sweep
    files.create(f"{tmp_path}/v2.json", b"whole")
    files.close()


def test_a_file_system_without_hard_links_is_refused_and_not_worked_around(files, tmp_path, monkeypatch):
    def link(*_arguments, **_options):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(Misconfigured, match="hard links"):
        files.create(f"{tmp_path}/a", b"1")
    assert names(tmp_path) == []


def test_a_link_that_was_made_but_is_reported_as_existing_was_ours(files, tmp_path, monkeypatch):
    """NFS: the request is sent again after a lost reply, and the second one finds what the first did."""
    real = os.link

    def link(source, target, **options):
        real(source, target, **options)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    files.create(f"{tmp_path}/a", b"1")
    assert files.read(f"{tmp_path}/a", bytes_max=1) == b"1"


def test_a_file_that_shrinks_while_it_is_read_is_corrupt(files, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 4), offset) if offset < 4 else b"")
    with pytest.raises(CorruptFile, match="6 bytes before"):
        files.read(str(path), bytes_max=100)
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 3), offset))
    assert files.read(str(path), bytes_max=100) == b"0123456789"  # a short answer alone is no short file


@pytest.mark.parametrize("name", ["x" * 256, "file/below-a-file"])
def test_names_that_the_file_system_refuses_are_invalid(files, tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput):
        files.create(f"{tmp_path}/{name}", b"")
    with pytest.raises(InvalidInput):
        files.read(f"{tmp_path}/{name}", bytes_max=1)


def test_a_name_of_the_greatest_length_can_be_created(files, tmp_path):
    files.create(f"{tmp_path}/{'x' * 255}", b"1")
    assert names(tmp_path) == ["x" * 255]


def test_a_folder_cannot_be_deleted(files, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises((InvalidInput, Unavailable)):
        files.delete(f"{tmp_path}/folder")
    assert (tmp_path / "folder").is_dir()


def test_other_schemes_are_none_of_its_business(files):
    with pytest.raises(InvalidInput):
        files.read("s3://bucket/key", bytes_max=1)
