"""A coordination session: the part of ZooKeeper that firn stands on, as a port.

`ZooKeeperSession` is the real one, `MemorySession` its twin. Leases, pointers and membership are written once, on top
of this port.

A session is *connected*, *suspended* (the connection is gone, its ephemeral nodes may still be there) or *lost* (they
are gone). `epoch` grows with every loss: what was acquired under an older epoch is no longer held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, unquote_to_bytes

import msgspec

from firn.model.errors import InvalidInput
from firn.storage.store_faults import StoreFaults

ZNODE_BYTES_MAX: Final = 64 * 1024
"""Payload of one node. Past its 1 MiB packet ZooKeeper drops the connection, and every other operation with it."""

NAME_BYTES_MAX: Final = 1024
"""UTF-8 bytes of a name before it is encoded."""

SessionState = Literal["connected", "suspended", "lost"]
Listener = Callable[[SessionState], None]
Watch = Callable[[], None]
"""Called once, on the event loop: something changed, or the session cannot tell any more. Read again."""

MULTI_ANY_VERSION: Final = -1


class NodeStat(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of a node. Times are the server's, in Unix milliseconds; `ephemeral_owner` is 0 for none."""

    version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    ephemeral_owner: int


class Check(msgspec.Struct, frozen=True):
    """The node exists (at `version`, unless -1)."""

    path: str
    version: int = MULTI_ANY_VERSION


class Create(msgspec.Struct, frozen=True):
    """The node does not exist; make it."""

    path: str
    data: bytes


class Set(msgspec.Struct, frozen=True):
    """The node is at `version`; set its data."""

    path: str
    data: bytes
    version: int


class Delete(msgspec.Struct, frozen=True):
    """The node is at `version` (any, when -1); remove it."""

    path: str
    version: int = MULTI_ANY_VERSION


MultiOp = Check | Create | Set | Delete


class Multi(msgspec.Struct, frozen=True, eq=False):
    """A multi that is ready to be sent, once, by the session that made it."""

    ops: tuple[MultiOp, ...]
    request: Any = None
    """What that session sends."""


OpFailure = Literal["no-node", "node-exists", "bad-version", "not-empty", "no-auth", "rolled-back", "other"]


class OpFailed(msgspec.Struct, frozen=True):
    """One operation of a multi that did not happen: because of itself, or (``rolled-back``) because of another."""

    reason: OpFailure
    detail: str = ""


OpResult = NodeStat | str | bool | OpFailed
"""Of a set, a create, a check or delete, or a failure. One failure means that nothing of the multi happened."""


class Session(Protocol):
    """One client's session. Paths are absolute below the session's root (its chroot).

    Reads raise `Unavailable` when no answer comes. Writes raise `Unavailable` when they were not sent, `UnknownOutcome`
    when they were and the answer is missing. Everything raises `Fenced` when the server says that the session is gone.
    No write is ever repeated by the session itself.
    """

    @property
    def state(self) -> SessionState: ...

    @property
    def epoch(self) -> int:
        """Grows with every loss of the session; starts at 0."""
        ...

    @property
    def session_id(self) -> int:
        """The server's number for the session, as in `NodeStat.ephemeral_owner`."""
        ...

    @property
    def faults(self) -> StoreFaults:
        """What is wrong with the store, as far as it was noticed here."""
        ...

    async def probe(self) -> None:
        """Read the root, which needs its rights, to bring `faults` up to date. Raises as `get` does."""
        ...

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on the event loop at each change of state; returns what removes it."""
        ...

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        """A node's data; `NotFound`. It may be behind what others have written."""
        ...

    async def sync_get(self, path: str) -> tuple[bytes, NodeStat]:
        """A node's data, at least as new as this call; `NotFound`."""
        ...

    async def exists(self, path: str, *, watch: Watch | None = None) -> NodeStat | None: ...

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        """The names below a node, sorted; `NotFound`."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, NodeStat]:
        """Make a node; its path (with the sequence number appended) and stat.

        `AlreadyExists`; `NotFound` when there is no parent.
        """
        ...

    async def ensure_path(self, path: str) -> None:
        """Make a node and those above it where they are missing."""
        ...

    async def set(self, path: str, data: bytes, *, version: int) -> NodeStat | None:
        """Set a node's data; None when it is not at `version`. `NotFound`."""
        ...

    async def delete(self, path: str, *, version: int = MULTI_ANY_VERSION) -> bool:
        """Remove a node; False when it is not at `version` or has children. `NotFound`."""
        ...

    def worded(self, ops: Sequence[MultiOp]) -> Multi:
        """What `multi` would send for `ops`, made before it is to be sent. `InvalidInput` for what no node holds."""
        ...

    async def multi(self, ops: Sequence[MultiOp] | Multi) -> list[OpResult]:
        """All of `ops` or none; one result each, in order. A failure is in the results, never raised."""
        ...

    async def close(self) -> None:
        """End the session; its ephemeral nodes go with it."""
        ...


def encode_name(name: str) -> str:
    """`name` as one node's name: ASCII letters, digits, ``_.-~`` and percent-encoded UTF-8. See `decode_name`.

    `InvalidInput` when it is empty, too long, or no valid unicode.
    """
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("holds a lone surrogate", where=ascii(name)) from error
    if not 0 < size <= NAME_BYTES_MAX:
        raise InvalidInput(f"a name has 1 to {NAME_BYTES_MAX} bytes, this one has {size}", where=ascii(name[:64]))
    if name in (".", "..", "zookeeper"):  # illegal as paths, or the server's own
        return f"%{ord(name[0]):02X}{name[1:]}"
    return quote(name, safe="")


def decode_name(encoded: str) -> str:
    """The name that `encode_name` encoded; `InvalidInput` for anything that it would not have written."""
    try:
        name = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("is not encoded UTF-8", where=ascii(encoded)) from error
    if encode_name(name) != encoded:
        raise InvalidInput("is not a name that firn wrote", where=ascii(encoded))
    return name


def check_payload(path: str, data: bytes) -> None:
    """Refuse what a node cannot safely hold."""
    if len(data) > ZNODE_BYTES_MAX:
        raise InvalidInput(f"{len(data)} bytes are more than a node's {ZNODE_BYTES_MAX}", where=path)
