"""What can be chosen of a run."""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is measured with.

    `seconds` that closed loops are measured for, `intents` in a backlog, `files` in a large table, `rows` that Spark
    writes, `minutes` of a soak.
    """

    seconds: float = 10.0
    intents: int = 5_000
    files: int = 100_000
    rows: int = 10_000_000
    minutes: float = 10.0
