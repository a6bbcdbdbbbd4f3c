"""What all requests that change something have: a body, an intent id, and answers that show what is stored by then."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from aiohttp import web

from firn.coordinator.catalog.identifiers import name_of
from firn.coordinator.catalog.intent_ids import IDEMPOTENCY_KEY, id_of_key, intent_id_of
from firn.coordinator.catalog.refusals import Kind
from firn.coordinator.catalog.requests import CommitBody, TableChange, read_body
from firn.coordinator.catalog.senders import Sender
from firn.coordinator.catalog.statuses import BAD_REQUEST, STATE_UNKNOWN, CatalogError
from firn.coordinator.client.intents import new_intent_id
from firn.model.errors import FirnError, InvalidInput
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.outcome import Committed
from firn.model.view import ViewMetadata

_Body = TypeVar("_Body", bound=msgspec.Struct)

TRUTHS: Final = {"true": True, "false": False}


class Answers(Protocol):
    """What requests that change something need of the side that reads."""

    async def require_namespace(self, namespace: Sequence[str]) -> None:
        """Raise CatalogError where there is no such namespace."""

    async def kind_of(self, name: str) -> Kind | None:
        """Return what has a name now, None where it is free."""

    async def seen_view(self, name: str) -> ViewMetadata:
        """Return a view as it is now. Raises CatalogError where there is none."""

    async def table(self, committed: Committed) -> web.Response:
        """Return a table as it was committed."""

    async def view(self, committed: Committed) -> web.Response:
        """Return a view as it was committed."""


async def shown(committed: Committed, answer: Awaitable[web.Response]) -> web.Response:
    """Return the answer that shows what was committed; that it cannot be read is no failure of the commit."""
    try:
        return await answer
    except (CatalogError, FirnError, OSError) as error:
        raise CatalogError(
            STATE_UNKNOWN, f"intent {committed.intent_id} was committed, and what it made cannot be read: {error}"
        ) from error


async def body_of(request: web.Request, kind: type[_Body], *, limits: Limits) -> _Body:
    """Return the body of a request. Raises CatalogError for one that is too large or is none."""
    try:
        return read_body(await request.read(), kind, limits=limits)
    except InvalidInput as error:
        raise CatalogError(BAD_REQUEST, str(error)) from error


def own_id(request: web.Request) -> str:
    """Return the intent id that a request gives, or a new one."""
    key = request.headers.get(IDEMPOTENCY_KEY)
    try:
        return new_intent_id() if key is None else id_of_key(key)
    except InvalidInput as error:
        raise CatalogError(BAD_REQUEST, str(error)) from error


def id_of(request: web.Request, changes: Sequence[tuple[str, TableChange]], *, sender: Sender) -> str:
    """Return the intent id that a request gives, or that follows from what it changes."""
    return intent_id_of(
        request.headers.get(IDEMPOTENCY_KEY),
        changes,
        sender=sender,
        now_ms=now_ms(),
        entropy=secrets.token_bytes(10),
    )


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def flag_of(query: Mapping[str, str], name: str) -> bool:
    """Return a query parameter that is true or false, and false where it is left out."""
    value = query.get(name, "false")
    if value.lower() not in TRUTHS:
        raise CatalogError(BAD_REQUEST, f"{name}: must be true or false, not {value[:40]!r}")
    return TRUTHS[value.lower()]


def named_table(body: CommitBody, *, where: str) -> str:
    """Return the table that a part of a transaction names."""
    if body.identifier is None:
        raise CatalogError(BAD_REQUEST, f"{where}.identifier: is missing")
    return name_of(body.identifier.namespace, body.identifier.name)


def require_named(body: CommitBody, name: str) -> None:
    """Refuse a body that is about another table or view than the path."""
    if body.identifier is not None and name_of(body.identifier.namespace, body.identifier.name) != name:
        named = ".".join((*body.identifier.namespace, body.identifier.name))
        raise CatalogError(BAD_REQUEST, f"identifier: {named} is not {name}, which the path names")


def as_it_is(intent: Intent) -> Callable[[], Awaitable[Intent]]:
    """Return what makes an intent that is made already."""

    async def make() -> Intent:
        return intent

    return make
