"""Where new data files go: below the table, or below the folder that its properties name.

Nothing depends on these places; they are those of Iceberg's Java library, so that people find files where they expect
them and object stores spread their load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import mmh3

from firn.model.partition_path import partition_path
from firn.model.partitioning import PartitionSpec
from firn.model.schema import Schema
from firn.model.table_properties import DATA_PATH
from firn.pipeline.write_properties import (
    FOLDER_STORAGE_PATH,
    OBJECT_STORAGE,
    OBJECT_STORAGE_PARTITIONED,
    OBJECT_STORAGE_PATH,
)

_HASH_BITS: Final = 20
_FOLDER_BITS: Final = 4
_FOLDERS: Final = 3


class DataLocations:
    """Names for data files of one table; `location` is the table's folder, `properties` its properties."""

    def __init__(self, *, location: str, properties: Mapping[str, str]) -> None:
        self._spread = OBJECT_STORAGE.of(properties)
        self._partitioned = OBJECT_STORAGE_PARTITIONED.of(properties) or not self._spread
        self.root = _root(location, properties, spread=self._spread)
        """The folder that all of them are below."""
        inside = (self.root + "/").startswith(location.rstrip("/") + "/")
        self._context = "" if inside else "/".join(location.rstrip("/").split("/")[-2:])

    def of(self, name: str, *, spec: PartitionSpec, schema: Schema, partition: tuple[Any, ...]) -> str:
        """The location of a file called `name` that holds rows of this partition."""
        folder = partition_path(spec, schema, partition) if self._partitioned else ""
        below = f"{folder}/{name}" if folder else name
        if not self._spread:
            return f"{self.root}/{below}"
        entropy = _entropy(below)
        if self._context:
            return f"{self.root}/{entropy}/{self._context}/{below}"
        return f"{self.root}/{entropy}{'/' if self._partitioned else '-'}{below}"


def _root(location: str, properties: Mapping[str, str], *, spread: bool) -> str:
    named = (
        DATA_PATH.of(properties)
        or (OBJECT_STORAGE_PATH.of(properties) if spread else None)
        or FOLDER_STORAGE_PATH.of(properties)
    )
    return (named or f"{location.rstrip('/')}/data").rstrip("/")


def _entropy(name: str) -> str:
    """Folders named by the last bits of the name's hash: ``0101/0110/1001/10110010``."""
    bits = f"{mmh3.hash(name.encode(), 0, signed=False):032b}"[-_HASH_BITS:]
    cut = [bits[at : at + _FOLDER_BITS] for at in range(0, _FOLDERS * _FOLDER_BITS, _FOLDER_BITS)]
    return "/".join([*cut, bits[_FOLDERS * _FOLDER_BITS :]])
