"""Whoever writes an intent by hand is told what it lacks, where, what was most likely meant, and what to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firn.model.errors import InvalidIntent
from firn.model.intent import OPERATIONS
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.spelling import WORD_CHARACTERS_MAX, did_you_mean, nearest

ROOT = Path(__file__).parents[3]
INTENT = {"intent-id": "0192f0c1-5b2e-7cc1-8f4e-2d6a1b3c4d5e", "table": "db.events"}


def refused(**members: Any) -> InvalidIntent:
    with pytest.raises(InvalidIntent) as caught:
        decode_intent(json.dumps(INTENT | members).encode(), limits=Limits())
    assert (ROOT / "docs" / "wire-format.md").exists()
    assert "docs/wire-format.md" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("operation", "meant"),
    [
        ("apend", "append"), ("Append", "append"), ("delete_files", "delete-files"), ("creat_table", "create-table"),
        ("update-propertys", "update-properties"),
    ],
)  # fmt: skip
def test_a_misspelt_operation_is_answered_with_the_nearest(operation: str, meant: str) -> None:
    error = refused(operation=operation)
    assert (error.rule, error.where) == ("unknown-operation", "operation")
    assert repr(operation) in str(error)
    assert repr(meant) in str(error).partition("did you mean")[2]


@pytest.mark.parametrize("operation", ["", "zzz", "a\nb", "z" * 10_000])
def test_one_that_is_like_none_is_answered_with_all(operation: str) -> None:
    error = refused(operation=operation)
    assert (error.rule, error.where) == ("unknown-operation", "operation")
    assert all(name in str(error) for name in OPERATIONS.values())
    assert len(str(error)) < 2_000, "what was sent is not sent back whole"


def test_a_misspelt_member_is_answered_with_the_nearest_of_its_operation() -> None:
    assert "did you mean 'data-files'?" in str(refused(operation="append", files=[]))
    assert "did you mean" not in str(refused(operation="append", zzz=[]))
    assert "did you mean" not in str(refused(operation="append", **{"data-files": [{"file_pth": "x"}]}))


def test_what_is_missing_is_said_with_where_it_is_described() -> None:
    error = refused()
    assert (error.rule, error.message) == ("missing-field", "lacks the member 'operation'")


def test_what_was_meant_is_asked_as_people_ask() -> None:
    assert nearest("db.evnts", ["db.events", "db.orders", "x"]) == ["db.events"]
    assert nearest("add", ["add-column", "drop-column"]) == ["add-column"], "a part of it"
    assert nearest("a" * (WORD_CHARACTERS_MAX + 1), ["a" * (WORD_CHARACTERS_MAX + 1)]) == []
    assert did_you_mean("tabl", ["table", "tables", "tablet", "x"]) == "did you mean 'table', 'tablet' or 'tables'?"
    assert did_you_mean("x", ["db.events"]) == ""
