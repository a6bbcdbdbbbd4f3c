"""How many examples a property is tried on."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings

AT_LENGTH: Final = settings().max_examples > settings.get_profile("default").max_examples
"""Whether the profile is one for long runs (``make test-long``)."""


def examples(count: int, *, at_most: int | None = None, **others: Any) -> settings:
    """`count` examples in every run; with a profile that wants more (``make test-long``), as many as it wants.

    Where one takes long, say `at_most` how many: then a usual run has `count`, however few that are.
    """
    wanted = settings().max_examples
    if at_most is not None:
        wanted = min(wanted, at_most) if AT_LENGTH else count
    return settings(max_examples=max(count, wanted), **others)
