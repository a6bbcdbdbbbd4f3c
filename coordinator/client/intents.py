"""Making intents from what a writer has at hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, get_args

import msgspec

from firn.coordinator.client.current_trace import current_traceparent
from firn.coordinator.client.options import FilterLike, IntentOptions
from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.expressions.expression_json import expression_to_json
from firn.model.expressions.filter_text import filter_from_text
from firn.model.file_origins import with_origin_once
from firn.model.identifiers import check_table_name, is_intent_id, uuid7
from firn.model.intent import ContentFile, Intent, digest_of, encode_intent, with_defaults_left_out
from firn.model.operations.files import Filter
from firn.model.schema import Schema, schema_to_json
from firn.model.spelling import refuse_unknown

_MAPPINGS: Final = ("summary", "properties", "partition_spec", "write_order")
_OPTIONS: Final = frozenset(name for kind in get_args(Intent) for name in kind.__struct_fields__) | {"deadline"}
"""Every name that some operation knows; each refuses those of others by itself."""

_READER: Final[msgspec.json.Decoder[Intent]] = msgspec.json.Decoder(Intent)
"""Made once: to find out all that an intent may be takes five times as long as to read one."""


def new_intent_id() -> str:
    """A fresh intent id."""
    return uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))


def sealed(intent: Intent, *, reply_to: str) -> Intent:
    """The intent as it is sent: with its digest and where the outcome goes.

    Raises InvalidIntent for what no daemon could answer: an id or a table name that is none, or a digest of something
    else. Everything else is the daemon's to judge.
    """
    if not is_intent_id(intent.intent_id):
        raise InvalidIntent(f"{intent.intent_id[:80]!r} is not a UUIDv7", rule="invalid-intent-id", where="intent-id")
    try:
        check_table_name(intent.table)
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-table-name", where="table", hint=error.hint) from error
    intent = as_read(intent if intent.digest is not None else with_origin_once(intent))
    digest = digest_of(intent)
    if intent.digest not in (None, digest):
        raise InvalidIntent(f"the content gives {digest}", rule="digest-mismatch", where="digest")
    return msgspec.structs.replace(intent, digest=digest, reply_to=reply_to)


def as_read(intent: Intent) -> Intent:
    """The intent as the daemon will read it, in one spelling.

    A value that equals its default without being it (it came through a pickle, say) is written out, and would be in the
    digest of one of two that say the same. What cannot be read is left as it is: the daemon says what is wrong with it.
    """
    try:
        return with_defaults_left_out(_READER.decode(encode_intent(intent)))
    except msgspec.MsgspecError:
        return intent


def members_of(options: IntentOptions) -> dict[str, Any]:
    """The members of an intent that options say, with a fresh intent id unless one is given."""
    refuse_unknown(options, _OPTIONS)
    members: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    members.setdefault("intent_id", new_intent_id())
    members.setdefault("traceparent", current_traceparent())
    deadline = members.pop("deadline", None)
    if deadline is not None:
        members["deadline_ms"] = unix_ms(deadline, where="deadline")
    for name in _MAPPINGS:
        if name in members:
            members[name] = dict(members[name])
    if "schema_ids" in members:
        members["schema_ids"] = tuple(members["schema_ids"])
    if "default_namespace" in members:
        members["default_namespace"] = tuple(members["default_namespace"])
    if "conflict_filter" in members:
        members["conflict_filter"] = filter_json(members["conflict_filter"], where="conflict-filter")
    return members


def planned_on(base: TableView | int, options: IntentOptions) -> dict[str, Any]:
    """Return `members_of` the options, for the very table that a change was planned on where that is known."""
    members = members_of(options)
    if isinstance(base, TableView) and base.uuid:
        members.setdefault("table_uuid", base.uuid)
    return members


def unix_ms(moment: datetime, *, where: str) -> int:
    """Milliseconds since 1970-01-01 UTC. Raises InvalidIntent for a time without a time zone."""
    if moment.tzinfo is None:
        raise InvalidIntent("needs a time zone", rule="invalid-field", where=where)
    return int(moment.timestamp() * 1000)


def locations_of(files: Iterable[ContentFile | str], *, where: str = "removed-data-files") -> tuple[str, ...]:
    """The locations of files that are given by them, or as they were added."""
    if isinstance(files, str):
        raise InvalidIntent("wants a list of files, not one name", rule="invalid-field", where=where)
    return tuple(file if isinstance(file, str) else file.file_path for file in files)


def filter_json(filter: FilterLike, *, where: str = "row-filter") -> Filter:
    """A filter in its JSON form. Raises InvalidInput for a text that is none."""
    if isinstance(filter, str):
        json: Filter = expression_to_json(filter_from_text(filter, where=where))
        return json
    return filter if isinstance(filter, bool) else dict(filter)


def schema_json(schema: Schema | Mapping[str, Any]) -> dict[str, Any]:
    """A schema in its JSON form."""
    return schema_to_json(schema) if isinstance(schema, Schema) else dict(schema)


def schema_id_of(base: TableView | int) -> int:
    """The id of the schema that a change was planned on."""
    return base.metadata.current_schema_id if isinstance(base, TableView) else base
