"""Telling outcomes and acknowledging entries in one script: a round trip with one answer, however many there are.

A pipeline would do the same with five commands and ten answers an intent, which cost Python more than the commit does;
and the script's arguments come joined, because the client library takes as long over one as over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

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
    acknowledged: dict[int, list[bytes]] = {}
    for told in batch:
        reply = told.reply_to
        out += (
            told.outcome,
            b"" if told.intent_id is None else names.outcome(told.intent_id).encode(),
            b"%d" % told.outcome_ttl_s,
            reply.encode() if reply is not None and names.is_reply(reply) else b"",
            told.event or b"",
            told.dead_letter or b"",
        )
        acknowledged.setdefault(told.shard, []).append(told.entry_id.encode())
    out.append(b"%d" % len(acknowledged))
    for shard, entry_ids in acknowledged.items():
        out += (names.intents(shard).encode(), b"%d" % len(entry_ids), *entry_ids)
    return msgspec.msgpack.encode(list(map(len, out))), b"".join(out)
