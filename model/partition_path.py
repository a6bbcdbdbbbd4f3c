"""Partition tuples as folder names, in Hive's style: ``ts_day=2017-12-01/id_bucket=3``.

Nothing may depend on these paths (manifests say where a file is and which partition it belongs to), but people and
tools look at them, so they are spelled as Iceberg's Java library spells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote_plus

from firn.model.amounts import plural
from firn.model.errors import InvalidInput
from firn.model.foreign_value import ForeignValue, value_in
from firn.model.human_text import human_value
from firn.model.partitioning import PartitionSpec, partition_type
from firn.model.schema import Schema


def partition_path(spec: PartitionSpec, schema: Schema, values: Sequence[Any]) -> str:
    """The relative path of a partition, without slashes at its ends; empty for an unpartitioned spec.

    `values` is the partition tuple. Null is ``null`` and bytes are in base64. Names and values are encoded as HTML
    forms encode them, so that a path has one level for each field. Raises InvalidInput for a tuple of another length.
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
        levels.append(f"{_encoded(field.name)}={_encoded(text)}")
    return "/".join(levels)


def _encoded(text: str) -> str:
    """As java.net.URLEncoder does: ``*`` stays, ``~`` does not, a space is ``+``, half a surrogate pair is ``?``."""
    return quote_plus(text, safe="*", encoding="utf-8", errors="replace").replace("~", "%7E")
