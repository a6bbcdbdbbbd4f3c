"""What a JSON object lacks to be an intent: the JSON library's message, as a refusal that a writer can act on."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from firn.model.errors import InvalidIntent
from firn.model.intent import OPERATIONS
from firn.model.spelling import did_you_mean

QUOTED_CHARACTERS_MAX: Final = 80
PAGE: Final = "docs/wire-format.md"

_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(.*?)`")
_UNKNOWN_OPERATION: Final = re.compile(r"Invalid value '(.*?)' - at `\$\.operation`", re.DOTALL)
_MEMBERS: Final = {
    name: [field.encode_name for field in msgspec.structs.fields(operation)] for operation, name in OPERATIONS.items()
}


def mistake_in(obj: Any, message: str) -> InvalidIntent:
    """The refusal of `obj`, of which msgspec says `message`: its rule, the member concerned and what to do."""
    where = message.rpartition(" - at `$")[2].rstrip("`").lstrip(".") if " - at `$" in message else None
    if unknown := _UNKNOWN_FIELD.search(message):
        known = _MEMBERS.get(str(obj.get("operation")), []) if where is None and isinstance(obj, dict) else []
        advice = did_you_mean(unknown[1], known) or "remove it or mend its spelling;"
        return InvalidIntent(
            f"has no member {unknown[1]!r}",
            rule="unknown-field",
            where=where or "intent",
            hint=f"{advice} {PAGE} lists the members of each operation",
        )
    if missing := _MISSING_FIELD.search(message):
        return InvalidIntent(
            f"lacks the member {missing[1]!r}",
            rule="missing-field",
            where=where or "intent",
            hint=f"{PAGE} lists the members of each operation",
        )
    if operation := _UNKNOWN_OPERATION.search(message):
        names = OPERATIONS.values()
        advice = did_you_mean(operation[1], list(names)) or f"there are {', '.join(names)};"
        return InvalidIntent(
            f"no operation is called {operation[1][:QUOTED_CHARACTERS_MAX]!r}",
            rule="unknown-operation",
            where="operation",
            hint=f"{advice} {PAGE} says what each does",
        )
    return InvalidIntent(message.partition(" - at `$")[0], rule="invalid-field", where=where or "intent")
