"""Where Redis is, as whoever does not reach it is told: with its address, without its password, and why."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from firn.coordinator.config import redacted_url
from firn.model.errors import Misconfigured, Unavailable, UnknownOutcome
from firn.storage.redis_faults import chain_of, reply_in


@asynccontextmanager
async def naming_redis(url: str) -> AsyncIterator[None]:
    """Within is what a program asks Redis first: an error says where Redis is and why, not what it was asked."""
    try:
        yield
    except UnknownOutcome:
        raise
    except (Unavailable, Misconfigured) as error:
        hint = _hint(error) if isinstance(error, Misconfigured) else ""
        raise type(error)(f"Redis at {redacted_url(url)} {_said(error)}{hint}") from error


def _said(error: Unavailable | Misconfigured) -> str:
    """What Redis did, in the system's words where it was not even reached: the event loop's are longer."""
    for cause in chain_of(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"does not answer: its certificate is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):  # whose numbers are not the system's
            return f"does not answer: {cause.reason or cause}"
        if isinstance(cause, OSError) and cause.errno is not None:
            why = cause.strerror if isinstance(cause, socket.gaierror) else os.strerror(cause.errno)
            return f"does not answer: {why}"
    _, named, said = str(error).partition("Redis ")
    return said.rstrip(".") if named else f"does not answer: {error}"


def _hint(error: Misconfigured) -> str:
    reply = reply_in(error)
    if reply.cause in ("credentials", "permissions"):
        return " (user and password are those of redis.url)"
    return f" ({reply.do})" if reply.do else ""
