"""Branches, tags and cherry-picks as in Iceberg's own library, as far as metadata decides them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.model import refs
from firn.model.cherry_pick import plan_cherry_pick, snapshot_staged_as
from firn.model.errors import FirnError
from firn.model.metadata_check import check_metadata
from firn.model.snapshot import SnapshotRef
from tests.conformance.histories import after, built
from tests.strategies.metadata import START_MS

CASES = json.loads((Path(__file__).parent / "data" / "refs.json").read_text(encoding="utf-8"))["cases"]


def done(case):
    """What the case's operation gives: metadata, or the plan of a cherry-pick."""
    metadata, op = built(case["steps"]), case["op"]
    match op:
        case {"cherry-pick": snapshot_id}:
            return plan_cherry_pick(metadata, snapshot_id)
        case {"create": name}:
            ref = SnapshotRef(snapshot_id=op["snapshot-id"], type=op["type"])
            return refs.create(metadata, name, ref, now_ms=START_MS)
        case {"set": name}:
            ref = SnapshotRef(snapshot_id=op["snapshot-id"], type=op["type"])
            return refs.set_ref(metadata, name, ref, now_ms=START_MS)
        case {"remove": name}:
            return refs.remove(metadata, name, type=op["type"], now_ms=START_MS)
        case {"replace": name}:
            return refs.replace_branch(metadata, name, to=op["to"], now_ms=START_MS)
        case {"fast-forward": name}:
            return refs.fast_forward(metadata, name, to=op["to"], now_ms=START_MS)
    return after(metadata, op)


@pytest.mark.parametrize("case", [case for case in CASES if "expected" in case], ids=lambda case: case["name"])
def test_what_is_allowed(case):
    result, expected = done(case), case["expected"]
    if "kind" in expected:
        assert (result.kind, result.summary) == (expected["kind"], expected["summary"])
        return
    check_metadata(result)
    assert {name: ref.snapshot_id for name, ref in result.refs.items()} == expected["refs"]
    assert result.current_snapshot_id == expected["refs"].get("main")


@pytest.mark.parametrize("case", [case for case in CASES if "error" in case], ids=lambda case: case["name"])
def test_what_is_refused(case):
    with pytest.raises(FirnError) as caught:
        done(case)
    assert case["error"] in str(caught.value)


def test_a_staged_snapshot_is_found_by_its_id():
    staged = {"stage": 2, "summary": {"operation": "append", "wap.id": "123"}}
    metadata = built(["append 1", staged, {**staged, "stage": 3}])
    found = snapshot_staged_as(metadata, "123")
    assert found is not None
    assert found.snapshot_id == 3
    assert snapshot_staged_as(metadata, "124") is None
