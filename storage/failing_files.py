"""A file store that fails on purpose: what tests and the simulation wrap around a real one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from firn.model.errors import Unavailable, UnknownOutcome
from firn.storage.files import FileInfo, FileStore

FaultKind = Literal["error", "lost-reply", "slow", "torn"]
Operation = Literal["read", "create", "replace", "size", "list", "delete"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one operation.

    ``error``: nothing is done, `Unavailable`. ``lost-reply``: it is done, but the caller gets `UnknownOutcome` (a
    read: `Unavailable`). ``slow``: it is done after `seconds`. ``torn``: a write stores only the first `keep_bytes` and
    reports success, as a disk that lies does; a read returns only those.
    """

    kind: FaultKind
    seconds: float = 0.0
    keep_bytes: int = 0


FaultPlan = Callable[[Operation, str], Fault | None]
"""Decides, for an operation on a location, whether and how it fails."""


class FailingFiles:
    """The `FileStore` `inner`, with the faults that `plan` chooses. `sleep` is what a slow operation waits with."""

    def __init__(self, inner: FileStore, plan: FaultPlan, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._inner = inner
        self._plan = plan
        self._sleep = sleep

    def read(self, location: str, *, bytes_max: int) -> bytes:
        fault = self._before("read", location)
        return self._after_read(fault, location, self._inner.read(location, bytes_max=bytes_max))

    def read_range(self, location: str, *, offset: int, length: int) -> bytes:
        fault = self._before("read", location)
        return self._after_read(fault, location, self._inner.read_range(location, offset=offset, length=length))

    def create(self, location: str, data: bytes) -> None:
        fault = self._before("create", location)
        self._inner.create(location, _torn(fault, data))
        self._after_write(fault, location)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        for location, data in files:
            self.create(location, data)

    def replace(self, location: str, data: bytes) -> None:
        fault = self._before("replace", location)
        self._inner.replace(location, _torn(fault, data))
        self._after_write(fault, location)

    def size(self, location: str) -> int:
        self._before("size", location)
        return self._inner.size(location)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[FileInfo]:
        self._before("list", prefix)
        return self._inner.list(prefix, after=after)

    def delete(self, location: str) -> None:
        fault = self._before("delete", location)
        self._inner.delete(location)
        self._after_write(fault, location)

    def _before(self, operation: Operation, location: str) -> Fault | None:
        fault = self._plan(operation, location)
        if fault is not None and fault.kind == "error":
            raise Unavailable(f"{location}: {operation} failed (injected)")
        if fault is not None and fault.kind == "slow":
            self._sleep(fault.seconds)
        return fault

    def _after_read(self, fault: Fault | None, location: str, data: bytes) -> bytes:
        if fault is not None and fault.kind == "lost-reply":
            raise Unavailable(f"{location}: no reply (injected)")
        return _torn(fault, data)

    def _after_write(self, fault: Fault | None, location: str) -> None:
        if fault is not None and fault.kind == "lost-reply":
            raise UnknownOutcome(f"{location}: no reply (injected)")


def _torn(fault: Fault | None, data: bytes) -> bytes:
    return data[: fault.keep_bytes] if fault is not None and fault.kind == "torn" else data


class ScriptedFaults:
    """A plan that gives out `faults` in order to the operations named in `only` (all when None), then none."""

    def __init__(self, faults: Sequence[Fault | None], *, only: frozenset[Operation] | None = None) -> None:
        self._faults = list(reversed(faults))
        self._only = only

    def __call__(self, operation: Operation, location: str) -> Fault | None:
        if not self._faults or (self._only is not None and operation not in self._only):
            return None
        return self._faults.pop()


class RandomFaults:
    """A plan that fails operations with the probabilities in `rates`, the same way for the same `seed`."""

    def __init__(self, *, seed: int, rates: Mapping[FaultKind, float], slow_seconds_max: float = 0.05) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a seeded fault plan has to be repeatable, not secret
        self._rates = dict(rates)
        self._slow_seconds_max = slow_seconds_max

    def __call__(self, operation: Operation, location: str) -> Fault | None:
        for kind, rate in self._rates.items():
            if self._random.random() < rate:
                seconds = self._random.uniform(0, self._slow_seconds_max)
                return Fault(kind=kind, seconds=seconds, keep_bytes=self._random.randrange(1024))
        return None
