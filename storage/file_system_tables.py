"""File-system tables: the newest ``v<N>.metadata.json`` is the table (table specification, "File System Tables").

The swap is a put of the next number that fails if the name is taken; nothing is renamed, since a rename overwrites.
``version-hint.text`` only says where to start looking: whoever reads it goes on to the highest number that is there, so
a hint that was not updated before a crash, or that is gone, costs a few look-ups and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

from firn.model.errors import CorruptFile, InvalidInput, NotFound
from firn.storage.files import FileStore
from firn.storage.metadata_files import Codec, numbered_name, version_of

METADATA_FOLDER: Final = "metadata"
HINT_NAME: Final = "version-hint.text"
HINT_BYTES_MAX: Final = 64
VERSION_MAX: Final = 10**9
PROBES_MAX: Final = 100_000
"""Versions past the hint that are looked for one by one before the folder is said to be broken."""

_HINT: Final = re.compile(rb"\s*([0-9]{1,10})\s*")
_CODECS: Final[tuple[Codec, ...]] = ("none", "gzip")


class FileSystemTables:
    """Tables by folder. Synchronous, for worker threads."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    def newest(self, table_location: str, *, at_least: int | None = None) -> str | None:
        """Location of the newest metadata file, None where there is none.

        `at_least` is a version known to exist. Raises Unavailable; CorruptFile when the folder cannot be right.
        """
        start = max(at_least or 0, self._hint(table_location) or 0)
        found = self._existing(table_location, start) if start else None
        if found is None:
            # The hint is gone, or names what was never written: look at the folder itself.
            start, found = self._highest_listed(table_location)
        if found is None:
            return None
        for version in range(start + 1, start + 1 + PROBES_MAX):
            following = self._existing(table_location, version)
            if following is None:
                return found
            found = following
        raise CorruptFile(table_location, f"has more than {PROBES_MAX} versions past its version hint")

    def location_of(self, table_location: str, *, version: int, codec: Codec) -> str:
        """Where a version's metadata file belongs."""
        return f"{table_location}/{METADATA_FOLDER}/{numbered_name(version=version, codec=codec)}"

    def put(self, location: str, data: bytes) -> None:
        """Make a version: the swap. Raises AlreadyExists when another writer was first, UnknownOutcome, Unavailable.

        The other compressed spelling of the same version counts as taken, too.
        """
        table_location, _, _ = location.rpartition(f"/{METADATA_FOLDER}/")
        version = version_of(location)
        if version is None:
            raise InvalidInput("is no versioned metadata file", where=location)
        taken = self._existing(table_location, version)
        if taken is not None and taken != location:
            self._files.create(taken, data)  # fails, as it should, with the name that is taken
        self._files.create(location, data)

    def hint(self, table_location: str, version: int) -> None:
        """Write the version hint, so that readers find the version without probing."""
        self._files.replace(f"{table_location}/{METADATA_FOLDER}/{HINT_NAME}", str(version).encode())

    def _hint(self, table_location: str) -> int | None:
        location = f"{table_location}/{METADATA_FOLDER}/{HINT_NAME}"
        try:
            data = self._files.read(location, bytes_max=HINT_BYTES_MAX)
        except (NotFound, CorruptFile, InvalidInput):
            return None  # a hint is only a hint
        match = _HINT.fullmatch(data)
        version = int(match[1]) if match else 0
        return version if 0 < version <= VERSION_MAX else None

    def _existing(self, table_location: str, version: int) -> str | None:
        for codec in _CODECS:
            location = self.location_of(table_location, version=version, codec=codec)
            try:
                self._files.size(location)
            except NotFound:
                continue
            return location
        return None

    def _highest_listed(self, table_location: str) -> tuple[int, str | None]:
        highest, found = 0, None
        for info in self._files.list(f"{table_location}/{METADATA_FOLDER}"):
            name = info.location.rpartition("/")[2]
            version = version_of(info.location) if name.startswith("v") else None
            if version is not None and highest < version <= VERSION_MAX:
                highest, found = version, info.location
        return highest, found
