"""Table requirements of the REST specification: what must still hold for updates to be applied (``TableRequirement``).

A requirement that does not hold is a value, not an error: it is the answer to a writer who planned on older metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from firn.model import rest_updates as rest
from firn.model.errors import InvalidMetadata
from firn.model.json_members import as_object, describe, int_of, join, long_or_none, missing, str_of
from firn.model.metadata import TableMetadata
from firn.model.operations.rest import REQUIREMENTS_MAX


class _Requirement(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="kebab"):
    """One assertion; its tag is the REST specification's ``type``."""


class AssertCreate(_Requirement, frozen=True, kw_only=True, tag="assert-create"):
    """The table must not exist."""


class AssertTableUuid(_Requirement, frozen=True, kw_only=True, tag="assert-table-uuid"):
    """The table must be this one, not another of its name."""

    uuid: str


class AssertViewUuid(_Requirement, frozen=True, kw_only=True, tag="assert-view-uuid"):
    """The view must be this one, not another of its name."""

    uuid: str


class AssertRefSnapshotId(_Requirement, frozen=True, kw_only=True, tag="assert-ref-snapshot-id"):
    """A branch or tag must be at a snapshot, or with None must not exist."""

    ref: str
    snapshot_id: int | None


class AssertLastAssignedFieldId(_Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-field-id"):
    """No column may have been added meanwhile."""

    last_assigned_field_id: int


class AssertCurrentSchemaId(_Requirement, frozen=True, kw_only=True, tag="assert-current-schema-id"):
    """The current schema must be the same."""

    current_schema_id: int


class AssertLastAssignedPartitionId(_Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-partition-id"):
    """No partition field may have been added meanwhile."""

    last_assigned_partition_id: int


class AssertDefaultSpecId(_Requirement, frozen=True, kw_only=True, tag="assert-default-spec-id"):
    """The default partition spec must be the same."""

    default_spec_id: int


class AssertDefaultSortOrderId(_Requirement, frozen=True, kw_only=True, tag="assert-default-sort-order-id"):
    """The default sort order must be the same."""

    default_sort_order_id: int


Requirement = (
    AssertCreate
    | AssertTableUuid
    | AssertViewUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)

_BY_TYPE: Final[dict[str, type[Requirement]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        AssertCreate,
        AssertTableUuid,
        AssertViewUuid,
        AssertRefSnapshotId,
        AssertLastAssignedFieldId,
        AssertCurrentSchemaId,
        AssertLastAssignedPartitionId,
        AssertDefaultSpecId,
        AssertDefaultSortOrderId,
    )
}


class Unmet(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement that does not hold, and how."""

    requirement: Requirement
    message: str


def type_of(requirement: Requirement) -> str:
    """The requirement's name in the REST specification."""
    return str(requirement.__struct_config__.tag)


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def requirements_from_json(value: Any, *, where: str = "requirements") -> tuple[Requirement, ...]:
    """A list of requirements; raises InvalidMetadata naming the member that is wrong."""
    if not isinstance(value, list):
        raise InvalidMetadata(f"must be an array, not {describe(value)}", where=where)
    if len(value) > REQUIREMENTS_MAX:
        raise InvalidMetadata(f"{len(value)} requirements, the limit is {REQUIREMENTS_MAX}", where=where)
    return tuple(requirement_from_json(item, where=f"{where}[{i}]") for i, item in enumerate(value))


def requirement_from_json(value: Any, *, where: str = "requirement") -> Requirement:
    """One requirement of the REST specification; unknown types and members are refused."""
    obj = as_object(value, where=where)
    name = str_of(obj, "type", where=where)
    kind = _BY_TYPE.get(name)
    if kind is None:
        raise InvalidMetadata(f"unknown requirement {name[:60]!r}", where=join(where, "type"))
    keys = kind.__struct_encode_fields__
    for key in obj:
        if key != "type" and key not in keys:
            raise InvalidMetadata(f"unknown member of {name}", where=join(where, key))
    if kind is AssertRefSnapshotId:
        # null means that the reference must not exist, so it must be said.
        if "snapshot-id" not in obj:
            raise missing("snapshot-id", where=where)
        return AssertRefSnapshotId(
            ref=str_of(obj, "ref", where=where), snapshot_id=long_or_none(obj, "snapshot-id", where=where)
        )
    arguments: dict[str, Any] = {
        field: str_of(obj, key, where=where) if key == "uuid" else int_of(obj, key, where=where)
        for field, key in zip(kind.__struct_fields__, keys, strict=True)
    }
    return kind(**arguments)


def requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    """The requirement as the REST specification has it."""
    built: dict[str, Any] = msgspec.to_builtins(requirement)
    return built


# ---------------------------------------------------------------------------------------------------------------------
# Checking


def check_requirements(metadata: TableMetadata | None, requirements: Iterable[Requirement]) -> Unmet | None:
    """The first requirement that does not hold, None when all do. `metadata` None is a table that does not exist."""
    for requirement in requirements:
        failure = _failure(metadata, requirement)
        if failure is not None:
            return Unmet(requirement=requirement, message=f"Requirement failed: {failure}")
    return None


def check_view_requirements(view_uuid: str | None, requirements: Iterable[Requirement]) -> Unmet | None:
    """As `check_requirements`, for a view, of which only its UUID can be asserted; None is no view."""
    for requirement in requirements:
        failure: str | None = "cannot be asserted of a view"
        if isinstance(requirement, AssertViewUuid):
            same = view_uuid is not None and requirement.uuid.lower() == view_uuid.lower()
            failure = None if same else f"view UUID does not match: expected {requirement.uuid} != {view_uuid}"
        elif isinstance(requirement, AssertCreate):
            failure = None if view_uuid is None else "view already exists"
        if failure is not None:
            return Unmet(requirement=requirement, message=f"Requirement failed: {failure}")
    return None


def _failure(metadata: TableMetadata | None, requirement: Requirement) -> str | None:
    if isinstance(requirement, AssertCreate):
        return None if metadata is None else "table already exists"
    if metadata is None:
        return "table does not exist"
    match requirement:
        case AssertTableUuid():
            if requirement.uuid.lower() == metadata.table_uuid.lower():
                return None
            return f"UUID does not match: expected {metadata.table_uuid} != {requirement.uuid}"
        case AssertViewUuid():
            return "cannot be asserted of a table"
        case AssertRefSnapshotId():
            return _ref_failure(metadata, requirement)
        case AssertLastAssignedFieldId():
            return _changed("last assigned field id", requirement.last_assigned_field_id, metadata.last_column_id)
        case AssertCurrentSchemaId():
            return _changed("current schema", requirement.current_schema_id, metadata.current_schema_id)
        case AssertLastAssignedPartitionId():
            return _changed(
                "last assigned partition id", requirement.last_assigned_partition_id, metadata.last_partition_id
            )
        case AssertDefaultSpecId():
            return _changed("default partition spec", requirement.default_spec_id, metadata.default_spec_id)
        case AssertDefaultSortOrderId():
            return _changed("default sort order", requirement.default_sort_order_id, metadata.default_sort_order_id)


def _changed(noun: str, expected: int, actual: int) -> str | None:
    return None if expected == actual else f"{noun} changed: expected id {expected} != {actual}"


def _ref_failure(metadata: TableMetadata, requirement: AssertRefSnapshotId) -> str | None:
    ref = metadata.ref(requirement.ref)
    expected = requirement.snapshot_id
    if ref is None:
        return None if expected is None else f"branch or tag {requirement.ref} is missing, expected {expected}"
    if expected is None:
        return f"{ref.type} {requirement.ref} was created concurrently"
    if expected != ref.snapshot_id:
        return f"{ref.type} {requirement.ref} has changed: expected id {expected} != {ref.snapshot_id}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# What updates need


def requirements_for(
    updates: Sequence[rest.Update], base: TableMetadata | None, *, replacing: bool = False
) -> tuple[Requirement, ...]:
    """What must not have changed since `base` for the updates to mean what they meant on it.

    `base` None creates a table. `replacing` is create-or-replace, which overrides whatever the table was, but not the
    ids that it gave out.
    """
    if base is None:
        return (AssertCreate(),)
    needed: list[Requirement] = [AssertTableUuid(uuid=base.table_uuid)]
    for update in updates:
        # A set would lose the order, and a list keeps only a few: one per kind and reference.
        needed.extend(item for item in _needs(update, base, replacing=replacing) if item not in needed)
    return tuple(needed)


def requirements_for_view(view_uuid: str) -> tuple[Requirement, ...]:
    """What updates of a view need: that it is still the same view."""
    return (AssertViewUuid(uuid=view_uuid),)


def _needs(update: rest.Update, base: TableMetadata, *, replacing: bool) -> tuple[Requirement, ...]:
    match update:
        case rest.AddSchema():
            return (AssertLastAssignedFieldId(last_assigned_field_id=base.last_column_id),)
        case rest.AddSpec():
            return (AssertLastAssignedPartitionId(last_assigned_partition_id=base.last_partition_id),)
    if replacing:
        return ()
    schema = AssertCurrentSchemaId(current_schema_id=base.current_schema_id)
    spec = AssertDefaultSpecId(default_spec_id=base.default_spec_id)
    match update:
        case rest.SetCurrentSchema():
            return (schema,)
        case rest.SetDefaultSpec():
            return (spec,)
        case rest.SetDefaultSortOrder():
            return (AssertDefaultSortOrderId(default_sort_order_id=base.default_sort_order_id),)
        case rest.SetSnapshotRef():
            ref = base.ref(update.ref_name)
            return (AssertRefSnapshotId(ref=update.ref_name, snapshot_id=None if ref is None else ref.snapshot_id),)
        case rest.RemoveSchemas():
            return (schema, *_branches(base))
        case rest.RemovePartitionSpecs():
            return (spec, *_branches(base))
    return ()


def _branches(base: TableMetadata) -> tuple[Requirement, ...]:
    """That no branch moved: a commit meanwhile may have written what is being removed. Java leaves main out."""
    return tuple(
        AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id)
        for name, ref in base.refs.items()
        if ref.type == "branch"
    )
