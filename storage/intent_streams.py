"""The intent streams: how intents reach the daemon and outcomes reach the writers.

A stream per shard with one consumer group; a key per outcome; a reply stream per writer that asked for one; the event
and dead-letter streams. All of it is transport: the journal is the record, and Redis can be emptied at any time. So an
entry's id never identifies an intent, and a missing group starts again at the stream's beginning, never at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, Protocol

import msgspec

from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.limits import Limits
from firn.storage.redis_vitals import RedisVitals
from firn.storage.store_faults import StoreFaults

GROUP: Final = "firn"
"""The consumer group on every intent stream."""

INTENT_FIELD: Final = "intent"
_INTENT_FIELD: Final = INTENT_FIELD.encode()
OUTCOME_FIELD: Final = "outcome"
EVENT_FIELD: Final = "event"
DEAD_LETTER_FIELD: Final = "dead-letter"

PAYLOAD_BYTES_MAX: Final = Limits().intent_bytes_max
"""Default limit of one intent's JSON."""

REPLY_TTL_S: Final = 24 * 3600
REPLY_LENGTH_MAX: Final = 10_000
EVENTS_LENGTH_MAX: Final = 100_000
DEAD_LETTERS_LENGTH_MAX: Final = 10_000

COUNTED_MAX: Final = 50
"""Undelivered entries that `IntentStreams.deliveries` counts one by one: they are sent along with the answer."""

BOOK_NOTES_MAX: Final = 1_000
BOOK_VERSION: Final = "version"

FIRST_ID: Final = "0-0"

SHARDS_DEFAULT: Final = 16
SHARDS_MAX: Final = 1024


class StreamNames(msgspec.Struct, frozen=True):
    """The keys in Redis, below a prefix, so that several firns can share a server."""

    prefix: str = "firn"

    def intents(self, shard: int) -> str:
        """The stream that writers add to."""
        return f"{self.prefix}:intents:{shard}"

    def outcome(self, intent_id: str) -> str:
        """The key that holds an intent's outcome for a while."""
        return f"{self.prefix}:outcome:{intent_id}"

    @property
    def replies(self) -> str:
        """What every reply stream's name begins with. No other ``reply-to`` is ever written to."""
        return f"{self.prefix}:replies:"

    @property
    def events(self) -> str:
        """CloudEvents JSON for live consumers."""
        return f"{self.prefix}:events"

    @property
    def dead_letters(self) -> str:
        """What could not be read, with the reason."""
        return f"{self.prefix}:dead-letters"

    @property
    def epoch(self) -> str:
        """The key that identifies this Redis's content."""
        return f"{self.prefix}:epoch"

    @property
    def deployment(self) -> str:
        """The key with whose Redis this is (`firn.model.deployment.RedisMark`)."""
        return f"{self.prefix}:deployment"

    @property
    def settings(self) -> str:
        """The key with what the daemons tell every writer (`SharedSettings`)."""
        return f"{self.prefix}:settings"

    @property
    def probe(self) -> str:
        """A key that never exists: `IntentStreams.probe` would write it if it did."""
        return f"{self.prefix}:probe"

    def table(self, name: str) -> str:
        """The key with where a table's metadata was after its last commit (`TablePlace`)."""
        return f"{self.prefix}:table:{name}"

    def book(self, table: str) -> str:
        """The hash with a table's notes (`Book`)."""
        return f"{self.prefix}:book:{table}"

    def is_reply(self, stream: str) -> bool:
        """May outcomes be written to `stream`? A reply must not land among intents or in somebody else's keys."""
        return stream.startswith(self.replies) and 0 < len(stream) - len(self.replies) <= 256


class SharedSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What daemons and writers must agree on, as JSON under `StreamNames.settings`.

    `warehouse` and `allowed` say where tables may be, for dry runs; a daemon decides by its own settings.
    """

    shards: Annotated[int, msgspec.Meta(ge=1, le=SHARDS_MAX)] = SHARDS_DEFAULT
    warehouse: str | None = None
    allowed: tuple[str, ...] = ()


class TablePlace(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Where a table or view is, as JSON under `StreamNames.table`: a copy for writers, never a base for decisions."""

    table_uuid: str
    metadata_location: str
    kind: Literal["table", "view"] = "table"


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of an intent stream.

    `payload` is None when the entry has not exactly the one field it should; `fields` are then what it had.
    `deliveries` counts how often it was handed out.
    """

    shard: int
    entry_id: str
    payload: bytes | None
    deliveries: int
    fields: dict[bytes, bytes] = {}


class Delivered(msgspec.Struct, frozen=True):
    """An entry that was handed out and is not settled, without what is in it."""

    entry_id: str
    deliveries: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it stands in its stream, for people who ask.

    ``waiting``: nobody was handed it yet. ``taken``: `consumer` was, `idle_ms` ago the last time. ``settled``: its
    outcome was told, and it goes with the next trim.
    """

    entry_id: str
    payload: bytes | None
    state: Literal["waiting", "taken", "settled"]
    consumer: str | None = None
    deliveries: int = 0
    idle_ms: int = 0


class Settlement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to be told about one entry before it is acknowledged.

    `intent_id` None: there is no outcome key. Otherwise the outcome is put under the intent's key if there is none yet,
    or where it is `journaled` and the one there is not (`outcome_to_send`). `event` and `dead_letter` are JSON.
    """

    shard: int
    entry_id: str
    intent_id: str | None
    outcome: bytes
    outcome_ttl_s: int
    reply_to: str | None = None
    event: bytes | None = None
    dead_letter: bytes | None = None
    journaled: bool = False


class _Decision(msgspec.Struct):
    batch: str | None = None
    digest: str | None = None


_DECISION: Final = msgspec.json.Decoder(_Decision)


def outcome_to_send(told: Settlement, stored: bytes | None) -> tuple[bytes, bool]:
    """Return what to reply where `stored` is under the intent's key, and whether the outcome takes its place.

    The first outcome is final. One that no journal keeps (it names no batch) gives way to one that a journal keeps. The
    same decision on the same content is replied as it was sent first, when its times were known.
    """
    try:
        first = None if stored is None else _DECISION.decode(stored)
    except msgspec.DecodeError:
        first = None
    if stored is None or first is None or (first.batch is None and told.journaled):
        return told.outcome, True
    return (stored if _is_same(first, told.outcome) else told.outcome), False


def _is_same(first: _Decision, outcome: bytes) -> bool:
    try:
        decision = _DECISION.decode(outcome)
    except msgspec.DecodeError:
        return False
    return first.batch is not None and (first.batch, first.digest) == (decision.batch, decision.digest)


class Message(msgspec.Struct, frozen=True):
    """An entry of a reply, event or dead-letter stream; `data` is its JSON."""

    entry_id: str
    data: bytes


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """Small notes about one table that clients and daemons leave each other: advice, never a base for decisions.

    `version` grows with every change, `now_ms` is Redis's clock when it was read.
    """

    notes: dict[str, bytes]
    version: int
    now_ms: int


class ShardLag(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How far behind a shard is.

    `length` entries are in the stream, `undelivered` of them never handed out (None: the server cannot tell), `pending`
    handed out and not acknowledged. `entries_added` counts since the stream began. `oldest_entry_ms` is when the oldest
    entry that is not settled was added, in Unix milliseconds by Redis's clock, `oldest_undelivered_ms` the oldest that
    was never handed out; None when there is none.
    """

    length: int
    undelivered: int | None
    pending: int
    entries_added: int
    oldest_entry_ms: int | None
    oldest_undelivered_ms: int | None = None


class Deliveries(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has counted of a stream, all at one moment: what left it unread can be told from two of these.

    `added` entries since the stream began, `removed` of them are not there any more; `pending` were handed out and not
    acknowledged, `undelivered` are there and were never handed out (None: more than `COUNTED_MAX`). `delivered_id` was
    handed out last (`FIRST_ID`: nothing was), and `delivered_there` says whether it is still there, as
    `IntentStreams.trim` leaves it. `delivered` is how many entries the group was handed, as the server counts them:
    None when it cannot tell.
    """

    added: int
    removed: int
    pending: int
    undelivered: int | None
    delivered_id: str
    delivered_there: bool
    delivered: int | None


def check_payload(payload: bytes, *, bytes_max: int) -> None:
    """Refuse an intent that is over the limit, before it goes anywhere."""
    if len(payload) > bytes_max:
        raise InvalidIntent(f"{len(payload)} bytes are more than the limit of {bytes_max}", rule="intent-too-large")


def book_of(found: Mapping[bytes, bytes], *, now_ms: int) -> Book:
    """A book from the fields of its hash."""
    notes = {name.decode("utf-8", "replace"): value for name, value in found.items()}
    version = notes.pop(BOOK_VERSION, b"0")
    return Book(notes=notes, version=int(version) if version.isdigit() else 0, now_ms=now_ms)


def check_book(table: str, count: int) -> None:
    """Refuse a book that has more notes than any client of ours leaves."""
    if count > BOOK_NOTES_MAX:
        raise InvalidInput(f"has {count} notes in Redis, at most {BOOK_NOTES_MAX} are read", where=f"book of {table}")


def id_order(entry_id: str) -> tuple[int, int]:
    """What entry ids are ordered by: milliseconds and a number within them."""
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)


def id_after(entry_id: str) -> str:
    """The smallest id after another."""
    milliseconds, sequence = id_order(entry_id)
    return f"{milliseconds}-{sequence + 1}"


def entry_of(shard: int, entry_id: str, fields: dict[bytes, bytes], *, deliveries: int) -> Entry:
    """An entry from its raw fields."""
    payload = fields.get(_INTENT_FIELD)
    if payload is None or len(fields) != 1:
        return Entry(shard=shard, entry_id=entry_id, payload=None, deliveries=deliveries, fields=fields)
    return Entry(shard=shard, entry_id=entry_id, payload=payload, deliveries=deliveries)


def new_entries(shard: int, found: Sequence[tuple[bytes, list[bytes]]]) -> list[Entry]:
    """Entries that are handed out for the first time, from their raw ids and fields: names and values by turns."""
    return [
        Entry(shard=shard, entry_id=entry_id.decode(), payload=fields[1], deliveries=1)
        if len(fields) == 2 and fields[0] == _INTENT_FIELD  # as nearly all are
        else entry_of(shard, entry_id.decode(), dict(zip(fields[::2], fields[1::2], strict=True)), deliveries=1)
        for entry_id, fields in found
    ]


class IntentStreams(Protocol):
    """The streams of one Redis.

    Everything raises `Unavailable` when Redis does not answer or refuses for now, `UnknownOutcome` where a write may
    have happened, and `Misconfigured` when the credentials do not allow it.
    """

    @property
    def names(self) -> StreamNames: ...

    @property
    def groups_created(self) -> int:
        """How often a consumer group was missing and made anew.

        When it grew, Redis may have been emptied: read `epoch` again before working on anything that is taken next.
        """
        ...

    @property
    def entries_lost(self) -> int:
        """Entries that were deleted from under the daemon while they were pending."""
        ...

    @property
    def faults(self) -> StoreFaults:
        """What is wrong with Redis, as far as it was noticed here."""
        ...

    async def probe(self) -> None:
        """Ask for a write that changes nothing, so that `faults` is up to date. Raises as everything does."""
        ...

    async def submit(self, shard: int, payload: bytes) -> str:
        """Add an intent; its entry id. `InvalidIntent` when it is over the limit.

        `UnknownOutcome`: submit the same intent again.
        """
        ...

    async def holds(self, shard: int, entry_id: str) -> bool:
        """Whether the entry is still there: then it was not lost, though it may be settled and not yet trimmed."""
        ...

    async def take(self, shards: Sequence[int], *, consumer: str, count: int, block_ms: int) -> list[Entry]:
        """Up to `count` entries a shard that nobody was handed yet, in order; wait up to `block_ms` for the first.

        Entries whose reply got lost stay pending: `read_again` gets them.
        """
        ...

    async def pending(self, shard: int, *, start: str = FIRST_ID, count: int, min_idle_ms: int = 0) -> list[Delivered]:
        """Entries that were handed out, to anybody, at least `min_idle_ms` ago, and are not settled.

        The first `count` from the entry id `start` on, in order.
        """
        ...

    async def read_again(self, shard: int, found: Sequence[Delivered], *, consumer: str) -> list[Entry]:
        """Take these entries over, in order, without counting it as a delivery.

        Those that have been settled or deleted meanwhile are left out.
        """
        ...

    async def count_delivery(self, shard: int, entries: Sequence[Entry], *, consumer: str) -> list[Entry]:
        """Count that these entries, which were read again, are handed out once more; them with their `deliveries`."""
        ...

    async def reclaim(self, shard: int, entry_ids: Sequence[str], *, consumer: str) -> list[str]:
        """Make entries pending again that were handed out and that somebody acknowledged or took the consumer of.

        Return those that are still in the stream. An entry that is pending already becomes the consumer's.
        """
        ...

    async def remove_idle_consumers(self, shard: int, *, keep: str, idle_ms: int) -> list[str]:
        """Remove consumers that have nothing pending and asked for nothing for so long; return their names.

        `keep` stays. A daemon whose consumer was removed gets it back with its next read.
        """
        ...

    async def foreign_keys(self, shards: Sequence[int]) -> dict[int, str]:
        """Return the shards whose key is no stream, with the type that it has: nothing can be read there or sent."""
        ...

    async def settle(
        self,
        batch: Sequence[Settlement],
        *,
        events: Sequence[bytes] = (),
        places: Mapping[str, bytes | None] | None = None,
    ) -> None:
        """Publish events and places of tables, tell the outcomes, then acknowledge the entries; one round trip.

        Whoever heard of a commit finds the table as it was after it. Safe to repeat; some may be told twice.
        """
        ...

    async def publish(self, events: Sequence[bytes]) -> None:
        """Add events that belong to no entry."""
        ...

    async def outcome(self, intent_id: str) -> bytes | None:
        """The outcome, while Redis still has it."""
        ...

    async def outcomes(self, intent_ids: Sequence[str]) -> list[bytes | None]:
        """As `outcome`, of many in one round trip; in their order."""
        ...

    async def replies(self, stream: str, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        """Outcomes on a writer's reply stream after an entry id; wait up to `block_ms` for the first."""
        ...

    async def events(self, *, after: str = FIRST_ID, block_ms: int, count: int = 100) -> list[Message]:
        """Events after an entry id; wait up to `block_ms` for the first."""
        ...

    async def newest_events(self, *, count: int) -> list[Message]:
        """The last `count` events, oldest first: where a reader who wants no more of the past begins."""
        ...

    async def dead_letters(self, *, after: str = FIRST_ID, count: int = 100) -> list[Message]:
        """Dead letters after an entry id."""
        ...

    async def drop_dead_letters(self, letter_ids: Sequence[str]) -> int:
        """Remove dead letters; how many were still there."""
        ...

    async def trim(self, shard: int) -> int:
        """Remove what is settled from the front of the stream, never an entry that is pending or undelivered.

        The entry that was handed out last stays: where it is gone, somebody else has removed entries. How many went.
        """
        ...

    async def lag(self, shard: int) -> ShardLag: ...

    async def deliveries(self, shard: int) -> Deliveries | None:
        """What the server has counted of the stream; None where nobody has read from it yet."""
        ...

    async def standing(self, shard: int, *, after: str = FIRST_ID, count: int = 100) -> list[Standing]:
        """Entries of a stream after an id, in order, and how far each has come. Looks only: nothing is handed out."""
        ...

    async def move(self, entry: Entry, *, to_shard: int) -> str:
        """Add an entry that came on the wrong shard to the right one, then acknowledge it; the new entry id."""
        ...

    async def epoch(self) -> str:
        """The identity of this Redis's content; a new one after it was emptied."""
        ...

    async def deployment(self) -> bytes | None:
        """Return whose Redis this is (`firn.model.deployment.RedisMark` as JSON), None where nobody has marked it."""
        ...

    async def mark(self, deployment: bytes, *, replacing: bytes | None) -> bool:
        """Mark Redis as a deployment's, if its mark is `replacing` (None: it has none); return whether it was."""
        ...

    def expect(self, deployment: str | None) -> None:
        """From now on, use no connection to a Redis that is marked as another deployment's: it is `Unavailable`.

        One that has no mark is used: it was emptied. None expects nothing.
        """
        ...

    async def clock_ms(self) -> int:
        """The server's clock, in Unix milliseconds: entry ids and ages are told by it."""
        ...

    async def persistence_warnings(self) -> list[str]:
        """What in the server's settings can lose acknowledged intents; empty when nothing, or when it does not say."""
        ...

    async def vitals(self) -> RedisVitals | None:
        """The server's memory, and whether it can write to disk; None when it does not say, as a cluster's nodes."""
        ...

    async def announce(self, settings: bytes) -> None:
        """Tell every writer the settings (`SharedSettings` as JSON). To be told again after Redis was emptied."""
        ...

    async def settings(self) -> bytes | None:
        """What was announced last; None when nothing was since Redis was emptied."""
        ...

    async def announce_tables(self, places: Mapping[str, bytes | None]) -> None:
        """Tell where tables are by name (`TablePlace` as JSON), None for one that is dropped."""
        ...

    async def table(self, name: str) -> bytes | None:
        """What was told last of a table; None when nothing was since Redis was emptied."""
        ...

    async def book(self, table: str) -> Book:
        """A table's notes. InvalidInput when there are more than `BOOK_NOTES_MAX`, which no client of ours leaves."""
        ...

    async def any_notes(self, tables: Sequence[str]) -> bool:
        """Whether any of the tables has notes."""
        ...

    async def note(self, table: str, changes: Mapping[str, bytes | None], *, version: int, lives_ms: int) -> bool:
        """Change notes (None: remove), if the book is still at `version`; False when it is not.

        The whole book goes when nothing was noted for `lives_ms`. A cluster does not look at the version.
        """
        ...

    async def close(self) -> None: ...
