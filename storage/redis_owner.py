"""Whose Redis a connection leads to: asked once for each connection, before it is used for anything.

An address can lead to another server after a reconnect. The first command on a new connection may be an
acknowledgement, so the connection itself is checked and no command has to be.
"""

from __future__ import annotations

from typing import Any

import redis.exceptions as rx

from firn.model.deployment import is_foreign_mark
from firn.storage.intent_streams import StreamNames


class ForeignRedisError(rx.RedisError):
    """The Redis behind an address is marked as another deployment's; `found` is its mark."""

    def __init__(self, message: str, *, found: bytes) -> None:
        self.found = found
        super().__init__(message)


class RedisOwner:
    """Checks new connections of one client against the deployment that is `expected` (None: any)."""

    def __init__(self, names: StreamNames) -> None:
        self.expected: str | None = None
        self._key = names.deployment

    async def check(self, connection: Any) -> None:
        """Refuse a new connection when its Redis is another deployment's."""
        if self.expected is None:
            return
        await connection.send_command("GET", self._key, check_health=False)
        found = await connection.read_response()
        if is_foreign_mark(found, self.expected):
            raise ForeignRedisError(
                f"it is marked as another deployment's: {found.decode(errors='replace')}, not {self.expected}",
                found=found,
            )
