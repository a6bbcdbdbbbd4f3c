"""What threads are at is found where they stand: the innermost call of a store, and the file that it is for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.coordinator.thread_calls import ThreadCall, calls_under_way
from firn.storage.failing_files import FailingFiles, Fault
from firn.storage.memory_files import MemoryFiles

LOCATION = "memory://wh/a"


@pytest.fixture
def goes_on() -> Iterator[threading.Event]:
    """Until it is set, a store hangs."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_hangs_is_named_with_its_file_and_an_idle_thread_is_not(goes_on: threading.Event) -> None:
    hangs = threading.Event()

    def wait(_seconds: float) -> None:
        hangs.set()
        goes_on.wait(20)

    slow = Fault(kind="slow")
    files = FailingFiles(MemoryFiles(), lambda _operation, _location: slow, sleep=wait)
    with ThreadPoolExecutor(2, thread_name_prefix="reader") as pool:
        pool.submit(str).result()  # a thread that waits for work
        reading = pool.submit(files.size, LOCATION)
        pool.submit(goes_on.wait, 20)  # not ours
        assert hangs.wait(5)
        (call,) = calls_under_way()
        assert call == ThreadCall(thread=call.thread, call="FailingFiles._before", location=LOCATION)
        assert call.thread.startswith("reader")
        goes_on.set()
        assert isinstance(reading.exception(), Exception)  # there is no such file
    assert calls_under_way() == []
