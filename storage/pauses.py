"""Which tables are paused: a node per table below ``/paused``, which every daemon watches.

Who pauses a table makes the node first and then marks the table's pointer (`firn.storage.pointers.Pointer.paused`);
who resumes it clears the mark first. The nodes are what daemons go by without asking; the mark is what a daemon finds
that has not heard yet, and because setting it moves the pointer, no swap from before can land after it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec

from firn.model.errors import AlreadyExists, InvalidInput, NotFound
from firn.model.pause import Pause
from firn.storage.log import get_logger
from firn.storage.sessions import MULTI_ANY_VERSION, Session, Watch, decode_name, encode_name

PAUSED: Final = "/paused"

UNREADABLE: Final = Pause(by="?", since_ms=0, reason="the note of who paused it, and why, cannot be read")

_log: Any = get_logger()


class Pauses:
    """The pauses of all tables, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def all(self, *, watch: Watch | None = None) -> dict[str, Pause]:
        """All pauses by table. `watch` is called once, when a pause comes or goes, or nobody can tell any more."""
        if watch is not None:
            await self._session.ensure_path(PAUSED)
        try:
            names = await self._session.children(PAUSED, watch=watch)
        except NotFound:
            return {}
        found: dict[str, Pause] = {}
        for name in names:
            try:
                table = decode_name(name)
                found[table] = _decoded((await self._session.get(f"{PAUSED}/{name}"))[0])
            except NotFound:
                continue  # resumed meanwhile
            except InvalidInput as error:
                _log.warning("pauses.foreign-node", node=name, error=str(error))
        return dict(sorted(found.items()))

    async def of(self, table: str) -> Pause | None:
        """A table's pause, at least as new as this call."""
        try:
            data, _ = await self._session.sync_get(_path(table))
        except NotFound:
            return None
        return _decoded(data)

    async def note(self, table: str, pause: Pause) -> None:
        """Note a pause, in the place of an earlier one."""
        data = msgspec.json.encode(pause)
        await self._session.ensure_path(PAUSED)
        try:
            await self._session.create(_path(table), data)
        except AlreadyExists:
            await self._session.set(_path(table), data, version=MULTI_ANY_VERSION)

    async def forget(self, table: str) -> None:
        """Remove a note; nothing happens when there is none."""
        with contextlib.suppress(NotFound):
            await self._session.delete(_path(table))


def _path(table: str) -> str:
    return f"{PAUSED}/{encode_name(table)}"


def _decoded(data: bytes) -> Pause:
    try:
        return msgspec.json.decode(data, type=Pause)
    except msgspec.MsgspecError:
        return UNREADABLE  # that it is paused is what counts
