"""Delivery: every intent is submitted until its outcome is known, and no outcome is ever guessed.

Submitting the same bytes again is always safe (exactly-once is by intent id and digest), so whatever is doubtful is
submitted again: a lost answer to XADD, a Redis that was emptied, an entry that is gone and left no outcome. Outcomes
come on the client's own reply stream; where that is silent, the outcome keys are asked first. An entry that still
stands in its stream most likely only waits for a daemon: it is submitted again ever more rarely, or a long absence of
the daemons would fill Redis.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future as ThreadsFuture
from typing import Final

import msgspec

from firn.coordinator.cancellation import cancel_all
from firn.coordinator.client.answers import Answer, Unknown
from firn.coordinator.client.home_loop import HomeLoop
from firn.coordinator.client.intents import sealed
from firn.coordinator.client.options import RESUBMIT_AFTER_S, RESUBMIT_AFTER_S_MAX, UNRESOLVED_MAX
from firn.model.errors import FirnError, InvalidIntent, Misconfigured, Unavailable
from firn.model.intent import Intent, digest_in, digest_of, encode_intent
from firn.model.outcome import Outcome, concerns, decode_outcome
from firn.model.sharding import shard_of
from firn.storage.intent_streams import (
    FIRST_ID,
    PAYLOAD_BYTES_MAX,
    IntentStreams,
    Message,
    SharedSettings,
    check_payload,
)

READ_BLOCK_MS: Final = 1_000
READ_COUNT: Final = 1_000
READ_RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
SEND_RETRY_S: Final = 0.1
"""First wait after a submission that Redis refused or did not answer; it doubles up to `RESUBMIT_AFTER_S`."""

LOOKUPS_MAX: Final = 16
"""Outcomes that are looked for at once: each takes a connection."""

RESUBMIT_BATCH_MAX: Final = 512
"""Intents looked at in one round of resubmission; the longest waiting come first."""

STANDING_FACTOR: Final = 5
STANDING_S_MAX: Final = 900.0
"""An entry that stands is submitted again after `STANDING_FACTOR` times the silence allowed, doubled up to this."""

TICK_S_MAX: Final = 0.25

_log: Final = logging.getLogger(__name__)  # not structlog: unasked, a library prints nothing into its user's program
_SETTINGS: Final = msgspec.json.Decoder(SharedSettings)


AnswerFuture = asyncio.Future[Answer] | ThreadsFuture[Answer]
"""What an event loop waits for, or threads; who submits chooses."""


class Waiting:
    """An intent without an outcome. `answer` gets the outcome, or `Unknown` when the client is closed first."""

    def __init__(self, intent: Intent, answer: AnswerFuture, *, payload: bytes, delay_s: float) -> None:
        self.intent_id = intent.intent_id
        self.table = intent.table
        self.payload = payload
        self.payload_digest = digest_in(payload)
        self.digest = intent.digest or digest_of(intent)
        self.epoch_of = None if intent.writer_sequence is None else (intent.table, intent.writer or "")
        self.answer = answer
        self.attempts = 0
        self.failures = 0
        """Submissions in a row that Redis refused or did not answer."""
        self.trouble: BaseException | None = None
        """Why the last of them failed."""
        self.sending = False
        self.entry: tuple[int, str] | None = None
        """Shard and id of the entry that Redis took last."""
        self.entry_at = 0.0
        self.patience_s = STANDING_FACTOR * delay_s
        """How long an entry may stand, from `entry_at` on, before another is added."""
        self.sent_at = 0.0
        self.delay_s = delay_s
        self.held = False
        """Whether an earlier epoch of the same streaming writer has to be decided first."""
        self.next_epoch: Waiting | None = None
        self.shared = False
        """Whether it was submitted more than once: then it goes on when one of those who submitted it is cancelled."""

    def due(self, now: float) -> bool:
        """Whether it is time to look at it again."""
        if self.held or self.sending:
            return False
        retry_s = SEND_RETRY_S * 2 ** min(self.failures - 1, 10)
        return now - self.sent_at >= (min(retry_s, self.delay_s) if self.failures else self.delay_s)

    def is_answered_by(self, outcome: Outcome) -> bool:
        """Whether an outcome under the intent's id is this intent's: a damaged copy or another content has its own."""
        return concerns(outcome, digest=self.digest, payload_digest=self.payload_digest)

    def unknown(self, reason: str) -> Unknown:
        """The answer while there is none: the `reason`, and how far the intent has come."""
        if self.failures:
            reason += f"; the last attempt: {self.trouble}"
        elif self.entry is not None:
            reason += f"; queued on shard {self.entry[0]}, and no daemon has answered"
        return Unknown(intent_id=self.intent_id, table=self.table, reason=reason, attempts=self.attempts)


class Delivery:
    """Sends intents and gathers outcomes, on one event loop."""

    def __init__(
        self,
        streams: IntentStreams,
        *,
        resubmit_after_s: float = RESUBMIT_AFTER_S,
        unresolved_max: int = UNRESOLVED_MAX,
    ) -> None:
        if not 0 < resubmit_after_s <= RESUBMIT_AFTER_S_MAX:
            raise Misconfigured(f"resubmit_after_s: {resubmit_after_s} is not within 0 … {RESUBMIT_AFTER_S_MAX:g}")
        if unresolved_max < 1:
            raise Misconfigured(f"unresolved_max: {unresolved_max} is less than 1")
        self._streams = streams
        self.reply_to = f"{streams.names.replies}{uuid.uuid4().hex}"
        self._resubmit_after_s = resubmit_after_s
        self._room = asyncio.Semaphore(unresolved_max)
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)
        self._waiting: dict[str, Waiting] = {}
        self._last_epochs: dict[tuple[str, str], Waiting] = {}
        self._wanted = asyncio.Event()
        self._shards: int | None = None
        self._cursor = FIRST_ID
        self._heard_at = 0.0
        self._passed_at: dict[str, float] = {}
        """By table, when the last submitted of all intents was sent whose outcome has been heard."""
        self._heard_since_rewind = False
        self._tasks: list[asyncio.Task[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False
        self.home = HomeLoop()

    @property
    def unresolved(self) -> int:
        """Intents without an outcome."""
        return len(self._waiting)

    def prepare(self, intent: Intent, answer: AnswerFuture) -> Waiting:
        """An intent as it will be sent, to be given to `submit`; on any thread.

        Raises InvalidIntent for what no daemon could answer or what is too large.
        """
        intent = sealed(intent, reply_to=self.reply_to)
        payload = encode_intent(intent)
        check_payload(payload, bytes_max=PAYLOAD_BYTES_MAX)
        return Waiting(intent, answer, payload=payload, delay_s=self._resubmit_after_s)

    async def submit(self, waiting: Waiting) -> Waiting:
        """Send an intent, as often as it takes; waits while too many are unresolved.

        Returns after the first attempt, whether or not Redis took it; what is under way already under this id, if
        anything is. Raises Misconfigured when Redis does not let this client in.
        """
        self.home.check()
        self._check_open()
        known = self._under_way(waiting)
        if known is not None:
            return known
        await self._room.acquire()
        if self._closed or waiting.intent_id in self._waiting:  # while this waited for room
            self._room.release()
            return await self.submit(waiting)
        self._enter(waiting)
        if not waiting.held:
            try:
                await self._send(waiting)
            except BaseException as error:  # cancellation too: nobody holds a ticket for it
                if not (waiting.shared and isinstance(error, asyncio.CancelledError)):
                    self._resolve(waiting, waiting.unknown(f"submitting was broken off: {error!r}"))
                raise
        return waiting

    async def outcome(self, intent_id: str) -> Outcome | None:
        """The outcome, if Redis has it."""
        data = await self._streams.outcome(intent_id)
        return None if data is None else _outcome_of(data)

    async def close(self) -> None:
        """Stop. What has no outcome is answered `Unknown`; the daemon may still decide it."""
        self._closed = True
        await cancel_all([*self._tasks, *self._background])
        for waiting in list(self._waiting.values()):
            self._resolve(waiting, waiting.unknown("the client was closed before it heard of an outcome"))

    # -- submitting ------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the client is closed")

    def _under_way(self, waiting: Waiting) -> Waiting | None:
        """The same intent, if it was submitted before and has no outcome."""
        known = self._waiting.get(waiting.intent_id)
        if known is not None and known.digest != waiting.digest:
            raise InvalidIntent("this id is another intent's", rule="intent-id-reuse", where="intent-id")
        if known is not None:
            known.shared = True
        return known

    def _enter(self, waiting: Waiting) -> None:
        self._waiting[waiting.intent_id] = waiting
        if waiting.epoch_of is not None:
            # A later epoch that is decided first would have the daemon refuse the earlier one for good.
            earlier = self._last_epochs.get(waiting.epoch_of)
            self._last_epochs[waiting.epoch_of] = waiting
            if earlier is not None:
                waiting.held, earlier.next_epoch = True, waiting
        self._wanted.set()
        if not self._tasks:
            for name, work in (("replies", self._listen()), ("resubmission", self._watch())):
                task = asyncio.create_task(work, name=f"firn client {name}")
                task.add_done_callback(self._ended)
                self._tasks.append(task)

    def _leave(self, waiting: Waiting) -> None:
        if self._waiting.pop(waiting.intent_id, None) is None:
            return
        self._room.release()
        if not self._waiting:
            self._wanted.clear()
            self._passed_at.clear()
        if waiting.epoch_of is not None and self._last_epochs.get(waiting.epoch_of) is waiting:
            del self._last_epochs[waiting.epoch_of]
        follower = waiting.next_epoch
        if follower is not None and not self._closed:
            follower.held = False
            task = asyncio.create_task(self._send_or_log(follower))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _send(self, waiting: Waiting) -> None:
        """One attempt. What Redis does not take, or may not have taken, is tried again by `_watch`."""
        waiting.sending = True
        try:
            shards = self._shards or await self._read_shards()
            if waiting.answer.done():
                return
            shard = shard_of(waiting.table, shards=shards)
            waiting.attempts += 1
            waiting.entry = shard, await self._streams.submit(shard, waiting.payload)
            waiting.failures, waiting.entry_at = 0, time.monotonic()
        except (Unavailable, OSError) as error:
            waiting.failures += 1
            waiting.trouble = error
            _log.info("intent %s not queued: %s", waiting.intent_id, error)
        finally:
            waiting.sending = False
            waiting.sent_at = time.monotonic()

    async def _send_or_log(self, waiting: Waiting) -> None:
        """`_send` where nobody is there to be told that Redis does not let us in."""
        try:
            await self._send(waiting)
        except FirnError as error:
            _log.warning("intent %s not queued: %s", waiting.intent_id, error)

    async def _read_shards(self) -> int:
        """How many streams there are, as the daemons say; the usual number while none said."""
        try:
            data = await self._streams.settings()
            if data is not None:
                self._shards = _SETTINGS.decode(data).shards
        except (FirnError, OSError, msgspec.DecodeError) as error:
            _log.info("settings not read: %s", error)
        return self._shards or SharedSettings().shards

    # -- hearing ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            try:
                cursor = self._cursor
                heard = await self._streams.replies(
                    self.reply_to, after=cursor, block_ms=READ_BLOCK_MS, count=READ_COUNT
                )
                failures = 0
                if heard and cursor == self._cursor:  # else it was set back meanwhile
                    self._cursor = heard[-1].entry_id
                self._hear(heard)
            except (FirnError, OSError) as error:
                _log.info("replies not read: %s", error)
                await asyncio.sleep(READ_RETRY_S[min(failures, len(READ_RETRY_S) - 1)])
                failures += 1

    def _hear(self, messages: Sequence[Message]) -> None:
        for message in messages:
            outcome = _outcome_of(message.data)
            waiting = None if outcome is None else self._waiting.get(outcome.intent_id)
            if outcome is None or waiting is None or not waiting.is_answered_by(outcome):
                continue  # sent twice, of an intent that was given up, or of another entry under this id
            self._heard_at = time.monotonic()
            self._passed_at[waiting.table] = max(waiting.sent_at, self._passed_at.get(waiting.table, 0.0))
            self._heard_since_rewind = True
            self._resolve(waiting, outcome)

    def _resolve(self, waiting: Waiting, answer: Answer) -> None:
        self._leave(waiting)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)

    # -- silence ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        tick_s = min(TICK_S_MAX, self._resubmit_after_s / 4)
        while True:
            await self._wanted.wait()
            await asyncio.sleep(tick_s)
            overdue = self._overdue(time.monotonic())
            if overdue:
                await self._look_again(overdue)

    def _overdue(self, now: float) -> list[Waiting]:
        """Intents that did not get through, or of which nothing was heard for too long, longest first.

        While outcomes keep coming, and none of an intent that was sent later to the same table, the daemon is merely
        busy, and more of the same would not help.
        """
        silent = now - self._heard_at >= self._resubmit_after_s
        overdue = [
            waiting
            for waiting in self._waiting.values()
            if waiting.due(now)
            and (
                silent
                or waiting.failures > 0
                or waiting.sent_at < self._passed_at.get(waiting.table, 0.0)
                or now - waiting.sent_at >= RESUBMIT_AFTER_S_MAX
            )
        ]
        overdue.sort(key=lambda waiting: waiting.sent_at)
        return overdue[:RESUBMIT_BATCH_MAX]

    async def _look_again(self, overdue: Sequence[Waiting]) -> None:
        if self._heard_since_rewind:
            # An emptied Redis whose clock went back starts the stream with smaller ids. Hearing twice is harmless.
            self._cursor, self._heard_since_rewind = FIRST_ID, False
        shards = await self._read_shards()
        await asyncio.gather(*(self._settle_or_send(waiting, shards=shards) for waiting in overdue))

    async def _settle_or_send(self, waiting: Waiting, *, shards: int) -> None:
        queued = waiting.entry if waiting.entry and waiting.entry[0] == shard_of(waiting.table, shards=shards) else None
        try:
            async with self._lookups:
                outcome = await self.outcome(waiting.intent_id)
                if outcome is not None and not waiting.is_answered_by(outcome):
                    outcome = None  # the daemon answers this content on the reply stream
                stands = outcome is None and queued is not None and await self._streams.holds(*queued)
        except (FirnError, OSError) as error:
            _log.info("outcome of %s not read: %s", waiting.intent_id, error)
            waiting.failures += 1
            waiting.trouble = error
            waiting.sent_at = time.monotonic()
            return
        if outcome is not None:
            self._resolve(waiting, outcome)
            return
        if not waiting.failures:
            waiting.delay_s = min(2 * waiting.delay_s, RESUBMIT_AFTER_S_MAX)
        now = time.monotonic()
        if stands and now - waiting.entry_at < waiting.patience_s:
            waiting.failures, waiting.sent_at = 0, now
            return
        if stands:
            waiting.patience_s = min(2 * waiting.patience_s, STANDING_S_MAX)
        await self._send_or_log(waiting)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A loop has ended by itself, our mistake, or with all tasks of its program: nobody is to wait for ever."""
        if self._closed:
            return
        self._closed = True
        why = "cancelled" if task.cancelled() else repr(task.exception())
        if not task.cancelled():
            _log.error("client stopped: %s ended", task.get_name(), exc_info=task.exception())
        for waiting in list(self._waiting.values()):
            self._resolve(waiting, waiting.unknown(f"the client stopped: {why}"))


def _outcome_of(data: bytes) -> Outcome | None:
    """The outcome; None for bytes that are none, which somebody else must have put there."""
    try:
        return decode_outcome(data)
    except msgspec.DecodeError:
        return None
