"""Removing files that nothing names, as far as that is possible."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from firn.model.errors import FirnError
from firn.storage.files import FileStore

_log: Final = logging.getLogger(__name__)


def remove_files(files: FileStore, locations: Iterable[str]) -> None:
    """Remove files that no snapshot can name, as far as possible: what is left is an orphan and does no harm."""
    for location in locations:
        try:
            files.delete(location)
        except FirnError as error:
            _log.warning("cannot remove %s, which nothing names: %s", location, error)
