"""Landmarks: who made a change that no snapshot tells of, such as a new schema, a moved branch or an expired snapshot.

A later intent that such a change refuses is told who was first. Snapshots need none: their summaries say who made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

TABLE: Final = "table"
"""The key of whoever created, registered, renamed or dropped the table or view."""

FORMAT: Final = "format"

VERSION: Final = "view-version"
"""The key of whoever made a version of a view the current one."""

SNAPSHOTS_TELL: Final = frozenset({
    "append", "delete-files", "delete-where", "overwrite", "replace-partitions", "row-delta", "replace",
    "rewrite-manifests",
})  # fmt: skip
"""Operations that are no landmarks: what they did is in the snapshot that they made."""

_REF_OPERATIONS: Final = frozenset({
    "create-branch", "create-tag", "set-ref", "remove-ref", "rename-branch", "fast-forward", "set-retention",
    "rollback", "set-current-snapshot",
})  # fmt: skip
_NUMBERED: Final = {
    "update-schema": ("schema", "schema-id"),
    "update-spec": ("spec", "spec-id"),
    "update-sort-order": ("order", "sort-order-id"),
}


class Landmark(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """An intent that changed something. `metadata_location` is None while its own batch is being made."""

    operation: str
    intent_id: str
    writer: str | None = None
    snapshot_id: int | None = None
    metadata_location: str | None = None


def schema_key(schema_id: int) -> str:
    """The key of whoever made a schema the current one."""
    return f"schema:{schema_id}"


def spec_key(spec_id: int) -> str:
    """The key of whoever made a partition spec the default."""
    return f"spec:{spec_id}"


def order_key(order_id: int) -> str:
    """The key of whoever made a sort order the default."""
    return f"order:{order_id}"


def property_key(name: str) -> str:
    """The key of whoever set or removed a property."""
    return f"property:{name}"


def ref_key(name: str) -> str:
    """The key of whoever made, moved (other than by a commit of files) or removed a branch or tag."""
    return f"ref:{name}"


def expired_key(snapshot_id: int) -> str:
    """The key of whoever expired a snapshot."""
    return f"expired:{snapshot_id}"


def keys_of(operation: str, *, ref: str | None, details: Mapping[str, Any]) -> Iterator[str]:
    """The keys under which a committed intent is a landmark. `details` are its outcome's, which may be anything."""
    if details.get("unchanged"):
        return
    if operation in _NUMBERED:
        kind, member = _NUMBERED[operation]
        yield f"{kind}:{details.get(member)}"
    elif operation in _REF_OPERATIONS:
        yield from (ref_key(name) for name in (ref, details.get("renamed-to")) if isinstance(name, str))
    elif operation in {"update-properties", "update-view-properties"}:
        yield from (property_key(name) for name in _listed(details, "properties"))
    elif operation == "expire-snapshots":
        yield from (expired_key(snapshot_id) for snapshot_id in _listed(details, "removed"))
        yield from (ref_key(str(name)) for name in _listed(details, "removed-refs"))
    elif operation in {"create-table", "register-table", "rename-table", "drop-table"}:
        yield TABLE
    elif operation in {"create-view", "register-view", "rename-view", "drop-view"}:
        yield from (TABLE, VERSION)
    elif operation in {"replace-view", "set-current-view-version"}:
        yield VERSION
    elif operation == "create-or-replace-table":
        yield from (TABLE, ref_key("main"), *(f"{kind}:{details.get(member)}" for kind, member in _NUMBERED.values()))
    elif operation == "upgrade-format":
        yield FORMAT
    elif operation in {"rest-commit", "rest-view-commit"}:
        yield from _keys_of_request(details)


def _keys_of_request(details: Mapping[str, Any]) -> Iterator[str]:
    """The keys of a request of the REST catalog, whose details say what it changed beside snapshots."""
    yield from (f"{kind}:{details[member]}" for kind, member in _NUMBERED.values() if member in details)
    yield from (property_key(str(name)) for name in _listed(details, "properties"))
    yield from (expired_key(snapshot_id) for snapshot_id in _listed(details, "removed"))
    yield from (ref_key(str(name)) for name in (*_listed(details, "refs"), *_listed(details, "removed-refs")))
    if details.get("created"):
        yield TABLE
    if "format-version" in details:
        yield FORMAT
    if "version-id" in details:
        yield VERSION


def _listed(details: Mapping[str, Any], name: str) -> list[Any]:
    found = details.get(name)
    return list(found) if isinstance(found, list | dict | tuple) else []
