"""A ZooKeeper session on the event loop.

kazoo runs its own threads. Results cross over with `call_soon_threadsafe`; `state` and `epoch` are kept by kazoo's
thread and can be read at any time, so that a lease is known to be gone before the event loop hears of it.

Nothing is retried here: kazoo's command retry is never used, because a repeated write can succeed twice or be refused
because of its own first.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from kazoo import exceptions as zk
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions

from firn.model.errors import (
    AlreadyExists,
    Fenced,
    FirnError,
    InvalidInput,
    Misconfigured,
    NotFound,
    Unavailable,
    UnknownOutcome,
)
from firn.storage.kazoo_connection import LoopClient, WordedTransaction
from firn.storage.kazoo_threads import KazooThreads
from firn.storage.log import get_logger
from firn.storage.secret_files import read_secret
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
from firn.storage.store_faults import READS_SHOW, Cause, StoreFault, StoreFaults
from firn.storage.tls_probe import client_context, why_unreachable
from firn.storage.zookeeper_place import ZooKeeperOptions

RECONNECT_DELAY_S_MAX: Final = 1.0
"""kazoo's own longest pause between attempts to connect is an hour."""

PROBE_S: Final = 3.0
"""How long the regular probe waits: an operation may wait longer, through a reconnect."""


def _fault(cause: Cause, found: str, do: str) -> Callable[[str], StoreFault]:
    """How a fault of this cause is made, from what the server said."""
    return lambda said: StoreFault(store="zookeeper", cause=cause, found=found, said=said, do=do)


_NO_AUTH: Final = _fault(
    "permissions", "ZooKeeper refuses this daemon's credentials",
    "correct zookeeper.auth or renew its file, or give the nodes to its user (setAcl -R, docs/security.md)",
)  # fmt: skip
_CERTIFICATE: Final = _fault(
    "certificate", "ZooKeeper does not answer",
    "renew the certificate or the CA file named in zookeeper.tls-*; files are read again for every connection",
)  # fmt: skip
_UNREACHABLE: Final = _fault(
    "unreachable", "ZooKeeper does not answer", "start it, or correct zookeeper.hosts; docs/runbooks/servers.md"
)
_SECRET_FILE: Final = _fault(
    "secret-file", "a secret of ZooKeeper cannot be read from its file",
    "restore the file, and let firn's user read it; the last secret read from it is used",
)  # fmt: skip

_STATES: Final[dict[str, SessionState]] = {"CONNECTED": "connected", "SUSPENDED": "suspended", "LOST": "lost"}

_FAILURES: Final[dict[type[Exception], OpFailure]] = {
    zk.RolledBackError: "rolled-back",
    zk.RuntimeInconsistency: "rolled-back",  # what the server says of the operations after the one that failed
    zk.NoNodeError: "no-node",
    zk.NodeExistsError: "node-exists",
    zk.BadVersionError: "bad-version",
    zk.NotEmptyError: "not-empty",
    zk.NoAuthError: "no-auth",
}

_CHANGES: Final = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN

_log: Any = get_logger()


class ZooKeeperSession:
    """A `Session` of a real ZooKeeper. `start` it on the event loop that uses it; it reconnects for ever by itself."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options = options
        hosts, slash, chroot = options.hosts.partition("/")
        self._root = (slash + chroot).rstrip("/")
        self._acl = CREATOR_ALL_ACL if options.digest else OPEN_ACL_UNSAFE
        retry = {"max_tries": -1, "delay": 0.1, "max_delay": RECONNECT_DELAY_S_MAX}
        self._client = LoopClient(
            hosts=hosts,
            timeout=options.session_timeout_s,
            auth_data=[("digest", options.digest)] if options.digest else None,
            connection_retry=retry,
            use_ssl=options.tls,
            ca=options.tls_ca,
            certfile=options.tls_certificate,
            keyfile=options.tls_key,
            keyfile_password=options.tls_key_password,
            verify_certs=options.tls_verify,
            check_hostname=options.tls_verify,
            handler=KazooThreads(),
        )
        self._client.on_dial = self._renew_secrets
        self._digest = options.digest
        """What the connection was authenticated with."""
        self._faults = StoreFaults()
        self._client.add_listener(self._on_kazoo_state)
        self._state: SessionState = "lost"
        self._epoch = 0
        self._ever_connected = False
        self._listeners: list[Listener] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        """The loop's."""
        self._closed = False

    async def start(self, *, timeout_s: float = 30.0) -> None:
        """Connect, and make the chroot. `Unavailable` when no server answers in time; then it is closed."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._client.use(self._loop)
        options, context = self._options, self._tls_context()
        connected = await asyncio.to_thread(self._start_and_wait, timeout_s)
        if not connected:
            await self.close()
            found = await asyncio.to_thread(why_unreachable, options.hosts.partition("/")[0], context=context)
            raise Unavailable(f"no ZooKeeper answers at {options.hosts} within {timeout_s:g} s ({found})")
        try:
            await self.ensure_path("/")
        except FirnError:
            await self.close()
            raise
        await self._warn_if_open()

    async def _warn_if_open(self) -> None:
        root = self._root or "/"
        try:
            acls, _ = await self._read(root, functools.partial(self._client.get_acls_async, root))
        except FirnError:  # an ACL that we may not even read is not open to the world
            return
        if any(acl.id.scheme == "world" and acl.perms & _CHANGES for acl in acls) or not self._options.digest:
            _log.warning("zookeeper.world-writable", root=root, hint="set a digest user, and an ACL on the root")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._stop)

    # The port --------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return client_id[0] if client_id else 0

    def add_listener(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)

        def remove() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return remove

    @property
    def faults(self) -> StoreFaults:
        return self._faults

    async def probe(self) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                await self.get("/")
        except (Unavailable, TimeoutError) as error:
            self._faults.saw(await asyncio.to_thread(self._diagnosis))
            raise error if isinstance(error, Unavailable) else Unavailable("/: ZooKeeper does not answer") from error
        self._faults.answered(READS_SHOW)

    async def get(self, path: str, *, watch: Watch | None = None) -> tuple[bytes, NodeStat]:
        data, stat = await self._read(path, lambda: self._client.get_async(self._full(path), watch=self._watch(watch)))
        return data or b"", _stat(stat)

    async def sync_get(self, path: str) -> tuple[bytes, NodeStat]:
        # One after the other without waiting: the server answers a session's requests in their order.
        full = self._full(path)
        sync = self._hand_over(lambda: self._client.sync_async(full))
        read = self._hand_over(lambda: self._client.get_async(full))
        try:
            async with asyncio.timeout(self._options.operation_timeout_s):
                await sync
                data, stat = await read
        except (zk.KazooException, KazooTimeoutError, TimeoutError) as error:
            self._raised(path, error)
        finally:
            read.cancel()
        return data or b"", _stat(stat)

    async def exists(self, path: str, *, watch: Watch | None = None) -> NodeStat | None:
        stat = await self._read(path, lambda: self._client.exists_async(self._full(path), watch=self._watch(watch)))
        return None if stat is None else _stat(stat)

    async def children(self, path: str, *, watch: Watch | None = None) -> list[str]:
        names = await self._read(
            path, lambda: self._client.get_children_async(self._full(path), watch=self._watch(watch))
        )
        return sorted(names)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> tuple[str, NodeStat]:
        check_payload(path, data)
        made, stat = await self._write(
            path,
            lambda: self._client.create_async(
                self._full(path), data, acl=self._acl, ephemeral=ephemeral, sequence=sequence, include_data=True
            ),
        )
        return made[len(self._root) :], _stat(stat)

    async def ensure_path(self, path: str) -> None:
        parts = [part for part in self._full(path).split("/") if part]
        for depth in range(1, len(parts) + 1):
            part = "/" + "/".join(parts[:depth])
            if await self._read(part, functools.partial(self._client.exists_async, part)) is None:
                with contextlib.suppress(AlreadyExists):
                    await self._write(part, functools.partial(self._client.create_async, part, acl=self._acl))

    async def set(self, path: str, data: bytes, *, version: int) -> NodeStat | None:
        check_payload(path, data)
        try:
            return _stat(await self._write(path, lambda: self._client.set_async(self._full(path), data, version)))
        except zk.BadVersionError:
            return None

    async def delete(self, path: str, *, version: int = MULTI_ANY_VERSION) -> bool:
        try:
            await self._write(path, lambda: self._client.delete_async(self._full(path), version))
        except (zk.BadVersionError, zk.NotEmptyError):
            return False
        return True

    def worded(self, ops: Sequence[MultiOp]) -> Multi:
        transaction = self._client.transaction()
        for op in ops:
            full = self._full(op.path)
            match op:
                case Check():
                    transaction.check(full, op.version)
                case Create():
                    check_payload(op.path, op.data)
                    transaction.create(full, op.data, acl=self._acl)
                case Set():
                    check_payload(op.path, op.data)
                    transaction.set_data(full, op.data, op.version)
                case Delete():
                    transaction.delete(full, op.version)
        return Multi(tuple(ops), WordedTransaction.of(transaction.operations))

    async def multi(self, ops: Sequence[MultiOp] | Multi) -> list[OpResult]:
        multi = ops if isinstance(ops, Multi) else self.worded(ops)
        send = functools.partial(self._client.commit_async, multi.request)
        results = await self._write(f"multi of {[op.path for op in multi.ops]}", send)
        return [self._result(result) for result in results]

    # ------------------------------------------------------------------------------------------------------------------

    async def _read(self, path: str, send: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(self._options.operation_timeout_s):
                return await self._hand_over(send)
        except (zk.KazooException, KazooTimeoutError, TimeoutError) as error:
            self._raised(path, error)

    async def _write(self, path: str, send: Callable[[], Any]) -> Any:
        """Send a write once. `BadVersionError` and `NotEmptyError` are the caller's."""
        if self._closed:
            raise Fenced(f"{path}: the session is closed")
        if self._state != "connected":
            # kazoo would keep it and send it after a reconnect, perhaps long after anybody wanted it.
            raise Unavailable(f"{path}: ZooKeeper session {self._state}")
        try:
            async with asyncio.timeout(self._options.operation_timeout_s):
                return await self._hand_over(send)
        except (zk.BadVersionError, zk.NotEmptyError):
            raise
        except TimeoutError as error:
            raise UnknownOutcome(f"{path}: no answer in {self._options.operation_timeout_s:g} s") from error
        except (zk.ConnectionLoss, zk.OperationTimeoutError, zk.RequestTimeoutError, KazooTimeoutError) as error:
            raise UnknownOutcome(f"{path}: connection lost ({type(error).__name__})") from error
        except zk.KazooException as error:
            self._raised(path, error)
        except (RuntimeError, ValueError, struct.error) as error:  # kazoo could not make sense of the answer
            raise UnknownOutcome(f"{path}: unreadable answer ({error!r})") from error

    def _tls_context(self) -> ssl.SSLContext | None:
        """What a connection that is made now speaks TLS with. Raises Misconfigured for files that cannot be used."""
        options = self._options
        if not options.tls:
            return None
        return client_context(
            authority=options.tls_ca, certificate=options.tls_certificate, key=options.tls_key,
            password=self._client.keyfile_password, verify=options.tls_verify,
        )  # fmt: skip

    def _diagnosis(self) -> StoreFault:
        """Why no server answers."""
        hosts = self._options.hosts.partition("/")[0]
        try:
            said = why_unreachable(hosts, context=self._tls_context())
        except Misconfigured as error:
            said, files = str(error), True
        else:
            files = False
        is_tls = files or (self._options.tls and any(word in said for word in ("certificate", "no TLS")))
        return _CERTIFICATE(said) if is_tls else _UNREACHABLE(said)

    def _renew_secrets(self) -> None:
        """In kazoo's thread, before it connects: read the secrets again."""
        options, client = self._options, self._client
        if options.tls_key_password_file is not None:
            client.keyfile_password = self._read_secret(options.tls_key_password_file) or client.keyfile_password
        digest = None if options.digest_file is None else self._read_secret(options.digest_file)
        if digest is not None and digest != self._digest:
            self._digest = digest
            client.auth_data = {("digest", digest)}

    def _read_secret(self, path: str) -> str | None:
        try:
            return read_secret(path)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            self._faults.saw(_SECRET_FILE(f"{path}: {why}"))
            return None

    def _refused(self, path: str, error: Exception) -> None:
        """Record that a node is not for this user; a secret that was renewed is added to the connection."""
        self._faults.saw(_NO_AUTH(f"{path}: {type(error).__name__}"))
        file = self._options.digest_file
        digest = None if file is None else self._read_secret(file)
        if digest is not None and digest != self._digest:
            self._digest = digest
            self._client.add_auth_async("digest", digest)

    def _raised(self, path: str, error: Exception) -> NoReturn:
        if isinstance(error, zk.NoAuthError):
            self._refused(path, error)
        _raise_read(path, error)

    def _hand_over(self, send: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call `send` on kazoo; its result as a future of the event loop."""
        assert self._loop is not None, "start the session first"
        loop, future = self._loop, self._loop.create_future()

        def settle(result: Any) -> None:
            if future.cancelled():
                return
            if result.exception is None:
                future.set_result(result.value)
            else:
                future.set_exception(result.exception)
                future.exception()  # read: a cancelled waiter leaves nothing to warn about

        def cross(result: Any) -> None:
            if threading.get_ident() == self._thread:
                settle(result)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result)

        send().rawlink(cross)
        return future

    def _watch(self, watch: Watch | None) -> Callable[[Any], None] | None:
        if watch is None:
            return None

        def cross(_event: Any) -> None:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(watch)

        return cross

    def _on_kazoo_state(self, kazoo_state: str) -> None:
        """In kazoo's thread: must not block."""
        state = _STATES[kazoo_state]
        if state == "connected":
            self._ever_connected = True
        elif state == "lost" and self._ever_connected:
            self._epoch += 1
        self._state = state
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._tell, state)

    def _tell(self, state: SessionState) -> None:
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:  # noqa: BLE001 - one listener's mistake must not keep the state from the others
                _log.exception("zookeeper.listener-failed", state=state)

    def _start_and_wait(self, timeout_s: float) -> bool:
        connected: threading.Event = self._client.start_async()
        return connected.wait(timeout_s)

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()

    def _full(self, path: str) -> str:
        assert path.startswith("/"), path
        return (self._root + path).rstrip("/") or "/"

    def _result(self, result: Any) -> OpResult:
        if isinstance(result, zk.NoAuthError):
            self._refused("a node of a transaction", result)
        if isinstance(result, Exception):
            return OpFailed(_FAILURES.get(type(result), "other"), repr(result))
        if isinstance(result, str):
            return result[len(self._root) :]
        return True if result is True else _stat(result)


def _stat(stat: Any) -> NodeStat:
    return NodeStat(
        version=stat.version,
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        ephemeral_owner=stat.ephemeralOwner,
    )


def _raise_read(path: str, error: Exception) -> NoReturn:
    if isinstance(error, zk.ConnectionLoss | zk.OperationTimeoutError | KazooTimeoutError | TimeoutError):
        raise Unavailable(f"{path}: ZooKeeper does not answer ({type(error).__name__})") from error
    _raise(path, error)


def _raise(path: str, error: Exception) -> NoReturn:
    """What the server said, as one of our errors."""
    name = type(error).__name__
    match error:
        case zk.NoNodeError():
            raise NotFound(f"there is no node {path}") from error
        case zk.NodeExistsError():
            raise AlreadyExists(path) from error
        case zk.SessionExpiredError() | zk.SessionMovedError():
            raise Fenced(f"{path}: the ZooKeeper session is gone ({name})") from error
        case zk.NoAuthError() | zk.AuthFailedError() | zk.InvalidACLError():
            raise Misconfigured(f"{path}: ZooKeeper refuses this daemon's credentials ({name})") from error
        case zk.BadArgumentsError() | zk.NoChildrenForEphemeralsError():
            raise InvalidInput(f"ZooKeeper refuses it ({name})", where=path) from error
    raise Unavailable(f"{path}: ZooKeeper refuses for now ({name})") from error
