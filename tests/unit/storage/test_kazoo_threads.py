"""kazoo's threads wait for sockets as its own do, and say what came off at once."""

import socket
import threading
import time

import pytest

from firn.storage.kazoo_threads import KazooThreads


@pytest.fixture
def threads():
    threads = KazooThreads()
    threads.start()
    yield threads
    threads.stop()


def test_what_can_be_read_or_written_is_found(threads):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert threads.select([ours, theirs], [], [], 0.01) == ([], [], [])
        assert threads.select([], [ours], [], None) == ([], [ours], [])
        theirs.send(b"x")
        assert threads.select([ours, theirs], [], [], None) == ([ours], [], [])
        assert ours.recv(1) == b"x"
        theirs.close()
        assert threads.select([ours], [], [], None) == ([ours], [], []), "its end is to be read, too"


def test_a_socket_that_is_closed_is_refused(threads):
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        with pytest.raises(ValueError, match="negative"):
            threads.select([ours], [], [], 0.01)


def test_what_came_off_is_told_at_once_and_what_failed_by_a_thread_of_its_own(threads):
    told = []
    good, bad = threads.async_result(), threads.async_result()
    for result in (good, bad):
        result.rawlink(lambda result: told.append((result.value, result.exception, threading.current_thread())))
    good.set(1)
    assert told == [(1, None, threading.current_thread())]
    error = ValueError("lost")
    bad.set_exception(error)
    ends_at = time.monotonic() + 10
    while len(told) < 2 and time.monotonic() < ends_at:
        time.sleep(0.001)
    assert told[1][:2] == (None, error)
    assert told[1][2] is not threading.current_thread()
    assert good.get() == 1
