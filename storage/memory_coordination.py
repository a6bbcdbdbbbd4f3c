"""ZooKeeper's in-memory twin: one tree of nodes, any number of sessions, and hooks to break them.

Nothing here waits for real time, so a run is repeatable. Every operation gives the event loop one turn before it takes
effect, so that races happen.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import msgspec

from firn.model.errors import AlreadyExists, Fenced, NotFound, Unavailable, UnknownOutcome
from firn.storage.sessions import (
    MULTI_ANY_VERSION,
    Check,
    Create,
    Delete,
    Listener,
    Multi,
    MultiOp,
    NodeStat,
    OpFailed,
    OpFailure,
    OpResult,
    SessionState,
    Set,
    Watch,
    check_payload,
)
from firn.storage.store_faults import StoreFaults

_Result = TypeVar("_Result")

Drop = Literal["before", "after"]
"""When the connection breaks, relative to the write taking effect on the server."""


class _Node(msgspec.Struct, kw_only=True):
    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int = 0
    ephemeral_owner: int = 0
    children_made: int = 0

    def stat(self) -> NodeStat:
        return NodeStat(
            version=self.version,
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            ephemeral_owner=self.ephemeral_owner,
        )


class _Refused(Exception):
    """A failure on its way to becoming an `OpFailed` or an error."""

    def __init__(self, reason: OpFailure) -> None:
        self.reason = reason
        super().__init__(reason)


class MemoryZooKeeper:
    """The server. `connect` gives a session; `expire` takes one away. `now_ms` stamps nodes."""

    def __init__(self, *, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._zxid = 0
        self._session_ids = itertools.count(1)
        self._live: set[int] = set()
        self._nodes: dict[str, _Node] = {"/": self._new_node(b"", owner=0)}
        self._watches: dict[str, list[Watch]] = {}

    def connect(self) -> MemorySession:
        """A new connected session."""
        return MemorySession(self)

    def expire(self, session: MemorySession, *, told: bool = True) -> None:
        """End `session` on the server.

        With `told` its client learns it at once and gets a new session. Without, the client goes on believing (a
        process that was stopped and continued) until its next operation fails.
        """
        self.end(session.session_id)
        if told:
            session.notice_expiry()

    # What sessions call ----------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """A new session's id."""
        session_id = next(self._session_ids)
        self._live.add(session_id)
        return session_id

    def end(self, session_id: int) -> None:
        """Forget a session and remove its ephemeral nodes."""
        self._live.discard(session_id)
        for path in [path for path, node in self._nodes.items() if node.ephemeral_owner == session_id]:
            self._remove(path)

    def is_live(self, session_id: int) -> bool:
        """Does the server know this session?"""
        return session_id in self._live

    def node(self, path: str) -> tuple[bytes, NodeStat] | None:
        """A node's data and stat, None when there is none."""
        node = self._nodes.get(path)
        return None if node is None else (node.data, node.stat())

    def names_below(self, path: str) -> list[str]:
        """The names of a node's children, sorted."""
        root = path.rstrip("/") + "/"
        return sorted(
            other[len(root) :]
            for other in self._nodes
            if other.startswith(root) and "/" not in other[len(root) :]
            if other != "/"
        )

    def watch(self, path: str, watch: Watch) -> None:
        """Call `watch` once when the node at `path`, or the set of its children, changes."""
        self._watches.setdefault(path, []).append(watch)

    def apply(self, op: MultiOp, *, owner: int = 0, sequence: bool = False) -> OpResult:
        """Do one operation, or raise `_Refused`."""
        match op:
            case Check(path=path, version=version):
                self._at(path, version)
                return True
            case Create(path=path, data=data):
                return self._create(path, data, owner=owner, sequence=sequence)
            case Set(path=path, data=data, version=version):
                node = self._at(path, version)
                self._zxid += 1
                node.data, node.mzxid, node.mtime_ms = data, self._zxid, self._now_ms()
                node.version += 1
                self._fire(path)
                return node.stat()
            case Delete(path=path, version=version):
                self._at(path, version)
                if self.names_below(path):
                    raise _Refused("not-empty")
                self._remove(path)
                return True

    def apply_all(self, ops: Sequence[MultiOp]) -> list[OpResult]:
        """All of `ops` or none."""
        touched = {path for op in ops for path in (op.path, _parent(op.path))}
        before = {path: msgspec.structs.replace(node) for path in touched if (node := self._nodes.get(path))}
        watches, self._watches = self._watches, {}
        results: list[OpResult] = []
        try:
            for op in ops:
                results.append(self.apply(op))  # noqa: PERF401 - the index of the failing one is needed
        except _Refused as refused:
            for path in touched:
                self._nodes.pop(path, None)
            self._nodes |= before
            self._watches = watches
            failed: list[OpResult] = [OpFailed("rolled-back")] * len(ops)
            failed[len(results)] = OpFailed(refused.reason)
            return failed
        self._watches = watches
        for op in ops:
            if not isinstance(op, Check):
                self._fire(op.path)
                self._fire(_parent(op.path))
        return results

    def _at(self, path: str, version: int) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise _Refused("no-node")
        if version not in (MULTI_ANY_VERSION, node.version):
            raise _Refused("bad-version")
        return node

    def _create(self, path: str, data: bytes, *, owner: int, sequence: bool) -> str:
        parent = self._nodes.get(_parent(path))
        if parent is None:
            raise _Refused("no-node")
        if sequence:
            path = f"{path}{parent.children_made:010d}"
        if path in self._nodes:
            raise _Refused("node-exists")
        parent.children_made += 1
        self._nodes[path] = self._new_node(data, owner=owner)
        self._fire(path)
        self._fire(_parent(path))
        return path

    def _new_node(self, data: bytes, *, owner: int) -> _Node:
        self._zxid += 1
        now_ms = self._now_ms()
        return _Node(
            data=data, czxid=self._zxid, mzxid=self._zxid, ctime_ms=now_ms, mtime_ms=now_ms, ephemeral_owner=owner
        )

    def _remove(self, path: str) -> None:
        self._zxid += 1
        del self._nodes[path]
        self._fire(path)
        self._fire(_parent(path))

    def _fire(self, path: str) -> None:
        for watch in self._watches.pop(path, []):
            asyncio.get_running_loop().call_soon(watch)


class MemorySession:
    """A `Session` of a `MemoryZooKeeper`, with the faults a client sees."""

    def __init__(self, server: MemoryZooKeeper) -> None:
        self._server = server
        self._session_id = server.begin()
        self._state: SessionState = "connected"
        self._epoch = 0
        self._listeners: list[Listener] = []
        self._watches: list[Watch] = []
        self._drops: list[Drop] = []
        self._closed = False
        self._faults = StoreFaults()

    # Faults ----------------------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """Cut the connection; the server still knows the session."""
        self._change("suspended")

    def resume(self) -> None:
        """Connect again, to the same session or, when the server ended it, to a new one."""
        if not self._server.is_live(self._session_id):
            self.notice_expiry()
        else:
            self._change("connected")

    def drop_next_write(self, when: Drop) -> None:
        """Lose the reply of the next write: ``before`` it takes effect or ``after``. The connection comes back."""
        self._drops.append(when)

    def notice_expiry(self) -> None:
        """The client learns that its session is gone, and gets a new one."""
        self._change("lost")
        if not self._closed:
            self._session_id = self._server.begin()
            self._change("connected")

    # The port --------------------------------------------------------------------------------------------------------

    @property
    def faults(self) -> StoreFaults:
        return self._faults

    async def probe(self) -> None:
        await self.exists("/")

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def session_id(self) -> int:
        return self._session_id

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        await self._turn("read")
        found = self._server.node(path)
        if found is None:
            raise NotFound(f"there is no node {path}")
        self._watch(path, watch)
        return found

    async def sync_get(self, path: str) -> tuple[bytes, NodeStat]:
        return await self.get(path)

    async def exists(self, path: str, *, watch: Watch | None = None) -> NodeStat | None:
        await self._turn("read")
        self._watch(path, watch)
        found = self._server.node(path)
        return None if found is None else found[1]

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        await self._turn("read")
        if self._server.node(path) is None:
            raise NotFound(f"there is no node {path}")
        self._watch(path, watch)
        return self._server.names_below(path)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, NodeStat]:
        check_payload(path, data)
        owner = self._session_id if ephemeral else 0

        def effect() -> tuple[str, NodeStat]:
            made = self._server.apply(Create(path, data), owner=owner, sequence=sequence)
            assert isinstance(made, str)
            found = self._server.node(made)
            assert found is not None
            return made, found[1]  # as the server answers: when it is heard, the node may be gone with its session

        answer: tuple[str, NodeStat] = await self._write(path, effect)
        return answer

    async def ensure_path(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            part = "/" + "/".join(parts[:depth])
            if await self.exists(part) is None:
                try:
                    await self.create(part)
                except AlreadyExists:
                    continue

    async def set(self, path: str, data: bytes, *, version: int) -> NodeStat | None:
        check_payload(path, data)
        try:
            result = await self._write(path, lambda: self._server.apply(Set(path, data, version)))
        except _Refused:
            return None
        assert isinstance(result, NodeStat)
        return result

    async def delete(self, path: str, *, version: int = MULTI_ANY_VERSION) -> bool:
        try:
            await self._write(path, lambda: self._server.apply(Delete(path, version)))
        except _Refused:
            return False
        return True

    def worded(self, ops: Sequence[MultiOp]) -> Multi:
        for op in ops:
            if isinstance(op, Create | Set):
                check_payload(op.path, op.data)
        return Multi(tuple(ops))

    async def multi(self, ops: Sequence[MultiOp] | Multi) -> list[OpResult]:
        multi = ops if isinstance(ops, Multi) else self.worded(ops)
        return await self._write("multi", lambda: self._server.apply_all(multi.ops))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.end(self._session_id)
            self._change("lost")

    # ------------------------------------------------------------------------------------------------------------------

    async def _turn(self, kind: Literal["read", "write"]) -> None:
        await asyncio.sleep(0)
        if self._closed:
            raise Fenced("the session is closed")
        if self._state != "connected":
            raise Unavailable(f"the session is {self._state}")
        if not self._server.is_live(self._session_id):
            self.notice_expiry()
            error = UnknownOutcome if kind == "write" else Unavailable
            raise error("connection lost; the session had expired")

    async def _write(self, path: str, effect: Callable[[], _Result]) -> _Result:
        await self._turn("write")
        drop = self._drops.pop(0) if self._drops else None
        if drop == "before":
            self._blink()
            raise UnknownOutcome(f"{path}: connection lost")
        try:
            result = effect()
        except _Refused as refused:
            if refused.reason == "no-node":
                raise NotFound(f"there is no node {path}") from refused
            if refused.reason == "node-exists":
                raise AlreadyExists(path) from refused
            raise
        if drop == "after":
            self._blink()
            raise UnknownOutcome(f"{path}: connection lost")
        return result

    def _blink(self) -> None:
        self.suspend()
        self.resume()

    def _watch(self, path: str, watch: Watch | None) -> None:
        if watch is None:
            return

        def fire() -> None:
            if fire in self._watches:
                self._watches.remove(fire)
                watch()

        self._watches.append(fire)
        self._server.watch(path, fire)

    def _change(self, state: SessionState) -> None:
        if state == self._state:
            return
        self._state = state
        if state == "lost":
            self._epoch += 1
        loop = asyncio.get_running_loop()
        if state != "connected":  # a client drops its watches with the connection, telling each
            for watch in self._watches:
                loop.call_soon(watch)
        for listener in list(self._listeners):
            loop.call_soon(listener, state)


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] or "/"
