"""Telling outcomes and acknowledging entries in one script: a round trip with one answer, however many there are.

A pipeline would do the same with five commands and ten answers an intent, which cost Python more than the commit does;
and the script's arguments come joined, because the client library takes as long over one as over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import redis.exceptions as rx
import structlog

from firn.storage.intent_streams import (
    DEAD_LETTER_FIELD,
    DEAD_LETTERS_LENGTH_MAX,
    EVENT_FIELD,
    EVENTS_LENGTH_MAX,
    GROUP,
    OUTCOME_FIELD,
    REPLY_LENGTH_MAX,
    REPLY_TTL_S,
    Settlement,
    StreamNames,
)
from firn.storage.redis_errors import redis_errors

_log: Any = structlog.get_logger(__name__)

SCRIPT: Final = f"""
local lengths, given, at, from = cmsgpack.unpack(ARGV[1]), ARGV[2], 0, 1
local function take()
  at = at + 1
  local start = from
  from = from + lengths[at]
  return string.sub(given, start, from - 1)
end
local function count() return tonumber(take()) end
local function event(data)
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', {EVENTS_LENGTH_MAX}, '*', '{EVENT_FIELD}', data)
end
for _ = 1, count() do event(take()) end
for _ = 1, count() do
  local key, place = take(), take()
  if place == '' then redis.call('DEL', key) else redis.call('SET', key, place) end
end
local refused, told = {{}}, {{}}
for _ = 1, count() do
  local outcome, key, ttl, reply, news, letter = take(), take(), take(), take(), take(), take()
  if key ~= '' then redis.call('SET', key, outcome, 'EX', ttl) end
  if reply ~= '' then
    local answer = redis.pcall(
      'XADD', reply, 'MAXLEN', '~', {REPLY_LENGTH_MAX}, '*', '{OUTCOME_FIELD}', outcome)
    if type(answer) == 'table' and answer.err then
      if not string.find(answer.err, 'WRONGTYPE') then return answer end
      refused[#refused + 1] = answer.err
    elseif not told[reply] then
      told[reply] = true
      redis.call('EXPIRE', reply, {REPLY_TTL_S})
    end
  end
  if news ~= '' then event(news) end
  if letter ~= '' then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', {DEAD_LETTERS_LENGTH_MAX}, '*', '{DEAD_LETTER_FIELD}', letter)
  end
end
for _ = 1, count() do
  local stream = take()
  for _ = 1, count() do redis.call('XACK', stream, '{GROUP}', take()) end
end
return refused
"""
"""Events, places of tables, outcomes, acknowledgements; the answer lists the replies that a stream did not take.

Anything else that is refused ends it before an entry is acknowledged.
"""

OUTCOMES_SCRIPT: Final = """
local found = {}
for at, key in ipairs(cmsgpack.unpack(ARGV[1])) do
  local outcome = redis.call('GET', key)
  if outcome then
    found[#found + 1] = at
    found[#found + 1] = outcome
  end
end
return found
"""
"""Outcomes by their keys (MessagePack): those that are there, each behind its place in the list, from 1 on."""


def keys_of(names: StreamNames) -> list[str]:
    """The streams that are the same for every call."""
    return [names.events, names.dead_letters]


def arguments_of(
    batch: Sequence[Settlement], *, events: Sequence[bytes], places: Mapping[str, bytes | None], names: StreamNames
) -> tuple[bytes, bytes]:
    """What the script takes, in the order in which it takes it: the length of each (MessagePack), and all joined."""
    out: list[bytes] = [b"%d" % len(events), *events, b"%d" % len(places)]
    for table, place in places.items():
        out += (names.table(table).encode(), place or b"")
    out.append(b"%d" % len(batch))
    outcomes = names.outcome("")
    replies: dict[str | None, bytes] = {None: b""}
    acknowledged: dict[int, list[bytes]] = {}
    for told in batch:
        reply = replies.get(told.reply_to)
        if reply is None:
            assert told.reply_to is not None
            reply = replies[told.reply_to] = told.reply_to.encode() if names.is_reply(told.reply_to) else b""
        out += (
            told.outcome,
            b"" if told.intent_id is None else (outcomes + told.intent_id).encode(),
            b"%d" % told.outcome_ttl_s,
            reply,
            told.event or b"",
            told.dead_letter or b"",
        )
        acknowledged.setdefault(told.shard, []).append(told.entry_id.encode())
    out.append(b"%d" % len(acknowledged))
    for shard, entry_ids in acknowledged.items():
        out += (names.intents(shard).encode(), b"%d" % len(entry_ids), *entry_ids)
    return msgspec.msgpack.encode(list(map(len, out))), b"".join(out)


class RedisTelling:
    """Tells what was decided, and acknowledges. `cluster`: nothing is in one transaction, and no script spans keys."""

    def __init__(self, redis: Any, names: StreamNames, *, cluster: bool) -> None:
        self._redis = redis
        self._names = names
        self._cluster = cluster
        self._script: Any = None if cluster else redis.register_script(SCRIPT)
        self._outcomes_script: Any = None if cluster else redis.register_script(OUTCOMES_SCRIPT)
        self._scripts = not cluster

    async def settle(
        self,
        batch: Sequence[Settlement],
        *,
        events: Sequence[bytes],
        places: Mapping[str, bytes | None],
    ) -> None:
        """As `IntentStreams.settle`: events and places, then outcomes, then acknowledgements."""
        if self._scripts:
            arguments = arguments_of(batch, events=events, places=places, names=self._names)
            async with redis_errors("settle", write=True):
                try:
                    _log_refused(await self._script(keys=keys_of(self._names), args=arguments))
                except (rx.NoPermissionError, rx.ResponseError) as error:
                    self._go_on_without_scripts(error)
                else:
                    return
        await self.publish(events)
        await self.announce_tables(places)
        if not batch:
            return
        async with redis_errors("settle", write=True):
            if self._cluster:
                await self._settle_in_cluster(batch)
                return
            # One MULTI: a server without memory refuses all of it, and nothing is acknowledged that was not told.
            pipeline = self._redis.pipeline(transaction=True)
            for told in batch:
                self._tell(pipeline, told)
            for told in batch:
                pipeline.xack(self._names.intents(told.shard), GROUP, told.entry_id)
            _log_refused(await pipeline.execute(raise_on_error=False))

    async def outcomes(self, intent_ids: Sequence[str]) -> list[bytes | None]:
        """What was told of these intents, as far as it is still there."""
        keys = [self._names.outcome(intent_id) for intent_id in intent_ids]
        if self._scripts:
            async with redis_errors("outcomes"):
                try:
                    found = iter(await self._outcomes_script(args=[msgspec.msgpack.encode(keys)]))
                except (rx.NoPermissionError, rx.ResponseError) as error:
                    self._go_on_without_scripts(error)
                else:
                    by_place = dict(zip(found, found, strict=True))
                    return [by_place.get(place) for place in range(1, len(keys) + 1)]
        async with redis_errors("outcomes"):
            pipeline = self._redis.pipeline(transaction=False)  # no MGET: a cluster has the keys in many places
            for key in keys:
                pipeline.get(key)
            answers: list[bytes | None] = await pipeline.execute()
            return answers

    async def publish(self, events: Sequence[bytes]) -> None:
        """Add events to their stream."""
        if not events:
            return
        async with redis_errors("publish", write=True):
            pipeline = self._redis.pipeline(transaction=False)
            for event in events:
                pipeline.xadd(self._names.events, {EVENT_FIELD: event}, maxlen=EVENTS_LENGTH_MAX, approximate=True)
            await pipeline.execute()

    async def announce_tables(self, places: Mapping[str, bytes | None]) -> None:
        """Say where tables are now; None for one that is gone."""
        if not places:
            return
        async with redis_errors("announce_tables", write=True):
            pipeline = self._redis.pipeline(transaction=False)
            for name, place in places.items():
                if place is None:
                    pipeline.delete(self._names.table(name))
                else:
                    pipeline.set(self._names.table(name), place)
            await pipeline.execute()

    def _go_on_without_scripts(self, error: rx.RedisError) -> None:
        """To be called within the handler of `error`, which is raised again if it says anything else."""
        if not isinstance(error, rx.NoPermissionError) and "unknown command" not in str(error):
            raise error
        self._scripts = False
        _log.warning("streams.no-scripts", hint="allow +evalsha and +script|load: outcomes are sent faster then")

    def _tell(self, pipeline: Any, told: Settlement) -> None:
        if told.intent_id is not None:
            pipeline.set(self._names.outcome(told.intent_id), told.outcome, ex=told.outcome_ttl_s)
        if told.reply_to is not None and self._names.is_reply(told.reply_to):
            pipeline.xadd(told.reply_to, {OUTCOME_FIELD: told.outcome}, maxlen=REPLY_LENGTH_MAX, approximate=True)
            pipeline.expire(told.reply_to, REPLY_TTL_S)
        if told.event is not None:
            pipeline.xadd(self._names.events, {EVENT_FIELD: told.event}, maxlen=EVENTS_LENGTH_MAX, approximate=True)
        if told.dead_letter is not None:
            fields = {DEAD_LETTER_FIELD: told.dead_letter}
            pipeline.xadd(self._names.dead_letters, fields, maxlen=DEAD_LETTERS_LENGTH_MAX, approximate=True)

    async def _settle_in_cluster(self, batch: Sequence[Settlement]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for told in batch:
            self._tell(pipeline, told)
        results = await pipeline.execute(raise_on_error=False)
        for error in results:
            if isinstance(error, Exception) and not _is_wrong_type(error):
                raise error
        _log_refused(results)
        pipeline = self._redis.pipeline(transaction=False)
        for told in batch:
            pipeline.xack(self._names.intents(told.shard), GROUP, told.entry_id)
        await pipeline.execute()


def _is_wrong_type(error: object) -> bool:
    return isinstance(error, rx.ResponseError) and "WRONGTYPE" in str(error)


def _log_refused(results: Sequence[object]) -> None:
    """A writer's reply stream that is no stream costs that writer its reply, and nobody anything else."""
    for error in results:
        if isinstance(error, bytes):  # as the script says it
            _log.warning("streams.not-told", error=error.decode(errors="replace"))
        elif isinstance(error, Exception):
            _log.warning("streams.not-told", error=str(error))
