"""Properties, location and format version of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.decision import Applied
from firn.coordinator.replay.places import require_own, require_own_places
from firn.coordinator.replay.working import Working
from firn.model import metadata_changes
from firn.model.errors import InvalidInput
from firn.model.name_mapping import check_name_mapping
from firn.model.operations.upkeep import SetLocation, UpdateProperties, UpgradeFormat
from firn.model.table_properties import DROPPED_SNAPSHOTS, ENCRYPTION_KEY_ID, JOURNAL_HEAD, RESERVED


def update_properties(working: Working, intent: UpdateProperties) -> Applied:
    """Set and remove properties key by key; keys that the intent does not name stay as somebody else has set them."""
    require_no_contradiction(intent.updates, intent.removals)
    metadata = working.require(table_uuid=intent.table_uuid)
    require_expected(metadata.properties, intent.expect)
    require_not_reserved(intent)
    require_own_places(working, intent.updates, location=metadata.location)
    now_ms = working.attempt.now_ms
    try:
        check_name_mapping(intent.updates)
        changed = metadata_changes.set_properties(metadata, intent.updates, now_ms=now_ms)
    except InvalidInput as error:
        rules.INVALID_PROPERTY.refuse(str(error))
    changed = metadata_changes.remove_properties(changed, intent.removals, now_ms=now_ms)
    require_few_properties(working, changed.properties)
    if changed is metadata:
        return Applied(details={"unchanged": True})
    working.change_metadata(changed)
    return Applied(details={"properties": sorted({*intent.updates, *intent.removals})})


def set_location(working: Working, intent: SetLocation) -> Applied:
    """Give new files another base location. The place that the table leaves stays its own: its files are there."""
    metadata = working.require(table_uuid=intent.table_uuid)
    if working.catalog == "file-system":
        rules.LOCATION_FIXED.refuse(f"{working.table!r} is opened by its path, {metadata.location}")
    location = require_own(working, intent.location, where="location")
    changed = metadata_changes.set_location(metadata, location, now_ms=working.attempt.now_ms)
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied()


def upgrade_format(working: Working, intent: UpgradeFormat) -> Applied:
    """Bring the table to a newer format version; nothing happens when it has it already."""
    metadata = working.require(table_uuid=intent.table_uuid)
    if intent.format_version < metadata.format_version:
        rules.FORMAT_DOWNGRADE.refuse(
            f"the table has format version {metadata.format_version}, which cannot become {intent.format_version}"
        )
    try:
        changed = metadata_changes.upgrade(metadata, intent.format_version, now_ms=working.attempt.now_ms)
    except InvalidInput as error:
        rules.INVALID_TABLE.refuse(str(error))
    if changed is not metadata:
        working.change_metadata(changed)
    return Applied(details={"format-version": changed.format_version})


def require_no_contradiction(updates: Mapping[str, str], removals: Sequence[str]) -> None:
    """Refuse to set and remove the same property."""
    both = sorted(updates.keys() & set(removals))
    if both:
        rules.INVALID_FIELD.refuse(f"sets and removes the same properties: {', '.join(both)}")


def require_expected(properties: Mapping[str, str], expect: Mapping[str, str | None]) -> None:
    """Refuse when a property is not what its writer saw. Prevents: a setting undone by who never knew of it."""
    for name, value in expect.items():
        found = properties.get(name)
        if found != value:
            rules.EXPECTATION_FAILED.refuse(f"property {name} is {_shown(found)} now, not {_shown(value)}")


def require_few_properties(working: Working, properties: Mapping[str, str]) -> None:
    """Refuse more properties than a table or view may have. Prevents: commits that rewrite megabytes of them."""
    if len(properties) > working.limits.properties_max:
        rules.METADATA_TOO_LARGE.refuse(
            f"properties: {len(properties)} properties, the limit is {working.limits.properties_max}"
        )


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value[:100])


def require_not_reserved(intent: UpdateProperties) -> None:
    """Refuse names that are not for setting.

    Prevents: a file-system table that loses its journal with every answer in it; bases that are unknown, because what
    was dropped since is not found any more; properties that engines would show in
    place of the table's own fields; a table that firn cannot read any more.
    """
    guarded = RESERVED | {JOURNAL_HEAD, DROPPED_SNAPSHOTS, ENCRYPTION_KEY_ID.name}
    named = sorted(guarded & {*intent.updates, *intent.removals})
    if named:
        rules.RESERVED_PROPERTY.refuse(f"not for setting or removing: {', '.join(named)}")
