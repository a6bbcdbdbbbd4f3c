"""Requests become intents here: submitted once, awaited for a bounded time, answered by their outcome.

Before anything is submitted a request may be sent away (429, 503), and it is when the queue does not answer, when the
table is paused, or when too much is undecided. From then on the only answers are the outcome and "state unknown" (504).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from firn.coordinator.catalog.refusals import ABOUT_NAMES, Kind, Subject, refusal_of, refused_name
from firn.coordinator.catalog.statuses import BAD_REQUEST, NOT_NOW, STATE_UNKNOWN, TOO_MANY, CatalogError
from firn.coordinator.client.answers import Unknown
from firn.coordinator.client.async_client import AsyncClient, AsyncTicket
from firn.model.errors import FirnError, InvalidInput, Misconfigured, NotFound, Unavailable
from firn.model.identifiers import check_table_name
from firn.model.intent import Intent, encode_intent
from firn.model.outcome import Committed, Outcome, Rejected
from firn.model.pointer import Pointer
from firn.storage.pointers import Pointers

UNDECIDED_MAX: Final = 2_000
"""Intents of this process without an outcome; requests beyond are answered 429."""

UNDECIDED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Their size together."""

QUEUE_ANSWER_S: Final = 5.0
"""How long Redis may take to say whether a request has been decided before."""

RETRY_AFTER_S: Final = 2
PAUSED_RETRY_AFTER_S: Final = 30


class Submission:
    """Submits the intents of one catalog process."""

    def __init__(self, client: AsyncClient, pointers: Pointers, *, wait_s: float) -> None:
        self._client = client
        self._pointers = pointers
        self._wait_s = wait_s
        self._bytes = 0

    @property
    def undecided(self) -> int:
        """Intents without an outcome."""
        return self._client.unresolved

    async def committed(
        self, subject: Subject, intent_id: str, make: Callable[[], Awaitable[Intent]], *, others: Iterable[str] = ()
    ) -> Committed:
        """Return the commit of the intent that `make` makes, or of the one that had this id before.

        `make` is asked only where nothing was decided under the id: what it reads of the catalog is gone once, say, a
        view was dropped. `others` are further tables that the intent changes. Raises CatalogError.
        """
        outcome = await self._earlier(subject.table, intent_id)
        if outcome is None:
            for name in (subject.table, *others):
                await self._require_open(name)
            outcome = await self._outcome(await make())
        if isinstance(outcome, Rejected):
            raise await self._refused(subject, outcome)
        return outcome

    # -- before anything is submitted ------------------------------------------------------------------------------

    async def _earlier(self, table: str, intent_id: str) -> Outcome | None:
        """The outcome that this request had before: a repetition is answered, and not done again."""
        try:
            check_table_name(table)
            async with asyncio.timeout(QUEUE_ANSWER_S):
                found = await self._client.outcome(intent_id)
        except InvalidInput as error:
            raise CatalogError(BAD_REQUEST, str(error)) from error
        except (FirnError, OSError, TimeoutError) as error:
            raise CatalogError(
                NOT_NOW, f"the queue does not answer, nothing was submitted: {error}", retry_after_s=RETRY_AFTER_S
            ) from error
        if found is not None and found.table != table:
            raise CatalogError(BAD_REQUEST, f"Idempotency-Key: {intent_id} is the key of a request about {found.table}")
        return found

    async def _require_open(self, table: str) -> None:
        """Send the request away while an operator has paused the table: it would wait in the queue."""
        pointer = await self._pointer(table)
        if pointer is not None and pointer.paused is not None and not pointer.dropped:
            raise CatalogError(
                NOT_NOW,
                f"{table} is paused by {pointer.paused.by}: {pointer.paused.reason}",
                retry_after_s=PAUSED_RETRY_AFTER_S,
            )

    async def _pointer(self, table: str) -> Pointer | None:
        try:
            return (await self._pointers.read(table)).pointer
        except NotFound:
            return None
        except Unavailable as error:
            raise CatalogError(NOT_NOW, f"nothing was submitted: {error}", retry_after_s=RETRY_AFTER_S) from error

    # -- from here on ----------------------------------------------------------------------------------------------

    async def _outcome(self, intent: Intent) -> Outcome:
        ticket = await self._submit(intent)
        answer = await ticket.result(timeout=self._wait_s)
        if isinstance(answer, Unknown):
            raise CatalogError(
                STATE_UNKNOWN,
                f"no outcome of intent {answer.intent_id} yet, it may still be committed: {answer.reason}",
            )
        return answer

    async def _submit(self, intent: Intent) -> AsyncTicket:
        size = len(encode_intent(intent))
        if self._client.unresolved >= UNDECIDED_MAX or self._bytes + size > UNDECIDED_BYTES_MAX:
            raise CatalogError(
                TOO_MANY,
                f"{self._client.unresolved} requests have no outcome yet, nothing was submitted",
                retry_after_s=RETRY_AFTER_S,
            )
        self._bytes += size
        try:
            ticket = await self._client.submit(intent)
        except BaseException as error:
            self._bytes -= size
            if isinstance(error, InvalidInput):
                raise CatalogError(BAD_REQUEST, str(error)) from error
            if isinstance(error, Misconfigured):
                raise CatalogError(
                    NOT_NOW, f"nothing was submitted: {error}", retry_after_s=PAUSED_RETRY_AFTER_S
                ) from error
            if isinstance(error, FirnError | OSError):
                raise CatalogError(STATE_UNKNOWN, str(error)) from error
            raise

        def settled(_: AsyncTicket) -> None:
            self._bytes -= size

        ticket.add_done_callback(settled)
        return ticket

    async def _refused(self, subject: Subject, rejected: Rejected) -> CatalogError:
        there: Kind | None = None
        if rejected.rule in ABOUT_NAMES:
            try:
                pointer = await self._pointer(subject.new_name or refused_name(subject, rejected))
            except CatalogError:
                pointer = None  # the refusal stands, whatever has the name
            there = None if pointer is None or pointer.dropped else pointer.kind
        status, message = refusal_of(subject, rejected, there=there)
        return CatalogError(status, message)
