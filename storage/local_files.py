"""Files on a local or mounted POSIX file system.

A new file is written under a hidden name in its folder, synced, and then linked to its own name: `link` fails when the
name is taken, where `rename` would overwrite, and nobody ever sees half a file. The folder is synced last. Files that
come together (`create_all`) have names that nobody looks for yet, and are written under these.
"""

# Flags, descriptors and link counts are the point here; pathlib hides them.
# ruff: noqa: PTH102, PTH105, PTH108, PTH112, PTH116, PTH120

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NoReturn, Self, TypeAlias

import msgspec

from firn.model.errors import (
    AlreadyExists,
    CorruptFile,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.files import FileInfo, check_range, too_large
from firn.storage.locations import FILE_SCHEME, TEMPORARY_PREFIX, normalize, scheme_of
from firn.storage.whole_sync import WholeSyncs
from firn.storage.write_back import begin_writing_back, write_piecewise

PARALLEL_WRITES: Final = 32

FAST_SYNC_S: Final = 0.001

Bytes: TypeAlias = bytes | memoryview


class Rest(msgspec.Struct, frozen=True):
    """What a file has beside what is in one without a name already, which may be empty. Whose that is, closes it.

    `places` say where the data belong, start and size in order; where there are none, behind what is there.
    """

    descriptor: int
    data: Bytes
    places: tuple[tuple[int, int], ...] = ()


_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV})
_BAD_NAMES = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EILSEQ, errno.ENXIO}
)


class LocalFiles:
    """The `FileStore` of plain absolute paths and ``file:`` URIs.

    `fsync` is what makes data durable; tests replace it to see a disk fail. With `whole_syncs` files that come together
    are synced by one call where that can be.
    """

    def __init__(self, *, fsync: Callable[[int], None] = os.fsync, whole_syncs: WholeSyncs | None = None) -> None:
        self._fsync = fsync
        self._whole_syncs = whole_syncs
        self._pool = ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="firn-files")
        self._sync_s = math.inf
        """How long a sync took the last time."""

    def read(self, location: str, *, bytes_max: int) -> bytes:
        with _Regular(location) as file:
            if file.size > bytes_max:
                raise too_large(location, size=file.size, bytes_max=bytes_max)
            return file.read(offset=0, length=file.size)

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        check_range(location, offset=offset, length=length)
        with _Regular(location) as file:
            if offset + length > file.size:
                raise CorruptFile(location, f"has {file.size} bytes, and {offset + length} were expected")
            return file.read(offset=offset, length=length)

    def create(self, location: str, data: Bytes) -> None:
        path = _path(location)
        self._link_new(location, path, data)
        self._sync_folder(location, os.path.dirname(path))

    def create_all(self, files: Sequence[tuple[str, Bytes | Rest]]) -> None:
        """As the port says, in one round: everything is written, then all files and folders are synced at once.

        So a machine that dies in between may leave a file under its name that is not whole. Names that come in company
        are new, and nothing refers to them before this returns.
        """
        match files:
            case []:
                return
            case [(location, data)] if not isinstance(data, Rest):
                self.create(location, data)
                return
        paths = [_path(location) for location, _ in files]
        opened: list[int] = []
        named: list[tuple[str, str, int]] = []
        try:
            for (location, data), path in zip(files, paths, strict=True):
                if isinstance(data, Rest):
                    self._finish(location, path, data)
                    descriptor = data.descriptor
                else:
                    descriptor = self._open_new(location, path)
                    opened.append(descriptor)
                    _write_named(location, path, descriptor, data)
                begin_writing_back(descriptor)
                named.append((location, path, descriptor))
            folders = [
                (location, folder)
                for folder, location in {os.path.dirname(path): location for location, path, _ in named}.items()
            ]
            if not self._synced_as_a_whole(named, folders, own_bytes=sum(map(_size, files))):
                self._sync_all(named, folders)
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _synced_as_a_whole(
        self, files: Sequence[tuple[str, str, int]], folders: Sequence[tuple[str, str]], *, own_bytes: int
    ) -> bool:
        """Whether files (as `_sync_all` has them) and folders were synced with all their file system."""
        if self._whole_syncs is None:
            return False
        descriptors = [descriptor for _, _, descriptor in files]
        whole = self._whole_syncs.of(descriptors, folder=folders[0][1], own_bytes=own_bytes)
        try:
            if whole is None or not whole.sync():
                return False
        except OSError as error:
            for _, path, _ in files:
                _discard(path)
            _raise(files[0][0], error)
        # What says where files are may be written after the disk was told to keep what it has. It is told again by
        # the sync of any folder.
        self._sync_folder(*folders[0])
        return True

    def _sync_all(self, files: Sequence[tuple[str, str, int]], folders: Sequence[tuple[str, str]]) -> None:
        """Sync files (location, path, descriptor) and folders (location of something in it, path), whichever fails.

        At once, unless the disk is so fast that waking threads takes longer. Raises the first error.
        """
        own, *others = files
        at_once = self._sync_s > FAST_SYNC_S
        under_way: list[Future[None]] = []
        if at_once:
            under_way = [self._pool.submit(self._sync_named, *file) for file in others]
            under_way += [self._pool.submit(self._sync_folder, *folder) for folder in folders]
        started = time.perf_counter()
        errors = [_error_of(self._sync_named, *own)]
        self._sync_s = time.perf_counter() - started
        if at_once:
            errors += [sync.exception() for sync in under_way]
        else:
            errors += [_error_of(self._sync_named, *file) for file in others]
            errors += [_error_of(self._sync_folder, *folder) for folder in folders]
        for error in errors:
            if error is not None:
                raise error

    def _finish(self, location: str, path: str, rest: Rest) -> None:
        """Write the rest of a file that has been begun, and give it its name."""
        try:
            _write_rest(rest)
            try:
                _name(rest.descriptor, path)
            except FileNotFoundError:  # its folder has gone since it was begun
                self._make_folder(os.path.dirname(path))
                _name(rest.descriptor, path)
        except FileExistsError as error:
            raise AlreadyExists(location) from error
        except FileNotFoundError as error:  # the folder is there, so it is `/proc` that is not
            raise Unavailable(f"{location}: a file without a name could not be given one: {error.strerror}") from error
        except OSError as error:
            _raise(location, error)

    def _sync_named(self, location: str, path: str, descriptor: int) -> None:
        try:
            self._fsync(descriptor)
        except OSError as error:
            _discard(path)  # the kernel may have dropped its content, and nobody knows of it
            _raise(location, error)

    def replace(self, location: str, data: bytes) -> None:
        path = _path(location)
        temporary = self._write_temporary(location, path, data)
        try:
            os.replace(temporary, path)
        except OSError as error:
            _discard(temporary)
            _raise(location, error)
        self._sync_folder(location, os.path.dirname(path))

    def size(self, location: str) -> int:
        with _Regular(location) as file:
            return file.size

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        root = _path(prefix)
        given = prefix.rstrip("/")
        folders, start = [root], None if after is None else _path(after)
        while folders:
            folder = folders.pop()
            for name, found in _scanned(prefix, folder):
                path = f"{folder.rstrip('/')}/{name}"
                if stat.S_ISDIR(found.st_mode):
                    folders.append(path)
                elif stat.S_ISREG(found.st_mode) and (start is None or path > start):
                    location = given + path[len(root.rstrip("/")) :]
                    yield FileInfo(location=location, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def delete(self, location: str) -> None:
        try:
            os.unlink(_path(location))
        except FileNotFoundError:
            return
        except OSError as error:
            _raise(location, error)

    def close(self) -> None:
        """Stop the writing threads."""
        self._pool.shutdown()
        if self._whole_syncs is not None:
            self._whole_syncs.close()

    def _link_new(self, location: str, path: str, data: Bytes) -> None:
        self._link(location, self._write_temporary(location, path, data), path)

    def _link(self, location: str, temporary: str, path: str) -> None:
        """Give a file its name, and take its hidden one."""
        try:
            os.link(temporary, path, follow_symlinks=False)
        except FileExistsError as error:
            # Over NFS a repeated request is told "exists" of the link that it made itself: two names say it was ours.
            if os.stat(temporary, follow_symlinks=False).st_nlink != 2:
                raise AlreadyExists(location) from error
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise Misconfigured(
                    f"{location}: this file system has no hard links, without which two writers overwrite each other"
                ) from error
            _raise(location, error)
        finally:
            _discard(temporary)

    def _write_temporary(self, location: str, path: str, data: Bytes) -> str:
        """Write and sync `data` under a hidden name beside `path`; its name. After any error nothing is left."""
        temporary, descriptor = self._open_temporary(location, path)
        try:
            write_piecewise(descriptor, data)
            self._fsync(descriptor)
        except OSError as error:
            # The kernel may have dropped the dirty pages with the error: a second fsync would lie. The file is void.
            _discard(temporary)
            _raise(location, error)
        except BaseException:
            _discard(temporary)
            raise
        finally:
            os.close(descriptor)
        return temporary

    def _open_temporary(self, location: str, path: str) -> tuple[str, int]:
        """A new hidden file beside `path`: its name and its descriptor."""
        temporary = f"{os.path.dirname(path)}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}.tmp"
        return temporary, self._open_new(location, temporary)

    def _open_new(self, location: str, path: str) -> int:
        """The descriptor of a new, empty file, whose folder is made where it is missing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                return os.open(path, flags, 0o666)
            except FileNotFoundError:
                self._make_folder(os.path.dirname(path))
                return os.open(path, flags, 0o666)
        except FileExistsError as error:
            raise AlreadyExists(location) from error
        except OSError as error:
            _raise(location, error)

    def _make_folder(self, folder: str) -> None:
        """Make a folder and those above it, each durable in the one above it."""
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            self._sync_path(os.path.dirname(path))

    def _sync_folder(self, location: str, folder: str) -> None:
        try:
            self._sync_path(folder)
        except OSError as error:
            # The file has its name already and somebody may have read it; whether it survives a crash, nobody knows.
            raise UnknownOutcome(f"{location}: its folder could not be synced: {error.strerror}") from error

    def _sync_path(self, folder: str) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._fsync(descriptor)
        finally:
            os.close(descriptor)


class _Regular:
    """A regular file, open for reading."""

    def __init__(self, location: str) -> None:
        self._location = location
        # NONBLOCK: opening a FIFO must not wait for a writer. NOFOLLOW: a link may point anywhere.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._descriptor = os.open(_path(location), flags)
        except OSError as error:
            _raise(location, error)
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._descriptor)
            raise InvalidInput("is not a regular file", where=location)
        self.size = found.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, *, offset: int, length: int) -> bytes:
        parts = []
        left = length
        while left:
            try:
                part = os.pread(self._descriptor, left, offset + length - left)
            except OSError as error:
                _raise(self._location, error)
            if not part:
                raise CorruptFile(self._location, f"ended {left} bytes before the size it has")
            parts.append(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _size(file: tuple[str, Bytes | Rest]) -> int:
    _, data = file
    return len(data.data if isinstance(data, Rest) else data)


def _write_named(location: str, path: str, descriptor: int, data: Bytes) -> None:
    """Write a new file that has its name already; without it again when that fails."""
    try:
        _write(descriptor, data)
    except OSError as error:
        _discard(path)
        _raise(location, error)


def _write(descriptor: int, data: Bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _write_rest(rest: Rest) -> None:
    if not rest.places:
        _write(rest.descriptor, rest.data)
    view = memoryview(rest.data)
    for start, size in rest.places:
        part, view, at = view[:size], view[size:], start
        while part:
            written = os.pwrite(rest.descriptor, part, at)
            part, at = part[written:], at + written


def _name(descriptor: int, path: str) -> None:
    """Give a file a name that it has not."""
    # Python has the link followed that this path is only when it gets a descriptor; an absolute path ignores that.
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)


def _path(location: str) -> str:
    if scheme_of(location) != FILE_SCHEME:
        raise InvalidInput("is not a local path", where=location)
    return normalize(location)


def _scanned(prefix: str, folder: str) -> list[tuple[str, os.stat_result]]:
    """A folder's entries with their stats, sorted by name; links are not followed."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:  # removed since
                    continue
    except FileNotFoundError:
        return []
    except OSError as error:
        _raise(prefix, error)
    return sorted(found, key=lambda item: item[0])


def _error_of(work: Callable[..., None], *arguments: object) -> BaseException | None:
    try:
        work(*arguments)
    except BaseException as error:  # noqa: BLE001 - the caller raises it, when the others have ended
        return error
    return None


def _discard(temporary: str) -> None:
    """Remove a temporary file as well as can be; the sweep finds what stays."""
    try:
        os.unlink(temporary)
    except OSError:
        return


def _raise(location: str, error: OSError) -> NoReturn:
    """An operating system's error as one of ours."""
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        raise NotFound(f"there is no file {location}") from error
    if error.errno == errno.ELOOP:
        raise InvalidInput("is a symbolic link", where=location) from error
    if error.errno in _BAD_NAMES:
        raise InvalidInput(reason, where=location) from error
    raise Unavailable(f"{location}: {reason}") from error
