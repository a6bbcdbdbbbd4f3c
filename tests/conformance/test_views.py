"""Views are read, built and pruned as by Iceberg's own libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.view.metadata import ViewMetadata as TheirViewMetadata

from firn.model.errors import FirnError, InvalidInput
from firn.model.view import VersionLogEntry
from firn.model.view_changes import finished, retained_log, retained_versions
from firn.model.view_json import view_metadata_from_json, view_metadata_to_json
from firn.model.view_rest import apply_view_updates, view_updates_from_json
from firn.storage.view_files import decode_view, encode_view
from tests.strategies.metadata import START_MS
from tests.strategies.views import version

CASES = json.loads((Path(__file__).parent / "data" / "views.json").read_text(encoding="utf-8"))
VALID = [case for case in CASES["documents"] if "error" not in case]
REFUSED = [case for case in CASES["documents"] if "error" in case]
UUIDS = {1: "fa6506c3-7681-40c8-86dc-e36561f83385", 2: "9c12d441-03fe-4693-9a96-a0705ddf69c1"}
BUILD_MS = 10**6


def name(case):
    return case["name"]


@pytest.mark.parametrize("case", VALID, ids=name)
def test_a_valid_document_is_read_with_its_facts(case):
    metadata = decode_view(json.dumps(case["metadata"]).encode(), location="00001-a.metadata.json")
    current = metadata.current_version
    assert {
        "current-version": metadata.current_version_id,
        "versions": [one.version_id for one in metadata.versions],
        "log": [entry.version_id for entry in metadata.version_log],
        "current-schema": metadata.current_schema.schema_id,
        "default-namespace": list(current.default_namespace),
        "default-catalog": current.default_catalog,
        "dialects": list(current.dialects),
    } == case["facts"]
    assert all(metadata.schema_by_id(one.schema_id) for one in metadata.versions)


@pytest.mark.parametrize("case", VALID, ids=name)
def test_a_valid_document_keeps_everything_when_written(case):
    metadata = view_metadata_from_json(case["metadata"])
    written = json.loads(encode_view(metadata))
    versions = zip(written.pop("versions"), case["metadata"]["versions"], strict=True)
    for ours, theirs in versions:
        assert ours | theirs == ours
    for key, value in case["metadata"].items():
        assert key == "versions" or written[key] == value, key
    assert view_metadata_from_json(encode_view(metadata)) == metadata


# PyIceberg cannot read views without a UUID.
@pytest.mark.parametrize("case", [case for case in VALID if "view-uuid" in case["metadata"]], ids=name)
def test_pyiceberg_reads_a_valid_document_as_written_again(case):
    theirs = TheirViewMetadata.model_validate_json(encode_view(view_metadata_from_json(case["metadata"])))
    assert theirs.current_version_id == case["facts"]["current-version"]
    assert [one.version_id for one in theirs.versions] == case["facts"]["versions"]


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_an_invalid_document_is_refused_naming_the_member(case):
    # Some lack several things, and what is missed first is not a promise.
    document = {"current-version-id": 1, **case["metadata"]} if "without schema" in case["name"] else case["metadata"]
    with pytest.raises(InvalidInput) as caught:
        view_metadata_from_json(document, where="")
    assert caught.value.where == case["error"]["where"]
    assert case["error"]["message"] in caught.value.message


@pytest.mark.parametrize("case", CASES["expirations"], ids=lambda case: f"keep {case['count']}")
def test_the_highest_ids_and_the_current_version_are_kept(case):
    versions = [version(version_id=one) for one in (1, 3, 2)]
    kept = retained_versions(versions, current_id=1, count=case["count"])
    assert sorted(one.version_id for one in kept) == case["kept"]


@pytest.mark.parametrize("case", CASES["logs"], ids=str)
def test_the_log_starts_after_the_last_unknown_version(case):
    log = [VersionLogEntry(timestamp_ms=i, version_id=one) for i, one in enumerate(case["log"])]
    kept = retained_log(log, version_ids=case["known"])
    assert [entry.version_id for entry in kept] == case["kept"]
    assert kept == tuple(log[len(log) - len(kept) :])


def update(step: dict[str, Any]) -> dict[str, Any]:
    """A step as an update of the REST specification."""
    match step:
        case {"uuid": number}:
            return {"action": "assign-uuid", "uuid": UUIDS[number]}
        case {"location": location}:
            return {"action": "set-location", "location": location}
        case {"format-version": number}:
            return {"action": "upgrade-format-version", "format-version": number}
        case {"set": properties}:
            return {"action": "set-properties", "updates": properties}
        case {"schema": column}:
            field = {"id": 1, "name": column, "required": True, "type": "long"}
            schema = {"type": "struct", "schema-id": step.get("id", 0), "fields": [field]}
            return {"action": "add-schema", "schema": schema}
        case {"current": number}:
            return {"action": "set-current-view-version", "view-version-id": number}
        case {"add": given}:
            dialects = given.get("dialects", ["spark"])
            return {
                "action": "add-view-version",
                "view-version": {
                    "version-id": given["id"],
                    "schema-id": given.get("schema", 0),
                    "timestamp-ms": given.get("at", START_MS),
                    "summary": given.get("summary", {}),
                    "default-namespace": ["default"],
                    "representations": [{"type": "sql", "sql": given["sql"], "dialect": one} for one in dialects],
                },
            }
    raise AssertionError(step)


def build(metadata, steps, *, now_ms):
    """The view after one commit; a commit of nothing is finished all the same, to see what that does."""
    if metadata is not None and not steps:
        return finished(metadata, base=metadata, now_ms=now_ms)
    updates = view_updates_from_json([update(step) for step in steps])
    return apply_view_updates(metadata, updates, now_ms=now_ms)


def built(builds):
    metadata = None
    for i, steps in enumerate(builds):
        metadata = build(metadata, steps, now_ms=now_of(i))
        view_metadata_from_json(json.loads(json.dumps(view_metadata_to_json(metadata))))
    return metadata


def now_of(i):
    """Before version 3 of the timeline's case was made, and after it."""
    return 2000 + 500 * i if i < 2 else 3000 + BUILD_MS * i


@pytest.mark.parametrize("case", [case for case in CASES["builds"] if "error" not in case["expected"]], ids=name)
def test_builds_make_the_view_that_iceberg_makes(case):
    metadata = built(case["builds"])
    for key, expected in case["expected"].items():
        match key:
            case "versions":
                assert [one.version_id for one in metadata.versions] == expected
            case "history":
                assert [entry.version_id for entry in metadata.version_log] == expected
            case "times":
                times = [now_of(int(at.split()[1])) if isinstance(at, str) else at for at in expected]
                assert [entry.timestamp_ms for entry in metadata.version_log] == times
            case "schemas":
                assert [schema.schema_id for schema in metadata.schemas] == expected
            case "current-schema":
                assert metadata.current_schema.schema_id == expected
            case "current-sql":
                assert [one.sql for one in metadata.current_version.representations] == [expected]
            case "current-dialects":
                assert list(metadata.current_version.dialects) == expected
            case _:
                raise AssertionError(key)


@pytest.mark.parametrize("case", [case for case in CASES["builds"] if "error" in case["expected"]], ids=name)
def test_builds_that_iceberg_refuses_are_refused(case):
    *before, last = case["builds"]
    base = built(before)
    with pytest.raises(FirnError) as caught:
        build(base, last, now_ms=START_MS)
    expected = case["expected"]["error"]
    assert expected["message"] in str(caught.value)
    assert getattr(caught.value, "where", None) == expected["where"]
