"""Telling outcomes and acknowledging entries in one script: a round trip with one answer, however many there are.

A pipeline would do the same with five commands and ten answers an intent, which cost Python more than the commit does;
and the script's arguments come as one, because the client library takes as long over one as over all of them.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import redis.exceptions as rx

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
    outcome_to_send,
)
from firn.storage.log import get_logger
from firn.storage.redis_errors import RedisErrors
from firn.storage.redis_lines import WaitingLine

_log: Any = get_logger()

ACKNOWLEDGED_AT_ONCE: Final = 1_000
"""Entries that one command acknowledges: a script passes on a few thousand arguments at most."""

SCRIPT: Final = f"""
local given, at, call = cmsgpack.unpack(ARGV[1]), 0, redis.call
local function take()
  at = at + 1
  return given[at]
end
for _ = 1, take() do
  call('XADD', KEYS[1], 'MAXLEN', '~', {EVENTS_LENGTH_MAX}, '*', '{EVENT_FIELD}', take())
end
for _ = 1, take() do
  local key, place = take(), take()
  if place == '' then call('DEL', key) else call('SET', key, place) end
end
local refused = {{}}
for _ = 1, take() do
  local reply, ttl, journaled, lasts = take(), take(), take(), false
  for _ = 1, take() do
    local key, outcome = take(), take()
    if key ~= '' and not call('SET', key, outcome, 'NX', 'EX', ttl) then
      local stored = redis.pcall('GET', key)
      local is_read, first = pcall(cjson.decode, stored)
      if not is_read or type(first) ~= 'table' or (journaled == 1 and not first.batch) then
        call('SET', key, outcome, 'EX', ttl)
      elseif first.batch then
        local is_same, this = pcall(cjson.decode, outcome)
        if is_same and this.batch == first.batch and this.digest == first.digest then outcome = stored end
      end
    end
    if reply ~= '' then
      local answer = redis.pcall(
        'XADD', reply, 'MAXLEN', '~', {REPLY_LENGTH_MAX}, '*', '{OUTCOME_FIELD}', outcome)
      if type(answer) == 'table' and answer.err then
        if not string.find(answer.err, 'WRONGTYPE') then return answer end
        refused[#refused + 1] = answer.err
      elseif not lasts then
        lasts = true
        call('EXPIRE', reply, {REPLY_TTL_S})
      end
    end
  end
end
for _ = 1, take() do
  call('XADD', KEYS[2], 'MAXLEN', '~', {DEAD_LETTERS_LENGTH_MAX}, '*', '{DEAD_LETTER_FIELD}', take())
end
for _ = 1, take() do
  local stream = take()
  local answer = redis.pcall('XACK', stream, '{GROUP}', unpack(take()))
  if type(answer) == 'table' and answer.err then
    if not string.find(answer.err, 'WRONGTYPE') then return answer end
    refused[#refused + 1] = answer.err
  end
end
return refused
"""
"""Events, places of tables, outcomes, acknowledgements; the answer lists the replies that a stream did not take.

Anything else that is refused ends it before an entry is acknowledged. An outcome is put under its key as
`outcome_to_send` says.
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


def argument_of(
    batch: Sequence[Settlement], *, events: Sequence[bytes], places: Mapping[str, bytes | None], names: StreamNames
) -> bytes:
    """What the script takes, as one array (MessagePack) in the order in which it takes it: events; tables with their
    places; outcomes with their keys, by reply stream; dead letters; what is to be acknowledged, by stream.

    All that is told is JSON, and goes as text: the script's library does not know the type for bytes.
    """
    prefix = names.outcome("")
    told_to: dict[tuple[str | None, int, bool], list[str]] = {}
    told_events, letters = list(events), []
    acknowledged: defaultdict[int, list[str]] = defaultdict(list)
    for told in batch:
        group = told.reply_to, told.outcome_ttl_s, told.journaled
        of_reply = told_to.get(group)
        if of_reply is None:
            of_reply = told_to[group] = []
        of_reply.append("" if told.intent_id is None else prefix + told.intent_id)
        of_reply.append(told.outcome.decode())
        if told.event is not None:
            told_events.append(told.event)
        if told.dead_letter is not None:
            letters.append(told.dead_letter)
        acknowledged[told.shard].append(told.entry_id)
    given: list[int | str | list[str]] = [len(told_events), *_texts(told_events), len(places)]
    for table, place in places.items():
        given += (names.table(table), (place or b"").decode())
    given.append(len(told_to))
    for (reply_to, ttl_s, journaled), of_reply in told_to.items():
        stream = reply_to if reply_to is not None and names.is_reply(reply_to) else ""
        given += (stream, ttl_s, int(journaled), len(of_reply) // 2)
        given += of_reply
    given += (len(letters), *_texts(letters))
    pages = [
        (names.intents(shard), entry_ids[start : start + ACKNOWLEDGED_AT_ONCE])
        for shard, entry_ids in acknowledged.items()
        for start in range(0, len(entry_ids), ACKNOWLEDGED_AT_ONCE)
    ]
    given.append(len(pages))
    for page in pages:
        given += page
    return msgspec.msgpack.encode(given)


def _texts(found: Sequence[bytes]) -> list[str]:
    return [one.decode() for one in found]


class RedisTelling:
    """Tells what was decided, and acknowledges. `cluster`: nothing is in one transaction, and no script spans keys."""

    def __init__(self, redis: Any, names: StreamNames, *, cluster: bool, errors: RedisErrors) -> None:
        self._errors = errors
        self._redis = redis
        self._names = names
        self._cluster = cluster
        self._script: Any = None if cluster else redis.register_script(SCRIPT)
        self._outcomes_script: Any = None if cluster else redis.register_script(OUTCOMES_SCRIPT)
        self._scripts = not cluster
        self._line = None if cluster else WaitingLine(redis)

    async def settle(
        self,
        batch: Sequence[Settlement],
        *,
        events: Sequence[bytes],
        places: Mapping[str, bytes | None],
    ) -> None:
        """As `IntentStreams.settle`: events and places, then outcomes, then acknowledgements."""
        if self._scripts:
            argument = argument_of(batch, events=events, places=places, names=self._names)
            async with self._errors("settle", write=True):
                try:
                    refused = await self._run(keys_of(self._names), [argument])
                except (rx.NoPermissionError, rx.ResponseError) as error:
                    self._go_on_without_scripts(error)
                else:
                    _log_refused([rx.ResponseError(said.decode(errors="replace")) for said in refused])
                    return
        await self.publish(events)
        await self.announce_tables(places)
        if not batch:
            return
        async with self._errors("settle", write=True):
            if self._cluster:
                await self._settle_in_cluster(batch)
                return
            # One MULTI: a server without memory refuses all of it, and nothing is acknowledged that was not told.
            stored = await self._stored(batch)
            pipeline = self._redis.pipeline(transaction=True)
            for told in sorted(batch, key=_is_unjournaled):  # the first under a key stays
                self._tell(pipeline, told, stored=stored)
            for told in batch:
                pipeline.xack(self._names.intents(told.shard), GROUP, told.entry_id)
            _log_refused(await pipeline.execute(raise_on_error=False))

    async def outcomes(self, intent_ids: Sequence[str]) -> list[bytes | None]:
        """What was told of these intents, as far as it is still there."""
        keys = [self._names.outcome(intent_id) for intent_id in intent_ids]
        if self._scripts:
            async with self._errors("outcomes"):
                try:
                    found = iter(await self._outcomes_script(args=[msgspec.msgpack.encode(keys)]))
                except (rx.NoPermissionError, rx.ResponseError) as error:
                    self._go_on_without_scripts(error)
                else:
                    by_place = dict(zip(found, found, strict=True))
                    return [by_place.get(place) for place in range(1, len(keys) + 1)]
        async with self._errors("outcomes"):
            pipeline = self._redis.pipeline(transaction=False)  # no MGET: a cluster has the keys in many places
            for key in keys:
                pipeline.get(key)
            answers: list[bytes | None] = await pipeline.execute()
            return answers

    async def publish(self, events: Sequence[bytes]) -> None:
        """Add events to their stream."""
        if not events:
            return
        async with self._errors("publish", write=True):
            pipeline = self._redis.pipeline(transaction=False)
            for event in events:
                pipeline.xadd(self._names.events, {EVENT_FIELD: event}, maxlen=EVENTS_LENGTH_MAX, approximate=True)
            await pipeline.execute()

    async def announce_tables(self, places: Mapping[str, bytes | None]) -> None:
        """Say where tables are now; None for one that is gone."""
        if not places:
            return
        async with self._errors("announce_tables", write=True):
            pipeline = self._redis.pipeline(transaction=False)
            for name, place in places.items():
                if place is None:
                    pipeline.delete(self._names.table(name))
                else:
                    pipeline.set(self._names.table(name), place)
            await pipeline.execute()

    async def _run(self, keys: list[str], arguments: list[bytes]) -> Any:
        """Run the script; a server that does not know it yet is told first."""
        if self._line is not None and not self._line.taken:
            with contextlib.suppress(rx.NoScriptError):
                return await self._line.ask("EVALSHA", self._script.sha, len(keys), *keys, *arguments)
        return await self._script(keys=keys, args=arguments)

    def _go_on_without_scripts(self, error: rx.RedisError) -> None:
        """To be called within the handler of `error`, which is raised again if it says anything else."""
        if not isinstance(error, rx.NoPermissionError) and "unknown command" not in str(error):
            raise error
        self._scripts = False
        _log.warning("streams.no-scripts", hint="allow +evalsha and +script|load: outcomes are sent faster then")

    async def _stored(self, batch: Sequence[Settlement]) -> dict[str, bytes]:
        """What is under the keys of these intents, where no script can look."""
        keyed = [told.intent_id for told in batch if told.intent_id is not None]
        if not keyed:
            return {}
        pipeline = self._redis.pipeline(transaction=False)
        for intent_id in keyed:
            pipeline.get(self._names.outcome(intent_id))
        found = await pipeline.execute(raise_on_error=False)
        for one in found:
            if isinstance(one, Exception) and not _is_wrong_type(one):
                raise one
        return {
            intent_id: b"" if isinstance(one, Exception) else one
            for intent_id, one in zip(keyed, found, strict=True)
            if one is not None
        }

    def _tell(self, pipeline: Any, told: Settlement, *, stored: Mapping[str, bytes]) -> None:
        outcome = told.outcome
        if told.intent_id is not None:
            first = stored.get(told.intent_id)
            outcome, is_put = outcome_to_send(told, first)
            if is_put:
                key = self._names.outcome(told.intent_id)
                pipeline.set(key, outcome, ex=told.outcome_ttl_s, nx=first is None)
        if told.reply_to is not None and self._names.is_reply(told.reply_to):
            pipeline.xadd(told.reply_to, {OUTCOME_FIELD: outcome}, maxlen=REPLY_LENGTH_MAX, approximate=True)
            pipeline.expire(told.reply_to, REPLY_TTL_S)
        if told.event is not None:
            pipeline.xadd(self._names.events, {EVENT_FIELD: told.event}, maxlen=EVENTS_LENGTH_MAX, approximate=True)
        if told.dead_letter is not None:
            fields = {DEAD_LETTER_FIELD: told.dead_letter}
            pipeline.xadd(self._names.dead_letters, fields, maxlen=DEAD_LETTERS_LENGTH_MAX, approximate=True)

    async def _settle_in_cluster(self, batch: Sequence[Settlement]) -> None:
        stored = await self._stored(batch)
        pipeline = self._redis.pipeline(transaction=False)
        for told in sorted(batch, key=_is_unjournaled):  # the first under a key stays
            self._tell(pipeline, told, stored=stored)
        results = await pipeline.execute(raise_on_error=False)
        for error in results:
            if isinstance(error, Exception) and not _is_wrong_type(error):
                raise error
        _log_refused(results)
        pipeline = self._redis.pipeline(transaction=False)
        for told in batch:
            pipeline.xack(self._names.intents(told.shard), GROUP, told.entry_id)
        await pipeline.execute()


def _is_unjournaled(told: Settlement) -> bool:
    return not told.journaled


def _is_wrong_type(error: object) -> bool:
    return isinstance(error, rx.ResponseError) and "WRONGTYPE" in str(error)


def _log_refused(results: Sequence[object]) -> None:
    """A writer's reply stream that is no stream costs that writer its reply, and nobody anything else."""
    for error in results:
        if isinstance(error, Exception):
            _log.warning("streams.not-told", error=str(error))
