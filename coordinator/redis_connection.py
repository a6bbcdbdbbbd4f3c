"""From settings to the streams in Redis."""

from __future__ import annotations

from firn.coordinator.config import Settings
from firn.model.errors import Misconfigured
from firn.storage.intent_streams import IntentStreams, StreamNames
from firn.storage.redis_streams import RedisStreams


def connect_streams(settings: Settings) -> IntentStreams:
    """The streams in Redis; connects when they are first used. Raises Misconfigured for a URL that is none."""
    try:
        return RedisStreams(
            settings.redis.renewed_url,
            names=StreamNames(settings.redis.prefix),
            payload_bytes_max=settings.limits.intent_bytes_max,
        )
    except (ValueError, TypeError):  # whose message may quote a part of the password
        raise Misconfigured(
            "redis.url: cannot be read: in a password every / ? # @ : and % must be percent-encoded, "
            "the port must be a number, and the options those of redis-py"
        ) from None
