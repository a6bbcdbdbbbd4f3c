"""What is wrong with a store: said once, and over when it is over."""

from __future__ import annotations

from firn.storage.store_faults import FORGOTTEN_S, QUIET_S, READS_SHOW, WRITES_SHOW, Cause, StoreFault, StoreFaults


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def fault(cause: Cause) -> StoreFault:
    return StoreFault(store="redis", cause=cause, found="Redis refuses", said=cause, do="mend it")


def watched() -> tuple[StoreFaults, Clock, list[tuple[str, str]]]:
    clock, heard = Clock(), list[tuple[str, str]]()
    faults = StoreFaults(now=clock)
    faults.listener = lambda one, change: heard.append((one.cause, change))
    return faults, clock, heard


def test_a_cause_is_said_once_however_often_it_fails() -> None:
    faults, clock, heard = watched()
    for _ in range(100):
        clock.now += 1
        faults.saw(fault("read-only"))
    assert [one.cause for one in faults.current()] == ["read-only"]
    assert heard == [("read-only", "begins")]


def test_an_answer_ends_what_it_shows_to_be_over() -> None:
    faults, clock, heard = watched()
    for cause in ("unreachable", "read-only", "permissions"):
        faults.saw(fault(cause))
    faults.answered(READS_SHOW)
    assert [one.cause for one in faults.current()] == ["read-only", "permissions"]
    faults.answered(WRITES_SHOW)
    assert [one.cause for one in faults.current()] == ["permissions"]
    clock.now += QUIET_S + 1
    assert [one.cause for one in faults.current()] == ["permissions"]
    assert heard[3:] == [("unreachable", "over"), ("read-only", "over")]


def test_what_comes_and_goes_is_not_said_each_time() -> None:
    faults, clock, heard = watched()
    for _ in range(10):
        faults.saw(fault("unreachable"))
        faults.answered(READS_SHOW)
        assert faults.current() == ()
        clock.now += 1
    assert heard == [("unreachable", "begins")]


def test_what_nothing_fails_for_any_more_is_over() -> None:
    faults, clock, heard = watched()
    faults.saw(fault("permissions"))
    clock.now += FORGOTTEN_S + 1
    assert faults.current() == ()
    assert not faults.any
    assert heard == [("permissions", "begins"), ("permissions", "over")]
