"""kazoo's connection, on which the event loop that wants something sends and hears for itself.

kazoo has a thread for its connection: a request is put into a queue, that thread is woken to send it, reads the answer
in two parts with a wait before each, and wakes the event loop. Here the loop sends, and reads whatever has come.

All else stays kazoo's: to connect, to ping, what is lost with a connection, to close. The loop has the connection while
it is up, once the thread has offered it. The thread takes it back to close it, when it breaks, and when the loop stands
still: an answer to a ping that nobody reads would end a connection that works. TLS connections are left to the thread
altogether, because two threads may not use one.
"""

# What kazoo keeps to itself is the point here.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Auth, Close, Transaction
from kazoo.protocol.states import KeeperState

SENT_BYTES_MAX: Final = 16 * 1024
"""Larger requests are left to the thread, which waits where they do not fit into the socket's buffer."""

RECEIVED_BYTES_MAX: Final = 64 * 1024

LOCK_WAIT_S: Final = 0.001
"""The loop waits no longer than this for the thread, which sends something meanwhile."""

SESSION_TIMEOUTS_MAX: Final = 3
"""After how many session timeouts without a connection the session is given up."""

OFFERED_S: Final = 0.02
"""When the loop tries again to take what it was offered, after the thread has begun to send or read something."""

_XID_MAX: Final = 2**31 - 1
_HEAD: Final = struct.Struct(">iii")
"""Length of what follows, number and type of a request."""

_LENGTH: Final = struct.Struct(">i")
_CONNECTED: Final = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)


class LoopConnection(ConnectionHandler):  # type: ignore[misc]
    """A connection that the thread and the loop have in turns.

    Under the lock: what is sent and at which place in the queue of those that await answers, what is read, and whose
    the connection is. `handler` is `firn.storage.kazoo_threads.KazooThreads`.
    """

    loop: asyncio.AbstractEventLoop | None = None
    _xid: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._lock = threading.RLock()
        self._is_up = False
        self._line: socket.socket | None = None
        """The loop's own descriptor of the connection while it has that: the thread may close its own at any time."""
        self._received = bytearray()
        """The beginning of an answer."""
        self._failure: Exception | None = None
        """What the loop found wrong, for the thread to raise."""
        self._down_since: float | None = None
        """When the connection was lost, by the monotonic clock."""

    # -- on the loop -----------------------------------------------------------------------------------------------

    def send(self, request: Any, result: Any) -> bool:
        """Send a request whose answer goes to `result`; False where the thread has to."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            line = self._line
            # What is in the queue was asked for before, and some rely on that order.
            if line is None or self.client._queue or request.type == Auth.type:
                return False
            body = request.serialize()
            if len(body) > SENT_BYTES_MAX:
                return False
            self._xid = self._xid % _XID_MAX + 1
            message = _HEAD.pack(_HEAD.size - _LENGTH.size + len(body), self._xid, request.type) + body
            self.client._pending.append((request, result, self._xid))
            try:
                sent = line.send(message)
            except OSError:  # the buffer is full, or the connection broken, as the thread will find
                self.client._pending.pop()
                return False
            if sent < len(message):
                with contextlib.suppress(OSError):  # it has just ended
                    line.shutdown(socket.SHUT_RDWR)  # nothing may follow half a request
            return True
        finally:
            self._lock.release()

    def _take_over(self, connection: socket.socket) -> None:
        """Have the connection that the thread has offered, if it is still that."""
        assert self.loop is not None
        if not self._lock.acquire(blocking=False):
            self.loop.call_later(OFFERED_S, self._take_over, connection)
            return
        try:
            if not self._is_up or self._socket is not connection or self._line is not None:
                return
            self._line = connection.dup()
            self._line.settimeout(0)
            self.loop.add_reader(self._line, self._hear, self._line)
            self.handler.attended = connection
        except OSError:  # the thread has closed it
            return
        finally:
            self._lock.release()
        self._wake()  # it waits for what the connection has to say

    def _hear(self, line: socket.socket) -> None:
        """Take in what has come, and tell whoever waits for it."""
        if not self._lock.acquire(timeout=LOCK_WAIT_S):
            return  # the loop calls again
        try:
            if self._line is not line:
                return
            try:
                received = line.recv(RECEIVED_BYTES_MAX)
                self._received += received
                while self._line is line and self._has_answer():
                    super()._read_socket(0.0)
            except BlockingIOError:
                return
            except OSError:
                received = b""
            except Exception as error:  # noqa: BLE001 - what kazoo does not understand ends its thread, and the session
                self._failure, received = error, b""
            if not received:
                self._give_back()
                self._wake()  # it sees the end itself
        finally:
            self._lock.release()

    def _has_answer(self) -> bool:
        """Whether all of one has come."""
        size = len(self._received) - _LENGTH.size
        return size >= 0 and size >= _LENGTH.unpack_from(self._received)[0]

    def _leave(self, line: socket.socket) -> None:
        assert self.loop is not None
        self.loop.remove_reader(line)
        line.close()

    # -- on kazoo's thread -----------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The connection is no longer up: what is asked for from now on is not sent on it."""
        with self._lock:
            self._is_up = False
            self._down_since = time.monotonic() if self._down_since is None else self._down_since
            self._give_back()

    def _connect(self, *address: Any) -> Any:
        self._received.clear()
        self._failure = None
        if self.client.on_dial is not None:
            self.client.on_dial()
        self._leave_session()
        timeouts = super()._connect(*address)
        self._down_since = None
        if not self.client.use_ssl:
            with self._lock:
                self._is_up = True
            self._offer()
        return timeouts

    def _leave_session(self) -> None:
        """Give the session up when no server has taken it up for long: a new one is asked for.

        A server that began anew, or is an older copy of itself, refuses a client that has seen later changes than it
        has, and tells it nothing.
        """
        client = self.client
        if self._down_since is None or not client._session_id:
            return
        if time.monotonic() - self._down_since > SESSION_TIMEOUTS_MAX * client._session_timeout / 1000:
            client._session_callback(KeeperState.EXPIRED_SESSION)
            client._session_callback(KeeperState.CONNECTING)
            self._down_since = None

    def _offer(self) -> None:
        if self.loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._take_over, self._socket)

    def _give_back(self) -> bool:
        """Under the lock, on either thread: the loop has it no longer. Whether it did."""
        line, self._line = self._line, None
        self.handler.attended = None
        if line is None:
            return False
        try:
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._leave, line)
        except RuntimeError:  # the loop is closed
            line.close()
        return True

    def _wake(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # it has ended
            self._write_sock.send(b"\0")

    def _read_socket(self, read_timeout: float) -> Any:
        with self._lock:
            if self._line is not None and not _is_readable(self._socket):
                return None  # the loop has been faster
            attended = self._give_back()
            answer = super()._read_socket(read_timeout)
        if attended:
            self._offer()  # a loop that stood still takes it when it goes on
        return answer

    def _read(self, length: int, timeout: float) -> bytes:
        """As kazoo's, but that the beginning may have come already."""
        data = bytes(self._received[:length])
        del self._received[:length]
        if len(data) < length:
            data += super()._read(length - len(data), timeout)
        return data

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        with self._lock:
            queue = self.client._queue
            if queue and isinstance(queue[0][0], Close):
                self._give_back()  # the answer ends the thread, which has to hear it
            super()._send_request(read_timeout, connect_timeout)

    def _send_ping(self, connect_timeout: float) -> None:
        with self._lock:
            super()._send_ping(connect_timeout)


class WordedTransaction(Transaction):  # type: ignore[misc]
    """A transaction whose bytes were made before it is to be sent."""

    body: bytes = b""

    @classmethod
    def of(cls, operations: Sequence[Any]) -> WordedTransaction:
        """The operations of a kazoo transaction."""
        made: WordedTransaction = cls(operations)
        made.body = bytes(super(cls, made).serialize())
        return made

    def serialize(self) -> bytes:
        """As it was made."""
        return self.body


class LoopClient(KazooClient):  # type: ignore[misc]
    """kazoo's client with a `LoopConnection`; `use` a loop before it is started.

    `on_dial` is called on kazoo's thread before each connection is authenticated.
    """

    on_dial: Callable[[], None] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._connection = LoopConnection(self, self._conn_retry.copy(), logger=self.logger)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """The event loop that requests are made on."""
        self._connection.loop = loop

    def commit_async(self, transaction: WordedTransaction) -> Any:
        """Send a transaction; its result to be."""
        result = self.handler.async_result()
        self._call(transaction, result)
        return result

    def _call(self, request: Any, async_object: Any) -> Any:
        return None if self._connection.send(request, async_object) else super()._call(request, async_object)

    def _session_callback(self, state: KeeperState) -> None:
        if state not in _CONNECTED:
            self._connection.lost()
        super()._session_callback(state)


def _is_readable(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
