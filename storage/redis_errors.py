"""What Redis's client raises, by what a caller can do about it; and how long an answer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import redis.exceptions as rx

from firn.model.errors import FirnError, Misconfigured, Unavailable, UnknownOutcome
from firn.storage.redis_dialling import Dialler
from firn.storage.redis_faults import Reply, chain_of, fault_of, reply_in
from firn.storage.store_faults import READS_SHOW, WRITES_SHOW, StoreFaults

ANSWER_TIMEOUT_S: Final = 10.0
"""How long what is done within `RedisErrors` may take. The client's own time limit makes a task of every command that
is sent (`asyncio.wait_for`, before Python 3.12), which takes as long as all else about sending it."""


class RedisErrors:
    """``async with errors("submit"):`` - within, Redis's errors become ours, naming what was being done.

    Each is recorded in `faults` by its cause; a reply that shows that connections lead to the wrong server, or were
    made with a secret that has been renewed since, has the `dialler` make them anew.
    """

    def __init__(self, dialler: Dialler, faults: StoreFaults) -> None:
        self._dialler = dialler
        self._faults = faults

    @asynccontextmanager
    async def __call__(self, doing: str, *, write: bool = False) -> AsyncIterator[None]:
        """A `write` that may have reached the server raises `UnknownOutcome` when no answer came in time."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                yield
        except FirnError:
            raise
        except (rx.RedisError, rx.RedisClusterException, OSError) as error:
            raise self._ours(error, doing=doing, write=write) from error
        if self._faults.any and self._dialler.place.kind != "cluster":  # of which one node says nothing of the others
            self._faults.answered(WRITES_SHOW if write else READS_SHOW)

    def redials(self, error: rx.RedisError) -> bool:
        """Whether Redis has refused a command that a new connection may have taken; the next one is made anew."""
        reply = reply_in(error)
        self._act_on(reply, error)
        return reply.redial

    def _act_on(self, reply: Reply, error: Exception) -> None:
        if reply.redial:
            self._dialler.redial(error)
        elif reply.renew:
            self._dialler.redial_if_renewed(error)

    def _ours(self, error: Exception, *, doing: str, write: bool) -> FirnError:
        reply, said = reply_in(error), str(error) or f"nothing within {ANSWER_TIMEOUT_S:g} s"
        fault = fault_of(reply, said)
        if fault is not None:
            self._faults.saw(fault)
        self._act_on(reply, error)
        if reply.settings and not (reply.cause == "credentials" and self._dialler.let_in):
            return Misconfigured(f"{doing}: Redis {reply.what}: {said}")
        if reply.cause in ("unreachable", "certificate") and write and not _never_sent(error):
            return UnknownOutcome(f"{doing}: no answer from Redis: {said}")
        return Unavailable(f"{doing}: Redis {reply.what}: {said}")


def _never_sent(error: BaseException) -> bool:
    """Was there not even a connection?"""
    return any(isinstance(one, ConnectionRefusedError) for one in chain_of(error))
