"""The wire format as a JSON Schema (2020-12), made from the structs that define it: `docs/wire-format.schema.json`.

It is for writers in other languages: to check what they make, and to generate types from. The daemon's own checks are
`firn.model.intent_codec` and go further (sizes, files named twice, what belongs together).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from firn.model.identifiers import INTENT_ID_PATTERN
from firn.model.intent import Intent
from firn.model.outcome import Outcome
from firn.model.transaction_check import OF_THE_ENTRY

_REF: Final = "#/$defs/{name}"


def wire_schema() -> dict[str, Any]:
    """The schema of an intent, with that of its outcome under ``$defs/Outcome``.

    An operation's definition does not ask for `intent-id`: as a member of a transaction it has none. `Intent` does.
    """
    (intent, outcome), definitions = msgspec.json.schema_components([Intent, Outcome], ref_template=_REF)
    operations = [ref["$ref"].rpartition("/")[2] for ref in intent["anyOf"]]
    for name, definition in definitions.items():
        definition["description"] = " ".join(definition["description"].split())
        if name in operations:
            definition["required"].remove("intent-id")
            definition["properties"]["intent-id"]["pattern"] = f"^{INTENT_ID_PATTERN}$"
    definitions["Transaction"]["properties"]["members"]["items"]["properties"] = {
        name.replace("_", "-"): {"type": "null"} for name in OF_THE_ENTRY
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "firn wire format",
        "description": "An intent, as the field `intent` of a stream entry holds it. Its outcome is $defs/Outcome.",
        "$ref": _REF.format(name="Intent"),
        "$defs": {
            "Intent": {"required": ["intent-id"], **intent},
            "Outcome": outcome,
            **dict(sorted(definitions.items())),
        },
    }


def encoded_schema() -> str:
    """The text of `docs/wire-format.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(wire_schema()), indent=1).decode() + "\n"
