"""Partition tuples as folder names, in Hive's style: ``ts_day=2017-12-01/id_bucket=3``.

Nothing may depend on these paths (manifests say where a file is and which partition it belongs to), but people and
tools look at them, so they are spelled as Iceberg's Java library spells them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus, unquote

from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue, value_in
from firn.model.human_text import human_value
from firn.model.partitioning import PartitionSpec, partition_type
from firn.model.schema import Schema

LEVEL_BYTES_MAX: Final = 255
"""Length of one level: what file systems allow of a folder's name."""

_HASH_DIGITS: Final = 16
_BROKEN_ESCAPE: Final = re.compile("%.?$")
_UNSAFE: Final = re.compile("%..|[.]")
_DECODE_ROUNDS: Final = 3  # a reader may decode a path that has been decoded


def partition_path(spec: PartitionSpec, schema: Schema, values: Sequence[Any]) -> str:
    """The relative path of a partition, without slashes at its ends; empty for an unpartitioned spec.

    `values` is the partition tuple. Null is ``null`` and bytes are in base64. Names and values are encoded as HTML
    forms encode them, so that a path has one level for each field. Levels that are too long for a folder are cut and
    end with their hash; so do those that a reader who decodes them could take for a step to another folder, or that
    hold a NUL. Raises InvalidInput for a tuple of another length.
    """
    if len(values) != len(spec.fields):
        raise InvalidInput(
            f"{plural(len(values), 'partition value')}, the spec has {plural(len(spec.fields), 'field')}",
            where="partition",
        )
    levels = []
    for field, typed, value in zip(spec.fields, partition_type(spec, schema).fields, values, strict=True):
        if isinstance(value, ForeignValue):
            text = human_value(value.type, value_in(value.type, value))
        else:
            text = field.parsed_transform.human(typed.type, value)
        level = f"{_encoded(field.name)}={_encoded(text)}"
        if _misleads(level):
            level = _UNSAFE.sub("_", level)[: LEVEL_BYTES_MAX - _HASH_DIGITS - 1] + _hash_end(level)
        levels.append(fitted(level, bytes_max=LEVEL_BYTES_MAX))
    return "/".join(levels)


def fitted(encoded: str, *, bytes_max: int) -> str:
    """Return a percent-encoded name as it is, or if it is longer than `bytes_max`, its beginning and its hash."""
    if len(encoded) <= bytes_max:
        return encoded
    end = _hash_end(encoded)
    return _BROKEN_ESCAPE.sub("", encoded[: bytes_max - len(end)]) + end


def _hash_end(encoded: str) -> str:
    return f"-{sha256(encoded.encode()).hexdigest()[:_HASH_DIGITS]}"


def _misleads(level: str) -> bool:
    """Whether a level, decoded, has a NUL or a step to another folder in it, which locations may not have."""
    for _ in range(_DECODE_ROUNDS):
        if "\0" in level or any(part in {".", ".."} for part in level.replace("\\", "/").split("/")):
            return True
        if "%" not in level:
            return False
        level = unquote(level, errors="replace")
    return False


def _encoded(text: str) -> str:
    """As java.net.URLEncoder does: ``*`` stays, ``~`` does not, a space is ``+``, half a surrogate pair is ``?``."""
    return quote_plus(text, safe="*", encoding="utf-8", errors="replace").replace("~", "%7E")
