"""The intent that each request becomes. Pure: what a request says, and nothing of how the catalog is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from firn.coordinator.catalog.requests import (
    CommitBody,
    CreateTableBody,
    CreateViewBody,
    RegisterBody,
    TableChange,
)
from firn.coordinator.catalog.senders import Sender, engine_of
from firn.coordinator.catalog.staged_tables import new_table_of
from firn.coordinator.catalog.statuses import ILLEGAL_ARGUMENT, CatalogError
from firn.model.errors import InvalidInput
from firn.model.intent import Intent
from firn.model.operations.rest import RestCommit, RestViewCommit
from firn.model.operations.tables import CreateTable, RegisterTable
from firn.model.operations.transaction import Transaction
from firn.model.operations.views import CreateView
from firn.model.rest_requirements import AssertCreate, Requirement
from firn.model.view_json import view_version_from_json

_Intent = TypeVar("_Intent", bound=msgspec.Struct)


def creates(requirements: Sequence[Requirement]) -> bool:
    """Whether a commit makes a table or view. Raises InvalidInput where it requires anything else besides."""
    if not any(isinstance(requirement, AssertCreate) for requirement in requirements):
        return False
    others = sorted({str(one.__struct_config__.tag) for one in requirements if not isinstance(one, AssertCreate)})
    if others:
        raise InvalidInput(f"Invalid create requirements: {', '.join(others)}", where="requirements")
    return True


def creation_of(table: str, body: CreateTableBody, *, intent_id: str) -> CreateTable:
    """Return the intent that creates a table."""
    new = new_table_of(body)
    return _made(
        CreateTable,
        intent_id=intent_id,
        table=table,
        schema=body.schema,
        partition_spec=body.partition_spec,
        write_order=body.write_order,
        location=body.location,
        properties=new.properties,
        format_version=new.format_version,
    )


def registration_of(table: str, body: RegisterBody, *, intent_id: str) -> RegisterTable:
    """Return the intent that takes over a table."""
    return _made(RegisterTable, intent_id=intent_id, table=table, metadata_location=body.metadata_location)


def commit_of(table: str, change: TableChange, *, intent_id: str, sender: Sender) -> RestCommit:
    """Return the intent that changes a table, or finishes one that was staged."""
    return _made(
        RestCommit,
        intent_id=intent_id,
        table=table,
        requirements=change.body.requirements,
        updates=change.body.updates,
        engine=engine_of([change]),
        client=sender.client,
        blind=sender.blind,
    )


def transaction_of(changes: Sequence[tuple[str, TableChange]], *, intent_id: str, sender: Sender) -> Intent:
    """Return the intent for commits to several tables; for one alone it is that of the commit."""
    commits = tuple(commit_of(table, change, intent_id=intent_id, sender=sender) for table, change in changes)
    if len(commits) == 1:
        return commits[0]
    return _made(Transaction, intent_id=intent_id, table=commits[0].table, members=commits)


def view_commit_of(view: str, body: CommitBody, *, intent_id: str, sender: Sender) -> RestViewCommit:
    """Return the intent that changes a view."""
    return _made(
        RestViewCommit,
        intent_id=intent_id,
        table=view,
        requirements=body.requirements,
        updates=body.updates,
        client=sender.client,
    )


def view_creation_of(view: str, body: CreateViewBody, *, intent_id: str) -> CreateView:
    """Return the intent that creates a view. Raises InvalidInput for a version that is none."""
    _require_one_query_a_dialect(body.view_version)
    version = view_version_from_json(body.view_version, where="view-version")
    return _made(
        CreateView,
        intent_id=intent_id,
        table=view,
        schema=body.schema,
        representations=tuple(body.view_version["representations"]),
        default_catalog=version.default_catalog,
        default_namespace=version.default_namespace,
        location=body.location,
        properties=body.properties or {},
        summary=version.summary,
    )


def _require_one_query_a_dialect(version: dict[str, Any]) -> None:
    """Refuse two queries for one dialect in the reference's words, and as its kind of error."""
    representations = version.get("representations")
    seen: set[str] = set()
    for one in representations if isinstance(representations, list) else ():
        dialect = one.get("dialect") if isinstance(one, dict) else None
        if isinstance(dialect, str):
            if dialect.lower() in seen:
                raise CatalogError(
                    ILLEGAL_ARGUMENT, f"Invalid view version: Cannot add multiple queries for dialect {dialect.lower()}"
                )
            seen.add(dialect.lower())


def _made(kind: type[_Intent], **members: object) -> _Intent:
    """Return an intent with its members checked, which a struct's constructor does not."""
    given = {name: value for name, value in members.items() if value is not None}
    try:
        return msgspec.convert(msgspec.to_builtins(kind(**given)), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error)) from None
