"""The local folders that a daemon writes to, held to be the ones they were (`firn.storage.marked_folders`).

The first daemon that starts with a folder marks it: a file in the folder, then its text in ZooKeeper. Every later one
takes the mark from ZooKeeper, whether or not it finds the folder: the disk may be mounted later.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from pathlib import Path
from typing import Any, Final

from firn.coordinator.config import Settings
from firn.model.errors import AlreadyExists, FirnError, Unavailable
from firn.storage.files import FileStore
from firn.storage.folder_marks import FolderMarks
from firn.storage.locations import FILE_SCHEME, MARK_NAME, normalize, scheme_of
from firn.storage.log import get_logger
from firn.storage.marked_folders import MarkedFolders, read_mark
from firn.storage.sessions import Session

DISK_S: Final = 15.0
"""How long a start waits for a disk that does not answer."""

_log: Any = get_logger()


async def warehouse_folders(
    settings: Settings, *, session: Session, files: FileStore, deployment: str | None = None
) -> MarkedFolders:
    """The warehouse, and every other local folder that tables may be in, with their marks.

    A new warehouse is marked with the identity of the `deployment`, so that it tells whose it is, too.

    The warehouse is made where it is missing and nobody knows it; other folders stay without a mark until a start
    finds them, and for good where they cannot be written to. Raises Unavailable.
    """
    warehouse = settings.warehouse.location
    folders = [place for place in settings.allowed_locations if scheme_of(place) == FILE_SCHEME]
    known, marks = FolderMarks(session), {}
    for folder in dict.fromkeys(map(normalize, folders)):
        mark = await known.of(folder)
        if mark is None:
            try:
                made = await _in_time(folder, _mark, files, folder, folder == normalize(warehouse), deployment)
            except FirnError as error:
                if folder == normalize(warehouse):
                    raise
                _log.warning("folder has no mark", folder=folder, reason=str(error))
                continue
            if made is None:
                continue
            mark = await known.note(folder, made)
        marks[folder] = mark
    found = MarkedFolders(marks)
    for folder in marks:
        try:
            await _in_time(folder, found.check, [folder])
        except Unavailable as error:
            _log.error("folder is not there", folder=folder, reason=str(error))
    return found


def known_folders(settings: Settings, *, mark: str | None) -> MarkedFolders:
    """The warehouse with the mark that it has, while ZooKeeper cannot be asked because it is not the right one."""
    warehouse = settings.warehouse.location
    if mark is None or scheme_of(warehouse) != FILE_SCHEME:
        return MarkedFolders()
    return MarkedFolders({warehouse: mark})


def _mark(files: FileStore, folder: str, make: bool, deployment: str | None) -> str | None:  # noqa: FBT001 - in a thread
    """The mark of a folder that ZooKeeper does not know, which gets one if it has none; None when it stays missing."""
    if not make and not Path(folder).is_dir():
        return None
    with contextlib.suppress(AlreadyExists):  # another daemon starts, too, or ZooKeeper has been lost
        mark = deployment if make and deployment is not None else secrets.token_hex(16)
        files.create(f"{folder}/{MARK_NAME}", f"{mark}\n".encode())
    return read_mark(files, folder)


async def _in_time(folder: str, work: Any, *arguments: Any) -> Any:
    try:
        async with asyncio.timeout(DISK_S):
            return await asyncio.to_thread(work, *arguments)
    except TimeoutError as error:
        raise Unavailable(f"{folder}: the disk did not answer in {DISK_S:g} s") from error
