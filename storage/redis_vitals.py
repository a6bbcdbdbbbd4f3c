"""How a Redis is: what it says of its memory, and of what it keeps on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

INFO_SECTIONS: Final = ("memory", "persistence")
"""The sections of Redis's INFO that `vitals_of` reads."""


class RedisVitals(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in bytes (`memory_max` 0: no limit), and whether what it last wrote to disk came off.

    `append_only` says whether it has an append-only file at all; without one `append_ok` is always true.
    """

    memory_used: int
    memory_max: int
    append_only: bool
    append_ok: bool
    snapshot_ok: bool


def vitals_of(info: Mapping[str, Any]) -> RedisVitals | None:
    """Vitals from the answer to INFO; None when the server does not say (managed servers hide a part)."""
    used = info.get("used_memory")
    if not isinstance(used, int) or "aof_enabled" not in info:
        return None
    return RedisVitals(
        memory_used=used,
        memory_max=int(info.get("maxmemory", 0)),
        append_only=bool(info["aof_enabled"]),
        append_ok=info.get("aof_last_write_status", "ok") == "ok",
        snapshot_ok=info.get("rdb_last_bgsave_status", "ok") == "ok",
    )
