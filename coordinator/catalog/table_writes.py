"""Requests that change tables: create, stage, register, commit, rename, drop, and commits of several together."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from firn.coordinator.catalog.identifiers import name_of, namespace_of, table_of
from firn.coordinator.catalog.refusals import Subject
from firn.coordinator.catalog.requested_intents import (
    commit_of,
    creates,
    creation_of,
    registration_of,
    transaction_of,
)
from firn.coordinator.catalog.requests import (
    CommitBody,
    CreateTableBody,
    RegisterBody,
    RenameBody,
    TransactionBody,
    table_change,
)
from firn.coordinator.catalog.routes import Routes
from firn.coordinator.catalog.senders import sender_of
from firn.coordinator.catalog.staged_tables import staged_location, staged_metadata
from firn.coordinator.catalog.statuses import ALREADY_EXISTS, BAD_REQUEST, CatalogError
from firn.coordinator.catalog.submission import Submission
from firn.coordinator.catalog.write_requests import (
    Answers,
    as_it_is,
    body_of,
    flag_of,
    id_of,
    named_table,
    now_ms,
    own_id,
    require_named,
    shown,
)
from firn.coordinator.tables.table_locations import TableLocations
from firn.model.intent import CreateTable, DropTable, Intent, RegisterTable, RenameTable
from firn.model.limits import Limits
from firn.model.metadata_json import metadata_to_json

PURGE: Final = "purgeRequested"


class TableWrites:
    """Handles the requests; `answers` makes responses of what is stored."""

    def __init__(
        self, submission: Submission, answers: Answers, locations: TableLocations, *, warehouse: str, limits: Limits
    ) -> None:
        self._submission = submission
        self._answers = answers
        self._locations = locations
        self._warehouse = warehouse
        self._limits = limits

    def add_to(self, routes: Routes) -> None:
        """Add what is handled."""
        namespace, table = "/namespaces/{namespace}", "/namespaces/{namespace}/tables/{table}"
        routes.add("POST", f"{namespace}/tables", self.create)
        routes.add("POST", f"{namespace}/register", self.register)
        routes.add("POST", table, self.commit)
        routes.add("DELETE", table, self.drop)
        routes.add("POST", "/tables/rename", self.rename)
        routes.add("POST", "/transactions/commit", self.commit_together)

    async def create(self, request: web.Request) -> web.Response:
        """``POST …/tables``: create a table, or only say what it would be where it is staged."""
        namespace, body = namespace_of(request), await body_of(request, CreateTableBody, limits=self._limits)
        table = name_of(namespace, body.name)
        if body.stage_create:
            return await self._stage(namespace, table, body)
        intent = creation_of(table, body, intent_id=own_id(request))
        return await self._made(intent, namespace)

    async def register(self, request: web.Request) -> web.Response:
        """``POST …/register``: take over a table that is in storage."""
        namespace, body = namespace_of(request), await body_of(request, RegisterBody, limits=self._limits)
        if body.overwrite:
            raise CatalogError(BAD_REQUEST, "overwrite is not supported: drop the table first, then register the other")
        intent = registration_of(name_of(namespace, body.name), body, intent_id=own_id(request))
        return await self._made(intent, namespace)

    async def commit(self, request: web.Request) -> web.Response:
        """``POST …/tables/{table}``: change a table, or finish one that was staged."""
        table, body = table_of(request), await body_of(request, CommitBody, limits=self._limits)
        require_named(body, table)
        change = table_change(body)
        is_new = creates(change.requirements)
        sender = sender_of(request.headers)
        intent = commit_of(table, change, intent_id=id_of(request, [(table, change)], sender=sender), sender=sender)

        async def make() -> Intent:
            if is_new:
                await self._answers.require_namespace(namespace_of(request))
            return intent

        subject = Subject(table=table, creates=is_new, asserted=is_new)
        committed = await self._submission.committed(subject, intent.intent_id, make)
        return await shown(committed, self._answers.table(committed))

    async def drop(self, request: web.Request) -> web.Response:
        """``DELETE …/tables/{table}``: forget a table; maintenance removes its files where that is asked for."""
        intent = DropTable(intent_id=own_id(request), table=table_of(request), purge=flag_of(request.query, PURGE))
        await self._submission.committed(Subject(table=intent.table), intent.intent_id, as_it_is(intent))
        return web.Response(status=204)

    async def rename(self, request: web.Request) -> web.Response:
        """``POST tables/rename``: give a table another, free name in a namespace that exists."""
        body = await body_of(request, RenameBody, limits=self._limits)
        source, destination = (name_of(one.namespace, one.name) for one in (body.source, body.destination))
        intent = RenameTable(intent_id=own_id(request), table=source, new_name=destination)

        async def make() -> Intent:
            await self._answers.require_namespace(body.destination.namespace)
            return intent

        subject = Subject(table=source, new_name=destination)
        await self._submission.committed(subject, intent.intent_id, make)
        return web.Response(status=204)

    async def commit_together(self, request: web.Request) -> web.Response:
        """``POST transactions/commit``: commits to tables, all or none of them."""
        body = await body_of(request, TransactionBody, limits=self._limits)
        changes = [
            (named_table(one, where=f"table-changes[{at}]"), table_change(one, where=f"table-changes[{at}]"))
            for at, one in enumerate(body.table_changes)
        ]
        if not changes:
            raise CatalogError(BAD_REQUEST, "table-changes: must not be empty")
        new = [one.body for _, one in changes if creates(one.requirements)]
        sender = sender_of(request.headers)
        intent = transaction_of(changes, intent_id=id_of(request, changes, sender=sender), sender=sender)

        async def make() -> Intent:
            for one in new:
                assert one.identifier is not None
                await self._answers.require_namespace(one.identifier.namespace)
            return intent

        await self._submission.committed(
            Subject(table=intent.table, creates=bool(new) and len(changes) == 1, asserted=True),
            intent.intent_id,
            make,
            others=dict.fromkeys(table for table, _ in changes[1:]),
        )
        return web.Response(status=204)

    # -- parts -----------------------------------------------------------------------------------------------------

    async def _made(self, intent: CreateTable | RegisterTable, namespace: Sequence[str]) -> web.Response:
        async def make() -> Intent:
            await self._answers.require_namespace(namespace)
            return intent

        subject = Subject(table=intent.table, creates=True)
        committed = await self._submission.committed(subject, intent.intent_id, make)
        return await shown(committed, self._answers.table(committed))

    async def _stage(self, namespace: Sequence[str], table: str, body: CreateTableBody) -> web.Response:
        await self._answers.require_namespace(namespace)
        there = await self._answers.kind_of(table)
        if there is not None:
            other = "" if there == "table" else " with same name"
            raise CatalogError(ALREADY_EXISTS, f"{there.capitalize()}{other} already exists: {table}")
        unique = str(uuid.uuid4())
        location = body.location
        if location is None:
            taken = (place for places in (await self._locations.all()).values() for place in places)
            location = staged_location(table, warehouse=self._warehouse, taken=taken, unique=unique)
        metadata = staged_metadata(body, location=location, table_uuid=unique, now_ms=now_ms())
        return web.json_response({"metadata": metadata_to_json(metadata), "config": {}})
