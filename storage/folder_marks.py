"""Which mark each local folder has, as all daemons know it: a node per folder below ``/folders``.

The mark itself is a file in the folder (`firn.storage.marked_folders`). That ZooKeeper knows it, too, is what tells a
folder whose disk is not mounted from one that is new, also to a daemon that has just started, and two hosts that each
have a disk of their own under one name from two that share it.
"""

from __future__ import annotations

import contextlib
from typing import Final

from firn.model.errors import AlreadyExists, InvalidInput, NotFound
from firn.storage.sessions import MULTI_ANY_VERSION, Session, decode_name, encode_name

FOLDERS: Final = "/folders"


class FolderMarks:
    """The marks of all folders, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def of(self, folder: str) -> str | None:
        """A folder's mark, None where nobody has noted one. Raises Unavailable."""
        try:
            data, _ = await self._session.sync_get(_path(folder))
        except NotFound:
            return None
        return data.decode(errors="replace")

    async def all(self) -> dict[str, str]:
        """Return every mark that is noted, by folder. Raises Unavailable."""
        try:
            names = await self._session.children(FOLDERS)
        except NotFound:
            return {}
        found = {}
        for name in names:
            try:
                folder = decode_name(name)
            except InvalidInput:
                continue  # nobody's of ours
            mark = await self.of(folder)
            if mark is not None:
                found[folder] = mark
        return found

    async def renote(self, folder: str, mark: str) -> None:
        """Note another mark for a folder, as an operator has decided."""
        if await self.note(folder, mark) != mark:
            await self._session.set(_path(folder), mark.encode(), version=MULTI_ANY_VERSION)

    async def note(self, folder: str, mark: str) -> str:
        """Note a folder's mark; the one that counts, which is the one that was noted first."""
        await self._session.ensure_path(FOLDERS)
        with contextlib.suppress(AlreadyExists):
            await self._session.create(_path(folder), mark.encode())
        return await self.of(folder) or mark


def _path(folder: str) -> str:
    return f"{FOLDERS}/{encode_name(folder)}"
