"""Table metadata is accepted and refused as by Iceberg's own libraries."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from firn.model.errors import InvalidInput, InvalidMetadata
from firn.model.metadata_changes import set_properties, with_metadata_log
from firn.model.metadata_json import metadata_from_json, metadata_to_json
from firn.model.metadata_replace import replace_table
from firn.storage.metadata_files import decode_metadata, encode_metadata
from tests.strategies.metadata import START_MS, appended, table

CASES = json.loads((Path(__file__).parent / "data" / "metadata_validation.json").read_text(encoding="utf-8"))
DOCUMENTS = {case["name"]: case for case in CASES["documents"]}
VALID = [case for case in CASES["documents"] if "error" not in case]
REFUSED = [case for case in CASES["documents"] if "error" in case]


def name(case):
    return case["name"]


@pytest.mark.parametrize("case", VALID, ids=name)
def test_a_valid_document_is_read_with_its_facts(case):
    metadata = decode_metadata(json.dumps(case["metadata"]).encode(), location="v1.metadata.json")
    out = metadata_to_json(metadata)
    for key, expected in case["facts"].items():
        if key == "spec-fields":
            assert [[part.field_id, part.name] for part in metadata.default_spec.fields] == expected
        elif isinstance(out[key], list) and isinstance(expected, int):
            assert len(out[key]) == expected
        elif key == "current-snapshot-id":
            assert metadata.current_snapshot_id == expected
        else:
            assert out[key] == expected


@pytest.mark.parametrize("case", VALID, ids=name)
def test_a_valid_document_keeps_everything_when_written(case):
    written = json.loads(encode_metadata(metadata_from_json(case["metadata"])))
    for key, value in case["metadata"].items():
        if key in ("schema", "snapshots", "location"):
            continue
        assert written[key] == value or (key == "current-snapshot-id" and value in (-1, None)), key
    assert metadata_from_json(written) == metadata_from_json(case["metadata"])


# PyIceberg refuses statistics of types that it does not know, which the specification's own example has.
@pytest.mark.parametrize("case", [case for case in VALID if case["name"] != "statistics"], ids=name)
def test_pyiceberg_reads_a_valid_document_as_written_again(case):
    theirs = TableMetadataUtil.parse_raw(encode_metadata(metadata_from_json(case["metadata"])).decode())
    assert theirs.location == case["metadata"]["location"]


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_an_invalid_document_is_refused_naming_the_member(case):
    with pytest.raises(InvalidInput) as caught:
        metadata_from_json(case["metadata"], where="")
    assert caught.value.where == case["error"]["where"]
    assert case["error"]["message"] in caught.value.message


@pytest.mark.parametrize("case", CASES["changed"], ids=name)
def test_a_broken_rule_is_named(case):
    document = copy.deepcopy(DOCUMENTS[case["of"]]["metadata"]) | case.get("set", {})
    for key in case.get("remove", ()):
        del document[key]
    with pytest.raises(InvalidMetadata) as caught:
        metadata_from_json(document, where="")
    assert caught.value.where == case["error"]["where"]
    assert case["error"]["message"] in caught.value.message


def test_reserved_properties_are_refused_at_creation():
    with pytest.raises(InvalidMetadata, match="table properties should not contain reserved properties"):
        table(properties={"format-version": "1"})


def test_the_format_version_property_upgrades_and_is_not_stored():
    for version in ("2", "3"):
        metadata = set_properties(table(format_version=1), {"format-version": version}, now_ms=START_MS)
        assert metadata.format_version == int(version)
        assert "format-version" not in metadata.properties


def test_replacing_a_table_keeps_its_snapshot_log():
    base = appended(table(), 1, 2)
    metadata = replace_table(base, base.current_schema, now_ms=START_MS)
    assert metadata.current_snapshot is None
    assert metadata.snapshots == base.snapshots
    assert metadata.snapshot_log == base.snapshot_log


def test_the_metadata_log_drops_the_oldest_of_too_many():
    metadata = set_properties(table(), {"write.metadata.previous-versions-max": "5"}, now_ms=START_MS)
    for i in range(7):
        metadata = with_metadata_log(metadata, f"{i}")
    assert [entry.metadata_file for entry in metadata.metadata_log] == ["2", "3", "4", "5", "6"]
