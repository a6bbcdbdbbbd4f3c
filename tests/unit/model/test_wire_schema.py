"""docs/wire-format.schema.json says what the daemon's door says.

``python -m tests.unit.model.test_wire_schema`` writes it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from firn.model.errors import InvalidIntent
from firn.model.identifiers import uuid7
from firn.model.intent import Intent
from firn.model.outcome import Outcome
from firn.model.transaction_check import OF_THE_ENTRY, with_member_ids
from firn.model.wire_schema import encoded_schema

SCHEMA = Path(__file__).parents[3] / "docs" / "wire-format.schema.json"
ID = uuid7(now_ms=1_760_000_000_000, entropy=bytes(10))
WRONG: tuple[Any, ...] = (None, True, 7, -1, "", "text", [], [7], {}, {"colour": 1})
"""One of each kind, to be put where another is meant."""


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{name}"})


def sample(kind: Any, *, whole: bool) -> Any:
    """A value of a type, as `msgspec.inspect` tells it; of objects with every member, or with those required."""
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return sample(inner, whole=whole)
        case msgspec.inspect.StructType(fields=fields, tag=tag, tag_field=tag_field):
            members = {f.encode_name: sample(f.type, whole=whole) for f in fields if f.required or whole}
            return members if tag is None else {tag_field: tag, **members}
        case msgspec.inspect.UnionType(types=types):
            return sample(next(t for t in types if not isinstance(t, msgspec.inspect.NoneType)), whole=whole)
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
        case msgspec.inspect.VarTupleType(item_type=item):
            return [sample(item, whole=whole)]
        case msgspec.inspect.DictType(value_type=value):
            return {"k": sample(value, whole=whole)}
        case msgspec.inspect.StrType():
            return ID
        case msgspec.inspect.BytesType():
            return "AAAA"
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.FloatType():
            return 0.5
        case _:
            return 1


def taken_by_the_door(obj: Any) -> bool:
    """Whether the structs can hold it: what is checked beyond them is more than a schema can say."""
    try:
        msgspec.convert(with_member_ids(obj), Intent)
    except (msgspec.ValidationError, InvalidIntent):
        return False
    return True


@pytest.mark.parametrize("whole", [False, True], ids=["required members", "every member"])
@pytest.mark.parametrize("kind", get_args(Intent), ids=lambda kind: str(kind.__struct_config__.tag))
def test_the_schema_and_the_door_agree(kind: type, *, whole: bool) -> None:
    """On an intent that is right, and on one with a member left out, misspelt, or of another type."""
    intent = sample(msgspec.inspect.type_info(kind), whole=whole)
    for member in intent.get("members", ()):
        for name in ("intent-id", *(name.replace("_", "-") for name in OF_THE_ENTRY)):
            member.pop(name, None)
    assert taken_by_the_door(intent)
    validator("Intent").validate(intent)

    for name in ("operation", "intent-id"):
        assert not validator("Intent").is_valid({k: v for k, v in intent.items() if k != name})
    of_the_operation = set(intent) - {"operation", "intent-id"}
    changed = [{k: v for k, v in intent.items() if k != name} for name in of_the_operation]
    changed += [{**intent, "colour": 1}]
    changed += [{**intent, name: wrong} for name in of_the_operation for wrong in WRONG]
    for one in changed:  # not against Intent: that tries every operation each time
        assert validator(kind.__name__).is_valid(one) == taken_by_the_door(one), one


@pytest.mark.parametrize("wrong", ["", ID.upper(), "0192f0c1-5b2e-4cc1-8f4e-2d6a1b3c4d5e", f"{ID}0", f"x{ID}"])
def test_an_intent_id_is_a_uuid_of_version_7_in_lower_case(wrong: str) -> None:
    intent = {"operation": "drop-table", "table": "db.t", "intent-id": ID}
    validator("Intent").validate(intent)
    assert not validator("Intent").is_valid({**intent, "intent-id": wrong})


@pytest.mark.parametrize(
    "member",
    [{"operation": "drop-table"}, {"operation": "rollback", "writer": "w"}, {"operation": "rollback", "digest": "d"}],
)
def test_what_cannot_be_in_a_transaction_is_refused_there(member: dict[str, Any]) -> None:
    transaction = {"operation": "transaction", "table": "db.t", "intent-id": ID}
    right = {"operation": "rollback", "table": "db.t", "snapshot-id": 1}
    validator("Intent").validate({**transaction, "members": [right]})
    assert not validator("Intent").is_valid({**transaction, "members": [{**right, **member}]})


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", get_args(Outcome))
def test_outcomes_are_in_the_schema(kind: type, *, whole: bool) -> None:
    outcome = sample(msgspec.inspect.type_info(kind), whole=whole)
    validator("Outcome").validate(outcome)
    assert not validator("Outcome").is_valid({**outcome, "status": "unknown"})


def test_the_file_is_up_to_date() -> None:
    assert SCHEMA.read_text() == encoded_schema(), "run: python -m tests.unit.model.test_wire_schema"


if __name__ == "__main__":
    SCHEMA.write_text(encoded_schema())
