"""Bodies of the requests that change something, read strictly: members of the REST specification, each of its type.

Members that the specification does not have are passed over, as it asks of servers; requirements and updates that it
does not have are refused, as it asks, too.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from firn.model.errors import InvalidInput
from firn.model.limits import Limits
from firn.model.rest_requirements import Requirement, requirements_from_json
from firn.model.rest_updates import Update, updates_from_json
from firn.model.strict_json import loads
from firn.model.view_rest import ViewUpdate, view_updates_from_json

BODY: Final = "request body"


class Identifier(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table or view (``TableIdentifier``)."""

    namespace: tuple[str, ...]
    name: str


class CommitBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What must hold and what is to be done (``CommitTableRequest``, ``CommitViewRequest``)."""

    updates: tuple[dict[str, Any], ...]
    requirements: tuple[dict[str, Any], ...] = ()
    identifier: Identifier | None = None


class TransactionBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Commits to tables, all or none of them (``CommitTransactionRequest``)."""

    table_changes: tuple[CommitBody, ...]


class CreateTableBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A new table (``CreateTableRequest``); null stands for what is left out."""

    name: str
    schema: dict[str, Any]
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool | None = None
    properties: dict[str, str] | None = None


class RegisterBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table or view in storage that is to be taken over (``RegisterTableRequest``, ``RegisterViewRequest``)."""

    name: str
    metadata_location: str
    overwrite: bool | None = None


class RenameBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table or view and its new name (``RenameTableRequest``)."""

    source: Identifier
    destination: Identifier


class CreateViewBody(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A new view (``CreateViewRequest``)."""

    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    location: str | None = None
    properties: dict[str, str] | None = None


class TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """A commit to a table, with its requirements and updates as values."""

    body: CommitBody
    requirements: tuple[Requirement, ...]
    updates: tuple[Update, ...]


class ViewChange(msgspec.Struct, frozen=True, kw_only=True):
    """A commit to a view, with its requirements and updates as values."""

    body: CommitBody
    requirements: tuple[Requirement, ...]
    updates: tuple[ViewUpdate, ...]


_Body = TypeVar("_Body", bound=msgspec.Struct)


def read_body(data: bytes, kind: type[_Body], *, limits: Limits) -> _Body:
    """Return a body of a kind. Raises InvalidInput, and TooLarge before anything of it is decoded."""
    value = loads(
        data,
        where=BODY,
        bytes_max=limits.intent_bytes_max,
        values_max=limits.intent_values_max,
        depth_max=limits.json_depth_max,
    )
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), where=BODY) from None


def table_change(body: CommitBody, *, where: str = "") -> TableChange:
    """Return the commit with what it requires and updates. Raises InvalidInput naming the member that is wrong."""
    prefix = f"{where}." if where else ""
    return TableChange(
        body=body,
        requirements=requirements_from_json(list(body.requirements), where=f"{prefix}requirements"),
        updates=updates_from_json(list(body.updates), where=f"{prefix}updates"),
    )


def view_change(body: CommitBody) -> ViewChange:
    """As `table_change`, for a view."""
    return ViewChange(
        body=body,
        requirements=requirements_from_json(list(body.requirements)),
        updates=view_updates_from_json(list(body.updates)),
    )
