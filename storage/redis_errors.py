"""What Redis's client raises, by what a caller can do about it; and how long an answer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import redis.exceptions as rx

from firn.model.errors import FirnError, Misconfigured, Unavailable, UnknownOutcome

ANSWER_TIMEOUT_S: Final = 10.0
"""How long what is done within `redis_errors` may take. The client's own time limit makes a task of every command that
is sent (`asyncio.wait_for`, before Python 3.12), which takes as long as all else about sending it."""


@asynccontextmanager
async def redis_errors(doing: str, *, write: bool = False) -> AsyncIterator[None]:
    """Within: Redis's errors become ours, naming what was being done (`doing`).

    A `write` that may have reached the server raises `UnknownOutcome` when no answer came in time.
    """
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            yield
    except FirnError:
        raise
    except (rx.AuthenticationError, rx.NoPermissionError) as error:
        raise Misconfigured(f"{doing}: Redis refuses this client: {error}") from error
    except (
        rx.BusyLoadingError,
        rx.ReadOnlyError,
        rx.ClusterDownError,
        rx.TryAgainError,
        rx.MaxConnectionsError,
    ) as error:
        raise Unavailable(f"{doing}: Redis cannot now: {error}") from error
    except (rx.ConnectionError, rx.TimeoutError, OSError) as error:
        if write and not _never_sent(error):
            raise UnknownOutcome(f"{doing}: no answer from Redis: {_why(error)}") from error
        raise Unavailable(f"{doing}: Redis does not answer: {_why(error)}") from error
    except rx.RedisError as error:
        raise Unavailable(f"{doing}: Redis refuses: {error}") from error


def _why(error: BaseException) -> str:
    return str(error) or f"nothing within {ANSWER_TIMEOUT_S:g} s"


def _never_sent(error: BaseException) -> bool:
    """Was there not even a connection?"""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
