"""Paths as Spark spells them: ``file:/…`` or ``file:///…`` and percent-encoded, where firn has plain locations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from firn.storage.locations import normalize

_LOCAL: Final = re.compile(r"^file:/+")


def plain_location(spelled: str) -> str:
    """The normal form of the location that Spark spells so."""
    return normalize(unquote(_LOCAL.sub("/", spelled)))


def spellings(listed: Iterable[str]) -> dict[str, str]:
    """Every way that Spark may spell the files that it listed (`DataFrame.inputFiles`), with their normal locations.

    Its listing says ``file:///a``, a row's metadata ``file:/a``.
    """
    found = {}
    for spelled in listed:
        location = plain_location(spelled)
        found[spelled] = location
        if _LOCAL.match(spelled):
            found[_LOCAL.sub("file:/", spelled)] = location
            found[_LOCAL.sub("file:///", spelled)] = location
    return found
