"""What must hold within one view metadata, whoever wrote it, and what more a new version must hold (view specification,
"View Metadata", "SQL representation").

Reading is lenient: two queries of one dialect, which Java reads too, must not lock the view's owner out of mending it.
"""

from __future__ import annotations

from collections.abc import Iterable

from firn.model.errors import InvalidMetadata
from firn.model.json_members import join
from firn.model.view import SqlRepresentation, ViewMetadata, ViewVersion
from firn.model.view_properties import DROP_DIALECT_ALLOWED


def check_view(metadata: ViewMetadata, *, where: str = "metadata") -> None:
    """Refuse view metadata that contradicts itself; raises InvalidMetadata naming the member at fault."""
    if not metadata.location:
        raise InvalidMetadata("must not be empty", where=join(where, "location"))
    _check_unique((one.schema_id for one in metadata.schemas), join(where, "schemas"), "schema-id")
    _check_unique((one.version_id for one in metadata.versions), join(where, "versions"), "version-id")
    current = metadata.version_by_id(metadata.current_version_id)
    if current is None:
        raise InvalidMetadata(
            f"cannot find version {metadata.current_version_id} in versions", where=join(where, "current-version-id")
        )
    # Java too reads old versions whose schema is gone: nobody needs it before a rollback.
    if metadata.schema_by_id(current.schema_id) is None:
        raise InvalidMetadata(
            f"cannot find schema {current.schema_id} of the current version {current.version_id} in schemas",
            where=join(where, f"versions[{metadata.versions.index(current)}].schema-id"),
        )


def _check_unique(ids: Iterable[int], where: str, name: str) -> None:
    seen: set[int] = set()
    for i, number in enumerate(ids):
        if number in seen:
            raise InvalidMetadata(f"{name} {number} appears twice", where=f"{where}[{i}]")
        seen.add(number)


def check_new_version(version: ViewVersion, *, where: str = "view-version") -> None:
    """Refuse a version that engines could not run, or would run differently from each other."""
    path = join(where, "representations")
    if not version.representations:
        raise InvalidMetadata("must not be empty: a view needs a query", where=path)
    dialects: set[str] = set()
    for i, one in enumerate(version.representations):
        if not isinstance(one, SqlRepresentation):
            continue
        for key, value in (("sql", one.sql), ("dialect", one.dialect)):
            if not value.strip():
                raise InvalidMetadata("must not be empty", where=f"{path}[{i}].{key}")
        dialect = one.dialect.lower()
        if dialect in dialects:
            raise InvalidMetadata(
                f"cannot add multiple queries for dialect {dialect}: an engine could not tell which one is the view",
                where=f"{path}[{i}].dialect",
            )
        dialects.add(dialect)


def check_dialects_kept(*, before: ViewVersion, after: ViewVersion) -> None:
    """Refuse a current version that lacks a dialect of the one before it: an engine that read the view no longer could.

    The view's property for it turns this off; the caller looks at that.
    """
    if set(before.dialects) <= set(after.dialects):
        return
    raise InvalidMetadata(
        f"loss of view dialects: the current version {before.version_id} has [{', '.join(before.dialects)}], "
        f"version {after.version_id} would have [{', '.join(after.dialects)}]",
        where="representations",
        hint=f"give every dialect, or set {DROP_DIALECT_ALLOWED.name} to true",
    )
