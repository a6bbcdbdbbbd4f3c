"""What is wrong with a store right now, by cause: recorded where requests fail, shown by readiness, status and metrics.

A cause that fails a hundred requests is one fault. It begins with the first of them and is over when a request shows
that it is, or when nothing has failed for it any more; both are reported once, to the listener.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, get_args

import msgspec

Store = Literal["redis", "zookeeper"]

Cause = Literal[
    "unreachable", "certificate", "credentials", "permissions", "read-only", "loading", "persistence", "memory",
    "replicas", "topology", "cluster-down", "connections", "busy", "secret-file",
]  # fmt: skip
"""Why a store refuses or does not answer:

- ``unreachable``: no connection, or no answer in time
- ``certificate``: TLS files that cannot be used, or a certificate that one side does not accept
- ``credentials``: user and password are not accepted (NOAUTH, WRONGPASS)
- ``permissions``: the user may not do this (NOPERM, ZooKeeper's NOAUTH on a node)
- ``read-only``: the server is a replica (READONLY, MASTERDOWN)
- ``loading``: it reads its data after a restart (LOADING)
- ``persistence``: it cannot write to its disk, and refuses writes (MISCONF)
- ``memory``: it is full (OOM)
- ``replicas``: fewer replicas than it was told to have (NOREPLICAS)
- ``topology``: a cluster addressed as one server, or one server as a cluster (MOVED, ASK, CROSSSLOT)
- ``cluster-down``: slots that no node serves, or that are on the move (CLUSTERDOWN, TRYAGAIN)
- ``connections``: it takes no more clients
- ``busy``: a script keeps it from everything else (BUSY)
- ``secret-file``: the file of a secret cannot be read; the last secret read from it is used
"""

CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)

ZOOKEEPER_CAUSES: Final[frozenset[Cause]] = frozenset({"unreachable", "certificate", "permissions", "secret-file"})
"""Those that ZooKeeper has."""

READS_SHOW: Final[frozenset[Cause]] = frozenset(
    {"unreachable", "certificate", "credentials", "loading", "cluster-down", "connections", "busy", "topology"}
)
"""Causes that are over when anything is answered."""

WRITES_SHOW: Final[frozenset[Cause]] = READS_SHOW | {"read-only", "persistence", "memory", "replicas"}
"""Causes that are over when a write succeeds."""

FORGOTTEN_S: Final = 15.0
"""A cause that nothing failed for during this time is over: requests, and the regular probe, repeat more often."""

QUIET_S: Final = 6.0
"""A cause is reported again only after so long without it: connections to several nodes fail and succeed in turns."""


class StoreFault(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """One cause: what the store does (`found`), its own words, and what an operator does about it (`do`)."""

    store: Store
    cause: Cause
    found: str
    said: str = ""
    do: str = ""

    def __str__(self) -> str:
        said = f": {self.said}" if self.said else ""
        return f"{self.found} ({self.cause}){said}; {self.do}"


Listener = Callable[[StoreFault, Literal["begins", "over"]], None]
"""Is called with a fault when it begins, and when it is over."""


class _Seen:
    __slots__ = ("at", "fault", "over")

    def __init__(self, fault: StoreFault, at: float) -> None:
        self.fault = fault
        self.at = at
        self.over = False


class StoreFaults:
    """The faults of one store, as one process sees them."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._seen: dict[Cause, _Seen] = {}
        self.listener: Listener | None = None
        self.any = False
        """Whether anything is recorded, so that the usual case costs nothing."""

    def saw(self, fault: StoreFault) -> None:
        """Record a failed request."""
        known = self._seen.get(fault.cause)
        self._seen[fault.cause] = _Seen(fault, self._now())
        self.any = True
        if known is None and self.listener is not None:
            self.listener(fault, "begins")

    def answered(self, shown: frozenset[Cause]) -> None:
        """A request succeeded, which shows that these causes are over."""
        for cause, seen in list(self._seen.items()):  # kazoo's thread may add to it
            if cause in shown:
                seen.over = True

    def current(self) -> tuple[StoreFault, ...]:
        """What is wrong now."""
        now = self._now()
        for cause, seen in list(self._seen.items()):
            if now - seen.at > (QUIET_S if seen.over else FORGOTTEN_S):
                del self._seen[cause]
                if self.listener is not None:
                    self.listener(seen.fault, "over")
        self.any = bool(self._seen)
        return tuple(seen.fault for seen in self._seen.values() if not seen.over)
