"""How many examples a property is tried on."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(count: int, **others: Any) -> settings:
    """`count` examples in every run; with a profile that wants more (``make test-long``), as many as it wants."""
    return settings(max_examples=max(count, settings().max_examples), **others)
