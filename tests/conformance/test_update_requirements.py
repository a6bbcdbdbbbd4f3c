"""Updates need the requirements, and requirements fail with the messages, of Iceberg's own library."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from firn.model.rest_requirements import (
    check_requirements,
    requirement_from_json,
    requirement_to_json,
    requirements_for,
    requirements_for_view,
)
from firn.model.rest_updates import updates_from_json
from tests.conformance.histories import built
from tests.strategies.metadata import UUID

CASES = json.loads((Path(__file__).parent / "data" / "update_requirements.json").read_text(encoding="utf-8"))
BASE = built(["append 1", {"ref": "b", "snapshot-id": 1, "type": "branch"}])


@pytest.mark.parametrize("case", CASES["needed"], ids=lambda case: case["name"])
def test_what_updates_need(case):
    updates = updates_from_json(case["updates"])
    needed = {
        "create": lambda: requirements_for(updates, None),
        "update": lambda: requirements_for(updates, BASE),
        "replace": lambda: requirements_for(updates, BASE, replacing=True),
        "view": lambda: requirements_for_view(UUID),
    }[case["for"]]()
    assert [requirement_to_json(requirement) for requirement in needed] == case["requirements"]
    if case["for"] != "view":
        assert check_requirements(None if case["for"] == "create" else BASE, needed) is None


@pytest.mark.parametrize("case", CASES["failures"], ids=lambda case: case["name"])
def test_what_is_said_when_one_fails(case):
    state = {key.replace("-", "_"): value for key, value in case["state"].items()}
    unmet = check_requirements(msgspec.structs.replace(BASE, **state), [requirement_from_json(case["requirement"])])
    assert unmet is not None
    assert case["message"] in unmet.message
