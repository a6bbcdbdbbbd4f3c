"""The identity of a deployment, as its ZooKeeper keeps it: a node below the root, beside the marks of its folders."""

from __future__ import annotations

import contextlib
from typing import Final

from firn.model.errors import AlreadyExists, NotFound
from firn.storage.folder_marks import FolderMarks
from firn.storage.pointers import TABLES
from firn.storage.sessions import Session

DEPLOYMENT: Final = "/deployment"


class DeploymentMarks:
    """What a ZooKeeper knows of its deployment, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def read(self) -> str | None:
        """Return the deployment's identity, None where there is none. Raises Unavailable."""
        try:
            data, _ = await self._session.sync_get(DEPLOYMENT)
        except NotFound:
            return None
        return data.decode(errors="replace") or None

    async def note(self, deployment: str) -> str:
        """Note the identity; return the one that counts, which is the one that was noted first."""
        with contextlib.suppress(AlreadyExists):
            await self._session.create(DEPLOYMENT, deployment.encode())
        return await self.read() or deployment

    async def folders(self) -> dict[str, str]:
        """Return the marks of all folders that are noted, by folder."""
        return await FolderMarks(self._session).all()

    async def has_tables(self) -> bool:
        """Return whether there is a pointer of any table."""
        try:
            return bool(await self._session.children(TABLES))
        except NotFound:
            return False
