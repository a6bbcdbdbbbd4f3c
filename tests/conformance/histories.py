"""Histories of tables from the steps in the data files."""

from __future__ import annotations

from typing import Any

from firn.model.metadata import TableMetadata
from firn.model.metadata_changes import with_ref
from firn.model.refs import set_current
from firn.model.snapshot import ref_from_json
from tests.strategies.metadata import START_MS, appended, table


def built(steps: list[Any], **settings: Any) -> TableMetadata:
    """The table after the steps: snapshot n is made n seconds after `START_MS`."""
    metadata = table(**settings)
    for step in steps:
        metadata = after(metadata, step)
    return metadata


def after(metadata: TableMetadata, step: Any) -> TableMetadata:
    """The table after one step."""
    if isinstance(step, dict):
        if "ref" in step:
            ref = ref_from_json({key: value for key, value in step.items() if key != "ref"})
            return with_ref(metadata, step["ref"], ref)
        verb = "append" if "append" in step else "stage"
        fields = {"summary": step["summary"]} if "summary" in step else {}
        return appended(metadata, step[verb], branch=step.get("branch", "main" if verb == "append" else None), **fields)
    verb, number, *rest = step.split()
    if verb == "main":
        return set_current(metadata, int(number), now_ms=START_MS)
    branch = rest[1] if rest else "main"
    return appended(metadata, int(number), branch=branch if verb == "append" else None)
