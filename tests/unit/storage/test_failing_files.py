"""Faults come when the plan says so, and the same plan gives the same faults."""

import pytest

from firn.model.errors import NotFound, Unavailable, UnknownOutcome
from firn.storage.failing_files import FailingFiles, Fault, RandomFaults, ScriptedFaults
from firn.storage.memory_files import MemoryFiles


def failing(*faults, only=None):
    inner = MemoryFiles()
    slept: list[float] = []
    return inner, FailingFiles(inner, ScriptedFaults(faults, only=only), sleep=slept.append), slept


def test_an_error_does_nothing_and_a_lost_reply_has_done_it():
    inner, files, _ = failing(Fault(kind="error"), Fault(kind="lost-reply"))
    with pytest.raises(Unavailable) as raised:
        files.create("/a", b"1")
    assert not isinstance(raised.value, UnknownOutcome)
    with pytest.raises(NotFound):
        inner.size("/a")
    with pytest.raises(UnknownOutcome):
        files.create("/a", b"1")
    assert files.read("/a", bytes_max=1) == b"1"


def test_a_torn_write_reports_success_and_a_torn_read_comes_short():
    inner, files, _ = failing(Fault(kind="torn", keep_bytes=2), None, Fault(kind="torn", keep_bytes=1))
    files.create("/a", b"1234")
    assert files.read("/a", bytes_max=9) == b"12"
    assert files.read("/a", bytes_max=9) == b"1"
    assert inner.read("/a", bytes_max=9) == b"12"


def test_a_slow_operation_is_done_after_its_time():
    _, files, slept = failing(Fault(kind="slow", seconds=3.0))
    files.create_all([("/a", b"1"), ("/b", b"2")])
    assert slept == [3.0]
    assert [info.location for info in files.list("/")] == ["/a", "/b"]


def test_a_script_may_be_for_some_operations_only():
    _, files, _ = failing(Fault(kind="error"), only=frozenset({"delete"}))
    files.create("/a", b"1")
    files.replace("/a", b"2")
    assert files.size("/a") == 1
    with pytest.raises(Unavailable):
        files.delete("/a")
    files.delete("/a")


def test_random_faults_repeat_with_their_seed():
    def run(seed):
        plan = RandomFaults(seed=seed, rates={"error": 0.2, "lost-reply": 0.1, "torn": 0.1, "slow": 0.1})
        return [plan("create", "/a") for _ in range(200)]

    assert run(1) == run(1) != run(2)
    kinds = {fault.kind for fault in run(1) if fault is not None}
    assert kinds == {"error", "lost-reply", "torn", "slow"}
