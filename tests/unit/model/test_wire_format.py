"""The documentation lists the members that the code accepts, all of them and no others."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from firn.model.intent import encode_intent
from firn.model.intent_codec import decode_intent
from firn.model.limits import Limits
from firn.model.outcome import decode_outcome, encode_outcome
from firn.model.wire_format import describe
from tests.documents import Block, page

DOCUMENT = Path(__file__).parents[3] / "docs" / "wire-format.md"
SCHEMA = json.loads(DOCUMENT.with_name("wire-format.schema.json").read_text())
EXAMPLES = [block for block in page(DOCUMENT).blocks if block.language == "json"]


def test_the_document_describes_the_structs() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.endswith(describe()), "run: python -m tests.unit.model.test_wire_format"


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_every_example_is_what_it_says(block: Block) -> None:
    """By the schema, and by the code that reads it, which loses nothing of it."""
    example = json.loads(block.text)
    if "status" in example:
        jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/Outcome"}).validate(example)
        assert json.loads(encode_outcome(decode_outcome(block.text.encode()))).items() >= example.items()
    else:
        jsonschema.Draft202012Validator(SCHEMA).validate(example)
        decoded = decode_intent(block.text.encode(), limits=Limits())
        jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(encode_intent(decoded.intent)))


def test_there_are_examples_of_both() -> None:
    kinds = {"outcome" if "status" in json.loads(block.text) else "intent" for block in EXAMPLES}
    assert kinds == {"intent", "outcome"}


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    head = text[: text.index("## Operations")] + "## Operations\n\n"
    DOCUMENT.write_text(head + describe(), encoding="utf-8")


if __name__ == "__main__":
    main()
