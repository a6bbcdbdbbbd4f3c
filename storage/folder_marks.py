"""Which mark each local folder has, as all daemons know it: a node per folder below ``/folders``.

The mark itself is a file in the folder (`firn.storage.marked_folders`). That ZooKeeper knows it, too, is what tells a
folder whose disk is not mounted from one that is new, also to a daemon that has just started, and two hosts that each
have a disk of their own under one name from two that share it.
"""

from __future__ import annotations

import contextlib
from typing import Final

from firn.model.errors import AlreadyExists, NotFound
from firn.storage.sessions import Session, encode_name

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

    async def note(self, folder: str, mark: str) -> str:
        """Note a folder's mark; the one that counts, which is the one that was noted first."""
        await self._session.ensure_path(FOLDERS)
        with contextlib.suppress(AlreadyExists):
            await self._session.create(_path(folder), mark.encode())
        return await self.of(folder) or mark


def _path(folder: str) -> str:
    return f"{FOLDERS}/{encode_name(folder)}"
