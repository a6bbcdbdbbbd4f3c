"""Requests that change views: create, register, commit, rename, drop."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from firn.coordinator.catalog.identifiers import name_of, namespace_of, view_of
from firn.coordinator.catalog.refusals import Subject
from firn.coordinator.catalog.requested_intents import creates, view_commit_of, view_creation_of
from firn.coordinator.catalog.requests import CommitBody, CreateViewBody, RegisterBody, RenameBody, view_change
from firn.coordinator.catalog.routes import Routes
from firn.coordinator.catalog.senders import sender_of
from firn.coordinator.catalog.submission import Submission
from firn.coordinator.catalog.write_requests import (
    Answers,
    as_it_is,
    body_of,
    own_id,
    require_named,
    shown,
)
from firn.model.intent import Intent
from firn.model.limits import Limits
from firn.model.operations.views import CreateView, DropView, RegisterView, RenameView


class ViewWrites:
    """Handles the requests; `answers` makes responses of what is stored."""

    def __init__(self, submission: Submission, answers: Answers, *, limits: Limits) -> None:
        self._submission = submission
        self._answers = answers
        self._limits = limits

    def add_to(self, routes: Routes) -> None:
        """Add what is handled."""
        namespace, view = "/namespaces/{namespace}", "/namespaces/{namespace}/views/{view}"
        routes.add("POST", f"{namespace}/views", self.create)
        routes.add("POST", f"{namespace}/register-view", self.register)
        routes.add("POST", view, self.commit)
        routes.add("DELETE", view, self.drop)
        routes.add("POST", "/views/rename", self.rename)

    async def create(self, request: web.Request) -> web.Response:
        """``POST …/views``: create a view."""
        namespace, body = namespace_of(request), await body_of(request, CreateViewBody, limits=self._limits)
        intent = view_creation_of(name_of(namespace, body.name), body, intent_id=own_id(request))
        return await self._made(intent, namespace)

    async def register(self, request: web.Request) -> web.Response:
        """``POST …/register-view``: take over a view that is in storage."""
        namespace, body = namespace_of(request), await body_of(request, RegisterBody, limits=self._limits)
        view = name_of(namespace, body.name)
        intent = RegisterView(intent_id=own_id(request), table=view, metadata_location=body.metadata_location)
        return await self._made(intent, namespace)

    async def commit(self, request: web.Request) -> web.Response:
        """``POST …/views/{view}``: change a view."""
        view, body = view_of(request), await body_of(request, CommitBody, limits=self._limits)
        require_named(body, view)
        is_new = creates(view_change(body).requirements)
        intent = view_commit_of(view, body, intent_id=own_id(request), sender=sender_of(request.headers))
        subject = Subject(table=view, kind="view", creates=is_new, asserted=is_new)
        committed = await self._submission.committed(subject, intent.intent_id, as_it_is(intent))
        return await shown(committed, self._answers.view(committed))

    async def drop(self, request: web.Request) -> web.Response:
        """``DELETE …/views/{view}``: forget a view."""
        view, intent_id = view_of(request), own_id(request)

        async def make() -> Intent:
            seen = await self._answers.seen_view(view)
            now = seen.current_version
            return DropView(
                intent_id=intent_id,
                table=view,
                table_uuid=seen.view_uuid,
                base_version_id=now.version_id,
                base_timestamp_ms=now.timestamp_ms,
            )

        await self._submission.committed(Subject(table=view, kind="view"), intent_id, make)
        return web.Response(status=204)

    async def rename(self, request: web.Request) -> web.Response:
        """``POST views/rename``: give a view another, free name in a namespace that exists."""
        body = await body_of(request, RenameBody, limits=self._limits)
        source, destination = (name_of(one.namespace, one.name) for one in (body.source, body.destination))
        intent_id = own_id(request)

        async def make() -> Intent:
            seen = await self._answers.seen_view(source)
            await self._answers.require_namespace(body.destination.namespace)
            now = seen.current_version
            return RenameView(
                intent_id=intent_id,
                table=source,
                table_uuid=seen.view_uuid,
                new_name=destination,
                base_version_id=now.version_id,
                base_timestamp_ms=now.timestamp_ms,
            )

        subject = Subject(table=source, kind="view", new_name=destination)
        await self._submission.committed(subject, intent_id, make)
        return web.Response(status=204)

    async def _made(self, intent: CreateView | RegisterView, namespace: Sequence[str]) -> web.Response:
        async def make() -> Intent:
            await self._answers.require_namespace(namespace)
            return intent

        subject = Subject(table=intent.table, kind="view", creates=True)
        committed = await self._submission.committed(subject, intent.intent_id, make)
        return await shown(committed, self._answers.view(committed))
