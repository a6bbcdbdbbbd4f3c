"""Looking up the names of tables and views for shell completion, in the time that a key press may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import click

from firn.coordinator.cli.connectors import Connectors
from firn.coordinator.cli.reach import settings_for
from firn.coordinator.zookeeper_connection import connect_session
from firn.model.errors import FirnError
from firn.storage.pointers import Pointers
from firn.storage.sessions import Session

ANSWER_S: Final = 0.4
"""How long the shell waits for names; then it completes none."""


def table_names(ctx: click.Context) -> list[str]:
    """Return the names of tables and views; none when ZooKeeper is away, without a word."""
    logging.disable(logging.CRITICAL)  # a shell shows what is logged between two letters of its user
    try:
        return asyncio.run(_names(ctx))
    except (FirnError, OSError, TimeoutError):
        return []
    finally:
        logging.disable(logging.NOTSET)


async def _names(ctx: click.Context) -> list[str]:
    async with asyncio.timeout(ANSWER_S), _session(ctx) as session:
        return await Pointers(session).list()


def _session(ctx: click.Context) -> AbstractAsyncContextManager[Session]:
    settings, _ = settings_for(_path(ctx.params, "config"), _path(ctx.params, "data"))
    connectors = ctx.find_object(Connectors)
    return connect_session(settings, timeout_s=ANSWER_S) if connectors is None else connectors.session(settings)


def _path(given: Mapping[str, Any], name: str) -> Path | None:
    return None if given.get(name) is None else Path(given[name])
