"""Commits that an Iceberg client has asked of the REST catalog, as it sent them (decision 39).

Requirements and updates are the JSON forms of the REST specification (``CommitTableRequest``, ``CommitViewRequest``);
`firn.model.rest_requirements`, `firn.model.rest_updates` and `firn.model.view_rest` read them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from firn.model.operations.common import Name, Operation
from firn.model.rest_requirements import REQUIREMENTS_MAX
from firn.model.rest_updates import UPDATES_MAX


class RestRequest(Operation, frozen=True, kw_only=True):
    """What both kinds have. `engine` and `client` name who sent it, for people: ``spark 4.1``, a user agent."""

    requirements: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=REQUIREMENTS_MAX)] = ()
    updates: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=UPDATES_MAX)] = ()
    engine: Name | None = None
    client: Name | None = None


class RestCommit(RestRequest, frozen=True, kw_only=True, tag="rest-commit"):
    """Change or create a table by a REST request: as it was sent where its requirements hold, else replayed or refused.

    `blind` says that the writer of its appends has read nothing of the table.
    """

    blind: bool = False


class RestViewCommit(RestRequest, frozen=True, kw_only=True, tag="rest-view-commit"):
    """Change or create a view by a REST request, where its requirements hold."""
