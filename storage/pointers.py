"""The table pointer: which metadata file a table is, and the one operation that moves it.

A pointer is one znode below ``/tables``. `Pointers.swap` is ZooKeeper's multi over the lock nodes and the pointers: it
is the only thing in firn that decides whether a commit happened, and nothing reaches around it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import CorruptFile, Fenced, InvalidInput, Misconfigured, NotFound, Unavailable, UnknownOutcome
from firn.model.pointer import Pointer
from firn.storage.content_digests import is_of_parts
from firn.storage.leases import Lease
from firn.storage.log import get_logger
from firn.storage.sessions import (
    MULTI_ANY_VERSION,
    ZNODE_BYTES_MAX,
    Check,
    Create,
    Delete,
    Multi,
    MultiOp,
    NodeStat,
    OpFailed,
    OpResult,
    Session,
    Set,
    decode_name,
    encode_name,
)

__all__ = [
    "MOVES",
    "SWAP_BYTES_MAX",
    "TABLES",
    "FencedOut",
    "Lost",
    "Moves",
    "Pointer",
    "PointerChange",
    "PointerCheck",
    "Pointers",
    "Swap",
    "SwapOutcome",
    "Unknown",
    "Versioned",
    "Won",
    "pointer_from_json",
    "pointer_to_json",
    "swap_bytes",
    "with_digest",
]

TABLES: Final = "/tables"

MOVES: Final = "/table-moves"
"""Its version counts how often a table was given another place; its data names the last, a list for each version."""

MOVES_LISTED: Final = 200
"""Moves whose names are kept: a daemon that has seen all but so many forgets only those names' places."""

SWAP_BYTES_MAX: Final = 512 * 1024
"""All pointers of one swap together: a multi is one packet, and ZooKeeper's is 1 MiB."""

_log: Any = get_logger()


def with_digest(pointer: Pointer, digest: str | None) -> Pointer:
    """The pointer with a digest of either kind, or without any."""
    of_parts = digest is not None and is_of_parts(digest)
    return msgspec.structs.replace(
        pointer,
        metadata_digest=None if of_parts else digest,
        metadata_digest_of_parts=digest if of_parts else None,
    )


class Versioned(msgspec.Struct, frozen=True):
    """A pointer as read, with the znode version that a swap has to name."""

    pointer: Pointer
    version: int


class Moves(msgspec.Struct, frozen=True):
    """How often tables were given other places, and the names that the last moves were about, newest last."""

    version: int
    last: tuple[tuple[str, ...], ...]

    def since(self, version: int) -> frozenset[str] | None:
        """Return the names that moved after a version; None where that is not known of all."""
        count = self.version - version
        if not 0 <= count <= len(self.last):
            return None
        return frozenset(name for names in self.last[len(self.last) - count :] for name in names)


class PointerChange(msgspec.Struct, frozen=True, kw_only=True):
    """One pointer's part in a swap.

    `pointer` None removes it. `expected` is the version that was read; None means that there must be no pointer yet.
    """

    table: str
    pointer: Pointer | None
    expected: int | None


class PointerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A pointer that a swap must find where it was read, and does not change."""

    table: str
    version: int


class Swap(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A swap that is ready to be sent, once."""

    moved: tuple[PointerChange | PointerCheck, ...]
    leases: tuple[Lease, ...]
    multi: Multi


class Won(msgspec.Struct, frozen=True):
    """The swap happened; the new version of each pointer that was set (not of those removed)."""

    versions: dict[str, int]


class Lost(msgspec.Struct, frozen=True):
    """The swap did not happen: the pointer of `tables` (the first that was seen) is not at the version expected."""

    tables: tuple[str, ...]


class FencedOut(msgspec.Struct, frozen=True):
    """The swap did not happen and never will: a lease is gone."""


class Unknown(msgspec.Struct, frozen=True):
    """The swap went out and no answer came. Delete nothing, repeat nothing: read the pointer and compare."""

    reason: str


SwapOutcome = Won | Lost | FencedOut | Unknown


class Pointers:
    """The pointers of all tables, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def read(self, table: str) -> Versioned:
        """The pointer, at least as new as this call: what a decision may rest on. `NotFound`; `CorruptFile`."""
        return _decoded(table, *await self._session.sync_get(_path(table)))

    async def read_cached(self, table: str) -> Versioned:
        """The pointer as the connected server has it, which may be behind. `NotFound`; `CorruptFile`."""
        return _decoded(table, *await self._session.get(_path(table)))

    async def read_dated(self, table: str) -> tuple[Pointer, int]:
        """As `read_cached`, with when the pointer was set: Unix milliseconds, by the server's clock."""
        data, stat = await self._session.get(_path(table))
        return _decoded(table, data, stat).pointer, stat.mtime_ms

    async def list(self) -> list[str]:
        """The names of all tables and views, sorted."""
        try:
            encoded = await self._session.children(TABLES)
        except NotFound:
            return []
        names = []
        for name in encoded:
            try:
                names.append(decode_name(name))
            except InvalidInput as error:
                _log.warning("pointer.foreign-node", node=name, error=str(error))
        return sorted(names)

    async def moves(self) -> Moves:
        """Return how often tables were given other places, and which were the last: what is known of those is old."""
        try:
            data, stat = await self._session.sync_get(MOVES)
        except NotFound:
            return Moves(0, ())
        return Moves(stat.version, _moved_names(data))

    async def note_move(self, names: Collection[str]) -> None:
        """Say that these names are about to get other places; before the swap, under the lock over all places."""
        await self._session.ensure_path(MOVES)
        listed = _moved_names((await self._session.sync_get(MOVES))[0])
        # An older firn writes no names: then there are fewer of them than versions, and readers forget all places.
        listed = (*listed, tuple(sorted(names)))[-MOVES_LISTED:]
        while len(data := msgspec.json.encode(listed)) > ZNODE_BYTES_MAX:
            listed = listed[1:]
        await self._session.set(MOVES, data, version=MULTI_ANY_VERSION)

    async def swap(
        self, changes: Sequence[PointerChange], *, leases: Sequence[Lease], unmoved: Sequence[PointerCheck] = ()
    ) -> SwapOutcome:
        """Apply all of `changes` if every lease still stands and every pointer is where it was expected; else none.

        Those of `unmoved` are only looked at. As `worded` and `send`.
        """
        return await self.send(self.worded(changes, leases=leases, unmoved=unmoved))

    def worded(
        self, changes: Sequence[PointerChange], *, leases: Sequence[Lease], unmoved: Sequence[PointerCheck] = ()
    ) -> Swap:
        """What a swap sends, made before it may be sent: while files are written, for one.

        Raises `InvalidInput` for changes that contradict one another or do not fit.
        """
        _check_changes(changes)
        moved: tuple[PointerChange | PointerCheck, ...] = (*changes, *unmoved)
        ops = [_op(change) for change in moved]
        if sum(len(op.data) for op in ops if isinstance(op, Create | Set)) > SWAP_BYTES_MAX:
            raise InvalidInput(f"the swap's pointers have more than {SWAP_BYTES_MAX} bytes together")
        multi = self._session.worded([*(Check(lease.path) for lease in leases), *ops])
        return Swap(moved=moved, leases=tuple(leases), multi=multi)

    async def send(self, swap: Swap) -> SwapOutcome:
        """Send a swap, once, never repeated.

        Raises `Unavailable` when nothing was changed (the session is suspended, the server refuses for now). Who is
        cancelled while waiting here has an unknown outcome.
        """
        if any(lease.session_epoch != self._session.epoch for lease in swap.leases):
            return FencedOut()
        if any(isinstance(change, PointerChange) and change.expected is None for change in swap.moved):
            try:
                await self._session.ensure_path(TABLES)
            except (UnknownOutcome, Fenced) as error:
                raise Unavailable(f"nothing was swapped: {error}") from error
        try:
            results = await self._session.multi(swap.multi)
        except UnknownOutcome as error:
            return Unknown(str(error))
        except Fenced as error:
            # "Session expired" may be the answer to a request that was applied just before the session was.
            return Unknown(f"the session ended during the swap: {error}")
        return _outcome(swap.moved, results, lease_count=len(swap.leases))


def swap_bytes(changes: Sequence[PointerChange]) -> int:
    """How much of `SWAP_BYTES_MAX` the changes take."""
    return sum(len(pointer_to_json(change.pointer)) for change in changes if change.pointer)


def pointer_to_json(pointer: Pointer) -> bytes:
    """The znode's payload."""
    members = msgspec.to_builtins(pointer)
    extra = members.pop("extra")
    data = msgspec.json.encode({**extra, **members})
    if len(data) > ZNODE_BYTES_MAX:
        raise InvalidInput(f"the pointer has {len(data)} bytes, more than {ZNODE_BYTES_MAX}", where=pointer.table)
    return data


def pointer_from_json(data: bytes, *, where: str = "pointer") -> Pointer:
    """Read a znode's payload; `CorruptFile` naming `where` when it is none."""
    try:
        members = msgspec.json.decode(data)
        if not isinstance(members, dict):
            raise CorruptFile(where, "the pointer is not a JSON object")
        known = set(Pointer.__struct_encode_fields__) - {"extra"}
        extra = {name: value for name, value in members.items() if name not in known}
        own = {name: value for name, value in members.items() if name in known}
        return msgspec.convert({**own, "extra": extra}, Pointer)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CorruptFile(where, f"the pointer does not decode: {error}") from error


def _path(table: str) -> str:
    return f"{TABLES}/{encode_name(table)}"


def _decoded(table: str, data: bytes, stat: NodeStat) -> Versioned:
    pointer = pointer_from_json(data, where=_path(table))
    if pointer.table != table:
        raise CorruptFile(_path(table), f"holds the pointer of {pointer.table!r}")
    return Versioned(pointer, stat.version)


def _moved_names(data: bytes) -> tuple[tuple[str, ...], ...]:
    try:
        return msgspec.json.decode(data, type=tuple[tuple[str, ...], ...])
    except msgspec.DecodeError:
        return ()  # as an older firn leaves it: that is read as not known


def _check_changes(changes: Sequence[PointerChange]) -> None:
    if not changes:
        raise InvalidInput("a swap needs at least one change")
    if len({change.table for change in changes}) != len(changes):
        raise InvalidInput("a swap names a table twice")
    for change in changes:
        if change.pointer is None and change.expected is None:
            raise InvalidInput("neither sets nor removes anything", where=change.table)
        if change.pointer is not None and change.pointer.table != change.table:
            raise InvalidInput(f"carries the pointer of {change.pointer.table!r}", where=change.table)


def _op(change: PointerChange | PointerCheck) -> MultiOp:
    path = _path(change.table)
    if isinstance(change, PointerCheck):
        return Check(path, change.version)
    if change.pointer is None:
        assert change.expected is not None
        return Delete(path, change.expected)
    data = pointer_to_json(change.pointer)
    return Create(path, data) if change.expected is None else Set(path, data, change.expected)


def _outcome(
    changes: Sequence[PointerChange | PointerCheck], results: list[OpResult], *, lease_count: int
) -> SwapOutcome:
    if len(results) != lease_count + len(changes):
        return Unknown(f"{plural(len(results), 'result')} for {lease_count + len(changes)} operations")
    failed = [
        (index, result)
        for index, result in enumerate(results)
        if isinstance(result, OpFailed) and result.reason != "rolled-back"
    ]
    if not failed and any(isinstance(result, OpFailed) for result in results):
        raise Unavailable("ZooKeeper rolled the swap back and gave no reason")
    if any(index < lease_count and result.reason in ("no-node", "bad-version") for index, result in failed):
        return FencedOut()
    moved = tuple(
        changes[index - lease_count].table
        for index, result in failed
        if index >= lease_count and result.reason in ("no-node", "node-exists", "bad-version")
    )
    if moved:
        return Lost(moved)
    for _, result in failed:
        if result.reason == "no-auth":
            raise Misconfigured("ZooKeeper's ACL does not let this daemon move pointers: check the credentials")
        raise Unavailable(f"ZooKeeper refused the swap: {result.reason} {result.detail}")
    stats = zip(changes, results[lease_count:], strict=True)
    return Won(
        {
            change.table: _new_version(result)
            for change, result in stats
            if isinstance(change, PointerChange) and change.pointer is not None
        }
    )


def _new_version(result: OpResult) -> int:
    return result.version if isinstance(result, NodeStat) else 0  # a created node starts at 0
