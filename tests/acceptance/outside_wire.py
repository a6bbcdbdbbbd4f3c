"""The protocol of docs/any-language.md in redis-py and JSON, without firn's client.

A `Wish` keeps every answer that it got, so that a second, different answer is found.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
import uuid
from binascii import crc_hqx
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SHARDS: Final = 16
FIRST_SILENCE_S: Final = 1.0
LAST_SILENCE_S: Final = 4.0


@dataclass
class Wish:
    """An intent that was sent: its JSON, and every answer that came.

    `hostile` names what is wrong with it, if it was made to be refused. `undecodable` ones can have no outcome.
    """

    intent: dict[str, Any]
    payload: bytes
    hostile: str | None = None
    sent_at: float = 0.0
    answered_at: float = 0.0
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def intent_id(self) -> str:
        """The intent's id."""
        return str(self.intent["intent-id"])

    @property
    def outcome(self) -> dict[str, Any]:
        """The first answer."""
        return self.answers[0]

    @property
    def committed(self) -> bool:
        """Whether it is in the table, by its first answer."""
        return bool(self.answers) and self.outcome["status"] == "committed"

    @property
    def files(self) -> Iterator[str]:
        """Return the files that it brings."""
        for member in self.intent.get("members", [self.intent]):
            yield from (f["file-path"] for name in ("data-files", "delete-files") for f in member.get(name, ()))
            yield from (member[n]["statistics-path"] for n in ("statistics", "partition-statistics") if n in member)
            yield from (manifest["manifest-path"] for manifest in member.get("manifests", ()))

    def contradiction(self) -> dict[str, Any] | None:
        """An answer that is another than the first; None if all agree."""
        return next((answer for answer in self.answers if said(answer) != said(self.outcome)), None)


def said(outcome: dict[str, Any]) -> tuple[Any, ...]:
    """What an outcome decides."""
    names = ("status", "table", "snapshot-id", "sequence-number", "metadata-location", "rule", "batch")
    return tuple(outcome.get(name) for name in names)


def new_intent_id(rng: random.Random, *, at_ms: int | None = None) -> str:
    """A UUIDv7."""
    number = (int(time.time() * 1000) if at_ms is None else at_ms) << 80 | rng.getrandbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def stream_of(table: str, *, shards: int = SHARDS) -> str:
    """The stream of a table whose name has no hash tag."""
    return f"firn:intents:{crc_hqx(table.encode(), 0) % 16384 % shards}"


def digest_of(intent: dict[str, Any]) -> str:
    """The digest of an intent without members at their defaults."""
    content = {name: value for name, value in intent.items() if name not in ("reply-to", "traceparent", "digest")}
    if "members" in content:  # the transaction's id counts as theirs
        content["members"] = [{**member, "intent-id": content["intent-id"]} for member in content["members"]]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def connect(url: str) -> redis.Redis:
    """A connection that repeats nothing by itself."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5, socket_connect_timeout=5)


class Wire:
    """One writer's connection: it sends wishes, and repeats them until each has an answer."""

    def __init__(self, url: str, rng: random.Random) -> None:
        self._redis = connect(url)
        self._rng = rng
        self.reply_to = f"firn:replies:outside-{uuid.UUID(int=rng.getrandbits(128)).hex}"
        self._cursor = "0-0"
        self._known: dict[str, Wish] = {}

    def close(self) -> None:
        """End the connection."""
        self._redis.close()

    def wish(self, intent: dict[str, Any], *, hostile: str | None = None, digest: bool = False) -> Wish:
        """An intent with an id of its own, to be answered here."""
        whole = {"intent-id": new_intent_id(self._rng), **intent, "reply-to": self.reply_to}
        if digest:
            whole["digest"] = digest_of(whole)
        return Wish(intent=whole, payload=json.dumps(whole).encode(), hostile=hostile)

    def send(self, table: str, payload: bytes, *, copies: int = 1, until: Callable[[], bool] | None = None) -> None:
        """Add an entry, again after each failure: the first may have arrived although its answer was lost."""
        while copies and not (until and until()):
            try:
                self._redis.xadd(stream_of(table), {"intent": payload})
                copies -= 1
            except redis.RedisError:
                time.sleep(self._rng.uniform(0.02, 0.2))

    def commit(self, wishes: Sequence[Wish], *, ends: threading.Event, wrong_shard: bool = False) -> None:
        """Send all, and repeat each until it has an answer, or `ends` is set."""
        for wish in wishes:
            self._known[wish.intent_id] = wish
            wish.sent_at = time.monotonic()
            table = "elsewhere" if wrong_shard else str(wish.intent["table"])
            self.send(table, wish.payload, copies=2 if self._rng.random() < 0.1 else 1, until=ends.is_set)
        silence, heard_at = FIRST_SILENCE_S, time.monotonic()
        while (open_ones := [w for w in wishes if not w.answers]) and not ends.is_set():
            if self.listen(0.3):
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > silence:
                for wish in open_ones:
                    self._ask(wish)
                silence, heard_at = min(2 * silence, LAST_SILENCE_S), time.monotonic()

    def ask_again(self, wish: Wish, *, ends: threading.Event) -> None:
        """Send a wish that has an answer once more, and wait for another one."""
        heard = len(wish.answers)
        self._known[wish.intent_id] = wish
        payload = json.dumps({**wish.intent, "reply-to": self.reply_to}).encode()
        while len(wish.answers) == heard and not ends.is_set():
            self.send(str(wish.intent["table"]), payload, until=ends.is_set)
            again_at = time.monotonic() + LAST_SILENCE_S
            while len(wish.answers) == heard and time.monotonic() < again_at and not ends.is_set():
                self.listen(0.3)

    def listen(self, seconds: float) -> bool:
        """Take in answers; whether there were any."""
        try:
            answer: Any = self._redis.xread({self.reply_to: self._cursor}, block=max(1, int(seconds * 1000)))
        except redis.RedisError:
            time.sleep(0.1)
            self._cursor = "0-0"  # an emptied Redis begins its streams anew
            return False
        heard = False
        for _, entries in answer:
            for cursor, fields in entries:
                self._cursor = cursor.decode()
                self._take(json.loads(fields[b"outcome"]))
                heard = True
        return heard

    def _ask(self, wish: Wish) -> None:
        """After silence: the kept outcome, or the same bytes once more."""
        try:
            kept: Any = self._redis.get(f"firn:outcome:{wish.intent_id}")
        except redis.RedisError:
            return
        if kept:
            self._take(json.loads(kept))
            return
        self._cursor = "0-0"
        self.send(str(wish.intent["table"]), wish.payload, until=lambda: bool(wish.answers))

    def _take(self, outcome: dict[str, Any]) -> None:
        wish = self._known.get(outcome["intent-id"])
        if wish is None:
            return
        if not wish.answers:
            wish.answered_at = time.monotonic()
        wish.answers.append(outcome)
