"""What a Redis that refuses means: every error reply and broken connection by its cause, and what is done about it.

This is the one place that reads Redis's error replies. A reply decides whether connections are made anew: a server that
has become a replica answers for ever, and never takes a write.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from typing import Final

import msgspec
import redis.exceptions as rx

from firn.storage.store_faults import Cause, StoreFault


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What an error reply means.

    `cause` None: what was asked is refused, and nothing is wrong with the server.
    `redial`: the server is the wrong one, so every connection to it is dropped. `renew`: they are dropped when the
    secret has been renewed since they were made. `settings`: only an operator can mend it, so a caller is not to retry.
    """

    cause: Cause | None
    what: str
    do: str
    redial: bool = False
    renew: bool = False
    settings: bool = False


_IS_REPLICA: Final = Reply(
    cause="read-only", redial=True, what="takes no writes: it is a replica",
    do="if a failover is not under way, point redis.url at the master, or use redis+sentinel://",
)  # fmt: skip
_NOT_LET_IN: Final = Reply(
    cause="credentials", renew=True, settings=True, what="refuses this client",
    do="correct user and password in redis.url, or renew the file that holds them",
)  # fmt: skip
_IS_CLUSTER: Final = Reply(
    cause="topology", settings=True, what="is a node of a cluster",
    do="write redis+cluster:// (with TLS rediss+cluster://) in redis.url",
)  # fmt: skip
_SLOTS: Final = Reply(
    cause="cluster-down", what="does not serve every slot",
    do="wait for the failover or the migration; redis-cli --cluster check names what is missing",
)  # fmt: skip
CERTIFICATE: Final = Reply(
    cause="certificate", what="does not answer",
    do="renew the certificate or the CA file named in redis.url; files are read again for every connection",
)  # fmt: skip
UNREACHABLE: Final = Reply(
    cause="unreachable", what="does not answer", do="start it, or correct redis.url; docs/runbooks/servers.md"
)
OTHER: Final = Reply(cause=None, what="refuses", do="")

REPLIES: Final[dict[str, Reply]] = {
    "READONLY": _IS_REPLICA,
    "MASTERDOWN": _IS_REPLICA,
    "NOAUTH": _NOT_LET_IN,
    "WRONGPASS": _NOT_LET_IN,
    "NOPERM": Reply(
        cause="permissions", renew=True, settings=True, what="refuses this client",
        do="give the user what deploy/redis/users.acl.in lists, or renew the file with its name and password",
    ),
    "MOVED": _IS_CLUSTER,
    "ASK": _IS_CLUSTER,
    "CROSSSLOT": _IS_CLUSTER,
    "CLUSTERDOWN": _SLOTS,
    "TRYAGAIN": _SLOTS,
    "LOADING": Reply(cause="loading", what="cannot now", do="wait: it reads its data after a restart"),
    "MISCONF": Reply(
        cause="persistence", what="refuses writes because it cannot keep them",
        do="see its log: most likely its disk is full",
    ),
    "OOM": Reply(
        cause="memory", what="is full", do="raise maxmemory, or find out which stream grew (docs/runbooks/servers.md)"
    ),
    "NOREPLICAS": Reply(
        cause="replicas", what="refuses writes: too few replicas follow it",
        do="bring the replicas back, or lower min-replicas-to-write",
    ),
    "BUSY": Reply(
        cause="busy", what="runs a script, and answers nothing else",
        do="if it does not end: redis-cli script kill; firn's own scripts take milliseconds",
    ),
    "DENIED": Reply(
        cause="permissions", settings=True, what="refuses this client",
        do="its protected mode lets nobody in from outside: set a password and bind it to an address",
    ),
}  # fmt: skip
"""By the reply's first word."""

_CLASSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (rx.ReadOnlyError, "READONLY"),
    (rx.MasterDownError, "MASTERDOWN"),
    (rx.MovedError, "MOVED"),
    (rx.AskError, "ASK"),
    (rx.ClusterDownError, "CLUSTERDOWN"),
    (rx.TryAgainError, "TRYAGAIN"),
    (rx.ClusterCrossSlotError, "CROSSSLOT"),
    (rx.BusyLoadingError, "LOADING"),
    (rx.NoPermissionError, "NOPERM"),
    (rx.OutOfMemoryError, "OOM"),
    (rx.AuthenticationError, "NOAUTH"),
    (rx.AuthorizationError, "NOPERM"),
)
"""Replies that the client library turns into classes, without their first word."""

_FIRST_WORD: Final = re.compile(rf"(?:^|[ :]-)({'|'.join(REPLIES)})\b")
"""Of a reply as it came; an error within a script is quoted behind a dash."""

_ROLE_CHANGED: Final = "instance state changed"
"""In the reply to a blocking read of a server that has just become a replica."""

_NO_CLUSTER: Final = Reply(
    cause="topology", settings=True, what="is no cluster", do="write redis:// or rediss:// in redis.url"
)
_NO_ANSWER: Final = (rx.ConnectionError, rx.TimeoutError, rx.InvalidResponse, OSError)
"""An answer that is none by the protocol is as good as none."""

_TOO_MANY: Final = Reply(
    cause="connections", what="takes no more clients", do="raise maxclients, or find out who keeps connections open"
)


class TlsFilesError(rx.ConnectionError):
    """Files of certificates or keys that cannot be used for a connection."""


def reply_in(error: BaseException) -> Reply:
    """What an error of the client library means."""
    for one in chain_of(error):
        found = _reply(one)
        if found is not None:
            return found
    return UNREACHABLE if isinstance(error, _NO_ANSWER) else OTHER


def _reply(error: BaseException) -> Reply | None:
    text = str(error)
    if isinstance(error, TlsFilesError | ssl.SSLError):
        return CERTIFICATE
    if isinstance(error, rx.RedisClusterException):
        return _NO_CLUSTER if "not enabled" in text else None if error.__cause__ or error.__context__ else UNREACHABLE
    for kind, word in _CLASSES:
        if isinstance(error, kind):
            return REPLIES[word]
    if isinstance(error, rx.MaxConnectionsError) or "max number of clients" in text:
        return _TOO_MANY
    if not isinstance(error, rx.RedisError):
        return None
    if _ROLE_CHANGED in text:
        return _IS_REPLICA
    named = _FIRST_WORD.search(text)
    return None if named is None else REPLIES[named[1]]


def fault_of(reply: Reply, said: str) -> StoreFault | None:
    """The fault to show: what Redis does, and its own words."""
    if reply.cause is None:
        return None
    return StoreFault(store="redis", cause=reply.cause, found=f"Redis {reply.what}", said=said, do=reply.do)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error and those behind it, each once: errors that are raised again can stand behind one another."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__
