"""Names that something new may have: columns that every engine can name, tables and branches that people can read.

What another engine made may have other names, and stays readable and writable: these rules hold for names that an
intent brings, when a table, view, branch or tag is made or renamed, and when a schema changes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.reserved import METADATA_COLUMN_NAMES
from firn.model.schema import Schema

COLUMN_NAME_BYTES_MAX: Final = 512
"""UTF-8 bytes of one name, without the structs around it."""

SHOWN_MAX: Final = 60
"""Characters of a name that an error shows."""

_BIDI_CONTROLS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LINE_BREAKS: Final = frozenset({"Cc", "Zl", "Zp"})
_RESERVED: Final = {name.lower() for name in METADATA_COLUMN_NAMES}


def check_new_names(schema: Schema, *, known: Schema | None = None, where: str = "schema") -> None:
    """Raise InvalidSchema for the first field whose name cannot be given; fields named so in `known` may stay."""
    before: Mapping[int, str] = {} if known is None else known.names_by_id
    old = set(before.values())
    twins: dict[str, str] = {}
    for field_id, name in schema.names_by_id.items():
        own = schema.fields_by_id[field_id].name
        if name not in old:
            at_top = schema.parent_id(field_id) is None
            reason = unusable_name(own, at_top=at_top)
            if reason is not None:
                raise InvalidSchema(f"column {_shown(name)} {reason}", where=where, hint="choose another name")
        twin = twins.setdefault(name.lower(), name)
        if twin != name and not (twin in old and name in old):
            raise InvalidSchema(
                f"columns {_shown(twin)} and {_shown(name)} differ in case only, which Spark, Hive and Trino ignore",
                where=where,
                hint="rename one of them",
            )


def unusable_name(name: str, *, at_top: bool = True) -> str | None:
    """Return why a new column cannot have this name, as what follows the name in a sentence; None if it can."""
    if len(name.encode("utf-8", "surrogatepass")) > COLUMN_NAME_BYTES_MAX:
        return f"has a name of more than {COLUMN_NAME_BYTES_MAX} bytes"
    reason = unusable_text(name)
    if reason is None and at_top and name.lower() in _RESERVED:
        return "has the name of a metadata column, which engines add to the rows that they read"
    return reason


def unusable_text(name: str) -> str | None:
    """Return why nothing new can be called so: names that are empty, look like others, or break the line."""
    if not name:
        return "has an empty name"
    for character in name:
        kind = unicodedata.category(character)
        if kind in _LINE_BREAKS or character in _BIDI_CONTROLS:
            return f"has the control character U+{ord(character):04X} in its name"
        if kind == "Cs":
            return "has half a surrogate pair in its name"
    if name != name.strip():
        return "begins or ends with a space, which people do not see and programs cut off"
    return None


def check_new_table_name(name: str, *, where: str = "table") -> None:
    """Raise InvalidInput for a name that no new table or view can have."""
    for part in name.split("."):
        _check_text(part, what=f"the part {_shown(part)} of {_shown(name)}", where=where)


def check_new_ref_name(name: str, *, where: str = "ref-name") -> None:
    """Raise InvalidInput for a name that no new branch or tag can have."""
    _check_text(name, what=_shown(name), where=where)


def _check_text(name: str, *, what: str, where: str) -> None:
    reason = unusable_text(name)
    if reason is not None:
        raise InvalidInput(f"{what} {reason}", where=where, hint="choose another name")


def _shown(name: str) -> str:
    """Return the name in quotes, with what cannot be printed escaped; cut where it is long."""
    return repr(name if len(name) <= SHOWN_MAX else f"{name[:SHOWN_MAX]}…")
