"""Where an intent stands in a distributed trace: W3C Trace Context's ``traceparent``.

``00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01``: version, trace, the span that made the intent, flags.
"""

from __future__ import annotations

import re
from typing import Final

_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def is_traceparent(text: str) -> bool:
    """Whether it is one. What a later version of the recommendation may add behind it must be left out."""
    return _TRACEPARENT.fullmatch(text) is not None


def trace_id_in(text: str) -> str:
    """The trace of a traceparent, which all tools search by; of anything else the text itself."""
    found = _TRACEPARENT.fullmatch(text)
    return text if found is None else found[1]
