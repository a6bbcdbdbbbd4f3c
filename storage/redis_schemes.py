"""The schemes of Redis's URLs. Whoever only checks a setting does not load the client library."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["server", "sentinel", "cluster"]

KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "redis": ("server", "redis"),
    "rediss": ("server", "rediss"),
    "unix": ("server", "unix"),
    "redis+sentinel": ("sentinel", "redis"),
    "rediss+sentinel": ("sentinel", "rediss"),
    "redis+cluster": ("cluster", "redis"),
    "rediss+cluster": ("cluster", "rediss"),
}
"""What each scheme leads to, and the scheme of the client library for a connection to it."""

SCHEMES: Final = tuple(KINDS)
