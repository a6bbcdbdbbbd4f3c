"""Commits that an Iceberg client has asked of the REST catalog, as it sent them (decision 39).

Requirements and updates are the JSON forms of the REST specification (``CommitTableRequest``, ``CommitViewRequest``);
`firn.model.rest_requirements`, `firn.model.rest_updates` and `firn.model.view_rest` read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from firn.model.operations.common import Name, Operation

REQUIREMENTS_MAX: Final = 10_000
"""Requirements in one request."""

UPDATES_MAX: Final = 10_000
"""Updates in one request."""

REF_ACTIONS: Final = frozenset({"set-snapshot-ref", "remove-snapshot-ref"})


class RestRequest(Operation, frozen=True, kw_only=True):
    """What both kinds have. `engine` and `client` name who sent it, for people: ``spark 4.1``, a user agent."""

    requirements: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=REQUIREMENTS_MAX)] = ()
    updates: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=UPDATES_MAX)] = ()
    engine: Name | None = None
    client: Name | None = None

    @property
    def creates(self) -> bool:
        """Whether it asserts that the name is free."""
        return any(one.get("type") == "assert-create" for one in self.requirements)

    @property
    def location(self) -> str | None:
        """Where it puts the table or view; None where it leaves that as it is."""
        found = [one.get("location") for one in self.updates_of("set-location")]
        return found[-1] if found and isinstance(found[-1], str) else None

    @property
    def properties(self) -> dict[str, str]:
        """The properties that it sets."""
        found: dict[str, str] = {}
        for one in self.updates_of("set-properties"):
            given = one.get("updates", one.get("updated"))
            found |= given if isinstance(given, dict) else {}
        return found

    def updates_of(self, action: str) -> Iterator[dict[str, Any]]:
        """Yield the updates of one kind."""
        return (one for one in self.updates if one.get("action") == action)


class RestCommit(RestRequest, frozen=True, kw_only=True, tag="rest-commit"):
    """Change or create a table by a REST request: as it was sent where its requirements hold, else replayed or refused.

    `blind` says that the writer of its appends has read nothing of the table.
    """

    blind: bool = False

    @property
    def branch(self) -> str | None:
        """The first branch or tag that it sets or removes; None where it is about the table."""
        named = (one.get("ref-name") for one in self.updates if one.get("action") in REF_ACTIONS)
        return next((name for name in named if isinstance(name, str)), None)

    @property
    def base_snapshot_id(self) -> int | None:
        """Where its writer saw that branch; None where it asserts nothing of it, or that it is empty."""
        branch = self.branch
        asserted = (one.get("snapshot-id") for one in self.requirements if one.get("ref", "") == branch)
        return next((base for base in asserted if isinstance(base, int)), None)


class RestViewCommit(RestRequest, frozen=True, kw_only=True, tag="rest-view-commit"):
    """Change or create a view by a REST request, where its requirements hold."""


RestOperation = RestCommit | RestViewCommit
