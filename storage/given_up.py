"""What operators state about intents whose past is lost: a node for each below ``/given-up``, while they wait for it.

A journal file that is lost for good leaves intents of which nobody can tell whether they were committed. Somebody who
has looked at the table can. The node is ephemeral: once the daemon has decided by it, the journal has the outcome, and
a statement that nobody stands by any more decides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from firn.model.errors import AlreadyExists, NotFound, Unavailable
from firn.storage.sessions import Session, encode_name

GIVEN_UP: Final = "/given-up"


class Statement(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What somebody says of an intent: that it was never committed, or in which snapshot of which batch it was."""

    by: str
    reason: str
    snapshot_id: int | None = None
    sequence_number: int | None = None
    batch: str | None = None

    @property
    def is_committed(self) -> bool:
        """Whether it says that the intent was committed."""
        return self.snapshot_id is not None


class GivenUp:
    """The statements, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def of(self, intent_ids: Iterable[str]) -> dict[str, Statement]:
        """What is stated of these, by id. Raises Unavailable when ZooKeeper does not answer."""
        try:
            stated = set(await self._session.children(GIVEN_UP))
        except NotFound:
            return {}
        found: dict[str, Statement] = {}
        for intent_id in stated.intersection(intent_ids):
            try:
                data, _ = await self._session.sync_get(_path(intent_id))
                found[intent_id] = msgspec.json.decode(data, type=Statement)
            except (NotFound, msgspec.MsgspecError):
                continue  # withdrawn meanwhile, or by somebody who says it otherwise
        return found

    @asynccontextmanager
    async def stating(self, intent_id: str, statement: Statement) -> AsyncIterator[None]:
        """Stand by a statement for a while. Raises Unavailable while somebody else does."""
        await self._session.ensure_path(GIVEN_UP)
        try:
            await self._session.create(_path(intent_id), msgspec.json.encode(statement), ephemeral=True)
        except AlreadyExists as error:
            raise Unavailable(f"somebody is giving {intent_id} up just now: see what comes of it") from error
        try:
            yield
        finally:
            await self._session.delete(_path(intent_id))


def _path(intent_id: str) -> str:
    return f"{GIVEN_UP}/{encode_name(intent_id)}"
