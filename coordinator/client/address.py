"""Where Redis is, for a client that is not told: where the `firn` commands of the same folder find it."""

from __future__ import annotations

import os
from typing import Final

from firn.coordinator.client.options import ClientOptions
from firn.coordinator.endpoints import DATA_DEFAULT, read_endpoints
from firn.model.spelling import refuse_unknown

USUAL_URL: Final = "redis://127.0.0.1:6379/0"
URL_VARIABLE: Final = "FIRN_REDIS_URL"


def addressed(url: str | None, options: ClientOptions) -> tuple[str, ClientOptions]:
    """The URL, and the options with the prefix that goes with it.

    Without a `url`: that of ``FIRN_REDIS_URL``, else of the daemon that `firn serve --embedded` runs on ``./data``,
    else the usual one. Raises Misconfigured when ``./data`` cannot be read.
    """
    refuse_unknown(options, ClientOptions.__annotations__)
    if url is not None or "connect" in options:
        return url or USUAL_URL, options
    told = os.environ.get(URL_VARIABLE)
    embedded = None if told else read_endpoints(DATA_DEFAULT)
    if embedded is None:
        return told or USUAL_URL, options
    return embedded.redis_url, {"prefix": embedded.redis_prefix, **options}
