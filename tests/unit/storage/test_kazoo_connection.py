"""What goes over kazoo's connection while the event loop has it, byte by byte."""

import contextlib
import socket

import pytest
from kazoo.protocol.serialization import SetData

from firn.storage.kazoo_connection import LoopClient
from firn.storage.kazoo_threads import KazooThreads

BUFFER_BYTES = 4_608
"""As small as Linux has them: half a large request fits."""


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    ours.settimeout(0)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def client():
    """Never started."""
    return LoopClient(hosts="127.0.0.1:1", handler=KazooThreads())


@pytest.fixture
def connection(client, ends):
    connection = client._connection
    connection._xid = 41
    connection._socket = connection._line = ends[0]
    return connection


def asked(client, connection, *, size):
    return connection.send(SetData("/n", b"x" * size, -1), client.handler.async_result())


def test_a_request_has_the_next_number_and_awaits_its_answer(client, connection, ends):
    assert asked(client, connection, size=3)
    sent = ends[1].recv(1000)
    request = SetData("/n", b"xxx", -1).serialize()
    assert sent == (8 + len(request)).to_bytes(4, "big") + (42).to_bytes(4, "big") + (5).to_bytes(4, "big") + request
    ((request, _, xid),) = client._pending
    assert (request.path, xid) == ("/n", 42)


def test_a_request_for_which_there_is_no_room_is_left_to_the_thread(client, connection, ends):
    with contextlib.suppress(BlockingIOError):
        while True:
            ends[0].send(b"-")
    assert not asked(client, connection, size=3)
    assert not client._pending


def test_half_a_request_ends_the_connection(client, connection, ends):
    assert asked(client, connection, size=3 * BUFFER_BYTES)
    sent = b""
    while received := ends[1].recv(65_536):
        sent += received
    assert 0 < len(sent) < 3 * BUFFER_BYTES
    assert len(client._pending) == 1, "it fails with the connection"


def test_a_large_request_is_left_to_the_thread(client, connection, ends):
    assert not asked(client, connection, size=20_000)
    assert not client._pending


def test_nothing_is_sent_on_a_connection_that_was_lost_or_while_the_thread_sends(client, connection, ends):
    client._queue.append((SetData("/n", b"", -1), None))
    assert not asked(client, connection, size=3), "that one comes first"
    client._queue.clear()
    connection._line = None
    assert not asked(client, connection, size=3)


def test_the_thread_goes_on_where_the_loop_stopped_within_an_answer(connection, ends):
    connection._line = None
    connection._received += b"ab"
    ends[1].send(b"cdef")
    assert connection._read(4, 1.0) == b"abcd"
    assert connection._read(2, 1.0) == b"ef"


def test_the_thread_waits_for_nothing_that_the_loop_has_read(connection):
    assert connection._read_socket(0.2) is None
    assert connection._line is not None, "the loop keeps it"
