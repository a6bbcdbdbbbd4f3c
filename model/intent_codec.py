"""Reading an intent from the wire: every way in which it can be wrong is one named refusal.

The rules raised here (``InvalidIntent.rule``) are those of the door; the rules of replay are in
`firn.coordinator.replay`. ``docs/replay.md`` lists both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from firn.model import strict_json
from firn.model.amounts import plural
from firn.model.definition_limits import check_definition
from firn.model.errors import InvalidInput, InvalidIntent, TooLarge
from firn.model.identifiers import check_table_name, intent_id_ms, is_intent_id
from firn.model.intent import (
    REPLY_STREAM_PREFIX,
    Append,
    ContentFile,
    CountMap,
    CreateOrReplaceTable,
    FileOperation,
    Intent,
    RenameTable,
    Replace,
    ValueMap,
    added_files,
    digest_as_spelled,
    digest_in,
    digest_of,
    encode_intent,
    removed_delete_files,
    removed_files,
    spells_out_defaults,
    without_address,
)
from firn.model.intent_mistakes import mistake_in
from firn.model.limits import Limits
from firn.model.operations.common import Operation
from firn.model.operations.rest import RestRequest
from firn.model.operations.transaction import Transaction
from firn.model.operations.views import RenameView
from firn.model.rest_request_check import check_rest_request
from firn.model.traceparent import is_traceparent
from firn.model.transaction_check import check_transaction, with_member_ids

_OWN_APPEND: Final = b'{"operation":"append",'
_APPEND: Final = msgspec.json.Decoder(Append)
_APPEND_DEPTH: Final = 8
"""Levels of arrays and objects that an append may have where no value is nested."""

_ADDRESS: Final = (
    ("reply_to", len(b',"reply-to":')),
    ("traceparent", len(b',"traceparent":')),
    ("digest", len(b',"digest":')),
)
"""The members that `without_address` leaves out, each with the bytes that it takes beside its value."""

_RENAMES: Final = (RenameTable, RenameView)
_WITH_FILES: Final = (FileOperation, CreateOrReplaceTable)

_PLAIN: Final = frozenset({str, bool, float, type(None)})
_REPLY_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")


class FilesRead(msgspec.Struct, frozen=True, gc=False):
    """The data files of an append, read by somebody who looks at nothing else of it.

    Their list is the payload's text from `start` to `end`, each file in its own spelling. `canonical` is the same with
    the members of each file sorted, as the digest has them.
    """

    start: int
    end: int
    canonical: bytes
    files: tuple[ContentFile, ...]


class DecodedIntent(msgspec.Struct, frozen=True, gc=False):
    """An intent that passed the door, with its identity and the size it had on the wire (bytes)."""

    intent: Intent
    digest: str
    size: int


def decode_intent(payload: bytes, *, limits: Limits, reply_prefix: str = REPLY_STREAM_PREFIX) -> DecodedIntent:
    """The intent in `payload`. Raises InvalidIntent with a rule name, the member concerned and what to do.

    `reply_prefix` is what a reply stream's name must begin with.
    """
    if len(payload) > limits.intent_bytes_max:
        raise InvalidIntent(
            f"the intent has {len(payload)} bytes, the limit is {limits.intent_bytes_max}",
            rule="intent-too-large",
            hint="split the files over several intents",
        )
    try:
        strict_json.check_values(payload, where="intent", values_max=limits.intent_values_max)
    except TooLarge as error:
        raise InvalidIntent(
            error.message, rule="intent-too-large", where=error.where, hint="split it over several intents"
        ) from error
    own = decode_own_append(payload, limits=limits, reply_prefix=reply_prefix)
    if own is not None:
        return own
    try:
        obj = strict_json.loads(
            payload, where="intent", bytes_max=limits.intent_bytes_max, values_max=limits.intent_values_max,
            depth_max=limits.json_depth_max,
        )  # fmt: skip
    except InvalidInput as error:
        raise InvalidIntent(str(error), rule="malformed-json", hint="send one JSON object in UTF-8") from error
    try:
        other: Intent = msgspec.convert(with_member_ids(obj), Intent)
    except msgspec.ValidationError as error:
        raise mistake_in(obj, str(error)) from error
    return DecodedIntent(_checked(other, limits, reply_prefix), _as_claimed(other, digest_of(other)), len(payload))


def decode_own_append(
    payload: bytes, *, limits: Limits, reply_prefix: str = REPLY_STREAM_PREFIX, files: FilesRead | None = None
) -> DecodedIntent | None:
    """As `decode_intent`, but None for anything but an append that is spelled as `encode_intent` spells it.

    `files` are its data files, if they have been read: then they are not read again.
    """
    if len(payload) > limits.intent_bytes_max:
        return None
    own = _in_own_spelling(payload, files, depth_max=limits.json_depth_max)
    if own is None:
        return None
    intent, digest = own
    return DecodedIntent(_checked(intent, limits, reply_prefix), _as_claimed(intent, digest), len(payload))


def _in_own_spelling(payload: bytes, files: FilesRead | None = None, *, depth_max: int) -> tuple[Append, str] | None:
    """An append that is spelled as `encode_intent` spells it, which nobody can read in another way, with its digest.

    None for anything else: what is wrong with it, `strict_json` and `msgspec.convert` say, in four times the time.

    The order of its members may be another one. `encode_intent` writes everything in the shortest of its spellings, and
    each other spelling is longer: spaces, escapes, members named twice, ones that are null or at their default. So a
    text that is as long as that of what was read in it is that text, or another order of its members. Only floats have
    several short spellings; where there is one, the text itself is compared.
    """
    if not payload.startswith(_OWN_APPEND) or depth_max < _APPEND_DEPTH:
        return None
    try:
        read = _read_whole(payload) if files is None else _read_around(payload, files)
        if read is None:
            return None
        intent, canonical = read
        length = len(canonical)
        for name, beside in _ADDRESS:
            value = getattr(intent, name)
            if value is not None:
                length += beside + len(msgspec.json.encode(value))
        if length != len(payload):
            return None
        if not spells_out_defaults(intent):
            return intent, digest_in(canonical)
        return (intent, digest_of(intent)) if files is None else None
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None


def _read_whole(payload: bytes) -> tuple[Append, bytes] | None:
    """An append, and its JSON `without_address`. None where a partition has a value that needs a closer look."""
    intent = _APPEND.decode(payload)
    for file in intent.data_files:
        for value in file.partition:
            if not _is_plain(value) or (type(value) is float and encode_intent(intent) != payload):
                return None
    return intent, without_address(intent)


def _read_around(payload: bytes, files: FilesRead) -> tuple[Append, bytes] | None:
    """As `_read_whole`, of an append whose data files have been read."""
    intent = _APPEND.decode(b"%b[]%b" % (payload[: files.start], payload[files.end :]))
    if intent.data_files:  # named twice
        return None
    # Nobody else has seen the intent yet.
    msgspec.structs.force_setattr(intent, "data_files", msgspec.Raw(files.canonical))
    canonical = without_address(intent)
    msgspec.structs.force_setattr(intent, "data_files", files.files)
    return intent, canonical


def _is_plain(value: Any) -> bool:
    """Whether a value that may be anything has no more below it, and is no number that only some can read."""
    return type(value) in _PLAIN or (type(value) is int and -(2**63) <= value < 2**64)


def identity_of(
    payload: bytes, *, limits: Limits, reply_prefix: str = REPLY_STREAM_PREFIX
) -> tuple[str | None, str | None, str | None]:
    """Intent id, table and reply stream of a payload that may be anything, as far as they can be made out.

    This is for telling the writer of a refused intent; nothing is decided on it.
    """
    try:
        obj = strict_json.loads(
            payload, where="intent", bytes_max=limits.intent_bytes_max, values_max=limits.intent_values_max,
            depth_max=limits.json_depth_max,
        )  # fmt: skip
    except TooLarge:
        obj = _address_in(payload)
    except InvalidInput:
        return None, None, None
    if not isinstance(obj, dict):
        return None, None, None
    intent_id, table, reply_to = obj.get("intent-id"), obj.get("table"), obj.get("reply-to")
    return (
        intent_id if isinstance(intent_id, str) and is_intent_id(intent_id) else None,
        table if _is_table_name(table) else None,
        reply_to if isinstance(reply_to, str) and _is_reply_stream(reply_to, reply_prefix) else None,
    )


class _Address(msgspec.Struct, rename="kebab"):
    intent_id: str | None = None
    table: str | None = None
    reply_to: str | None = None


_ADDRESS_DECODER: Final = msgspec.json.Decoder(_Address)


def _address_in(payload: bytes) -> dict[str, str | None] | None:
    """Who a payload of more than the limits is from; the rest of it is passed over, not decoded.

    None where that is not certain: a member that may stand there twice could be another one to another reader.
    """
    if any(payload.count(b'"%b"' % name.encode()) > 1 for name in ("intent-id", "table", "reply-to")):
        return None
    try:
        address = _ADDRESS_DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return {"intent-id": address.intent_id, "table": address.table, "reply-to": address.reply_to}


def _is_table_name(name: Any) -> bool:
    try:
        return isinstance(name, str) and bool(check_table_name(name))
    except InvalidInput:
        return False


@lru_cache(maxsize=10_000)
def _is_reply_stream(name: str, prefix: str) -> bool:
    suffix = name.removeprefix(prefix)
    return suffix != name and _REPLY_NAME.fullmatch(suffix) is not None


def _checked(intent: Intent, limits: Limits, reply_prefix: str) -> Intent:
    if not is_intent_id(intent.intent_id):
        raise InvalidIntent(
            f"{intent.intent_id[:80]!r} is not a UUIDv7 in lower case",
            rule="invalid-intent-id",
            where="intent-id",
            hint="make one per intent and keep it when you resubmit",
        )
    try:
        check_table_name(intent.table)
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-table-name", where="table", hint=error.hint) from error
    if isinstance(intent, _RENAMES):
        _check_new_name(intent)
    if intent.reply_to is not None and not _is_reply_stream(intent.reply_to, reply_prefix):
        raise InvalidIntent(
            f"must begin with {reply_prefix!r}, then at most 200 of A-Z a-z 0-9 . _ : -",
            rule="invalid-reply-to",
            where="reply-to",
        )
    if intent.traceparent is not None and not is_traceparent(intent.traceparent):
        raise InvalidIntent(
            f"{intent.traceparent[:80]!r} is no W3C traceparent",
            rule="invalid-field",
            where="traceparent",
            hint="00-<32 hexadecimal digits>-<16 of them>-<2 of them>, in lower case; or leave it out",
        )
    if intent.writer_sequence is not None and intent.writer is None:
        raise InvalidIntent("is given without a writer", rule="invalid-field", where="writer-sequence")
    if intent.epoch_label is not None and intent.writer_sequence is None:
        raise InvalidIntent("is given without a writer-sequence", rule="invalid-field", where="epoch-label")
    _check_sizes(intent, limits)
    if isinstance(intent, Transaction):
        check_transaction(intent, limits=limits)
        _check_members(intent, limits)
    return intent


def _check_members(transaction: Transaction, limits: Limits) -> None:
    for at, member in enumerate(transaction.members):
        try:
            _check_sizes(member, limits)
        except InvalidIntent as error:
            where = f"members[{at}].{error.where}" if error.where else f"members[{at}]"
            raise InvalidIntent(error.message, rule=error.rule, where=where, hint=error.hint) from error
    count = sum(_files_count(member) for member in transaction.members)
    if count > limits.intent_files_max:
        raise InvalidIntent(
            f"its members name {plural(count, 'file')} together, the limit is {limits.intent_files_max}",
            rule="too-many-files",
        )


def _files_count(intent: Operation) -> int:
    return len(added_files(intent)) + len(removed_files(intent)) + len(removed_delete_files(intent))


def _check_new_name(intent: RenameTable | RenameView) -> None:
    try:
        check_table_name(intent.new_name, where="new-name")
    except InvalidInput as error:
        raise InvalidIntent(error.message, rule="invalid-table-name", where="new-name", hint=error.hint) from error
    if intent.new_name == intent.table:
        raise InvalidIntent("is the name that it has", rule="invalid-field", where="new-name")


def _check_sizes(intent: Operation, limits: Limits) -> None:
    if intent.summary:
        summary_bytes = sum([len(key) + len(value) for key, value in intent.summary.items()])
        if len(intent.summary) > limits.summary_entries_max or summary_bytes > limits.summary_bytes_max:
            raise InvalidIntent(
                f"at most {limits.summary_entries_max} entries and {limits.summary_bytes_max} characters",
                rule="summary-too-large",
                where="summary",
            )
    if isinstance(intent, _WITH_FILES):
        _check_files(intent, limits)
    if not isinstance(intent, FileOperation):
        check_definition(intent, limits=limits)
    if isinstance(intent, RestRequest):
        check_rest_request(intent, limits=limits)


def _check_files(intent: FileOperation | CreateOrReplaceTable, limits: Limits) -> None:
    added, removed, removed_deletes = added_files(intent), removed_files(intent), removed_delete_files(intent)
    count = len(added) + len(removed) + len(removed_deletes)
    if count > limits.intent_files_max:
        raise InvalidIntent(
            f"names {plural(count, 'file')}, the limit is {limits.intent_files_max}",
            rule="too-many-files",
            hint="split the files over several intents",
        )
    # Deletion vectors share a file, and are told apart by their offsets in it.
    if count > 1:
        _check_unique([(f.file_path, f.content_offset) for f in added], where="data-files")
        _check_unique([(path, None) for path in removed], where="removed-data-files")
        _check_unique([(f.file_path, f.content_offset) for f in removed_deletes], where="removed-delete-files")
    if not all(map(_has_fitting_metrics, added)):
        _check_encoded(intent)
        for name in ("data_files", "delete_files"):
            for position, file in enumerate(getattr(intent, name, ())):
                _check_maps(file, where=f"{name.replace('_', '-')}[{position}]")
    if isinstance(intent, Append) and not intent.data_files and not intent.manifests:
        raise InvalidIntent("adds nothing", rule="invalid-field", where="data-files")
    if isinstance(intent, Replace) and not removed and not removed_deletes:
        raise InvalidIntent("replaces nothing", rule="invalid-field", where="removed-data-files")
    if isinstance(intent, FileOperation) and intent.wap_id is not None and not intent.stage:
        raise InvalidIntent("is for staged snapshots only", rule="invalid-field", where="wap-id")


_SAID_ENCODED: Final = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
    "key_metadata", "split_offsets", "equality_ids", "sort_order_id",
)  # fmt: skip
_NOTHING_SAID: Final = (None,) * len(_SAID_ENCODED)
_said_encoded: Final = attrgetter(*_SAID_ENCODED)


def _check_encoded(intent: FileOperation | CreateOrReplaceTable) -> None:
    """Metrics that came as bytes are a data file's, and said once."""
    for name in ("data_files", "delete_files"):
        for position, file in enumerate(getattr(intent, name, ())):
            where = f"{name.replace('_', '-')}[{position}]"
            if file.encoded is None:
                continue
            if file.content != "data":
                raise InvalidIntent("is for data files only", rule="invalid-field", where=f"{where}.encoded")
            twice = [member for member in _SAID_ENCODED if getattr(file, member) is not None]
            if twice:
                raise InvalidIntent(
                    "is given beside `encoded`, which says it", rule="invalid-field",
                    where=f"{where}.{twice[0].replace('_', '-')}",
                )  # fmt: skip


def _check_unique(names: Sequence[tuple[str, int | None]], *, where: str) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[tuple[str, int | None]] = set()
    for name in names:
        if name in seen:
            raise InvalidIntent(f"names {name[0]!r} twice", rule="duplicate-file", where=where)
        seen.add(name)


def _has_fitting_metrics(file: ContentFile) -> bool:
    """Whether nothing is wrong with the metrics of a file; if so, `_check_encoded` and `_check_maps` say what."""
    if file.encoded is not None:
        return file.content == "data" and _said_encoded(file) == _NOTHING_SAID
    return (
        _is_map(file.column_sizes) and _is_map(file.value_counts)
        and _is_map(file.null_value_counts) and _is_map(file.nan_value_counts)
        and _is_map(file.lower_bounds) and _is_map(file.upper_bounds)
    )  # fmt: skip


def _is_map(one: CountMap | ValueMap | None) -> bool:
    return one is None or len(one.keys) == len(one.values) == len(set(one.keys))


def _check_maps(file: ContentFile, *, where: str) -> None:
    for name in (
        "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
    ):  # fmt: skip
        value = getattr(file, name)
        if value is not None and len(value.keys) != len(value.values):
            raise InvalidIntent(
                f"{plural(len(value.keys), 'key')} but {plural(len(value.values), 'value')}",
                rule="invalid-field",
                where=f"{where}.{name.replace('_', '-')}",
            )
        if value is not None and len(set(value.keys)) < len(value.keys):
            raise InvalidIntent(
                "has a column twice among its keys", rule="invalid-field", where=f"{where}.{name.replace('_', '-')}"
            )


def _as_claimed(intent: Intent, digest: str) -> str:
    """The digest of the content, which is the one that the intent names, if it names one."""
    if intent.digest is not None and intent.digest != digest and intent.digest != digest_as_spelled(intent):
        raise InvalidIntent(
            f"is {intent.digest[:64]!r} but the content gives {digest}: the entry was damaged or made by another rule",
            rule="digest-mismatch",
            where="digest",
            hint="submit it again",
        )
    return digest


def check_age(intent_id: str, *, entry_ms: int, limits: Limits) -> None:
    """Refuse an intent whose id is too old to be told from a duplicate, or too far in the future.

    `entry_ms` is the queue's clock when the entry was added; the daemon's own clock has no part in this.
    """
    age_ms = entry_ms - intent_id_ms(intent_id)
    if age_ms > limits.dedupe_window_hours * 3_600_000:
        raise InvalidIntent(
            f"was made {plural(age_ms // 3_600_000, 'hour')} before it was queued, the limit is "
            f"{limits.dedupe_window_hours}",
            rule="intent-too-old",
            where="intent-id",
            hint="look up its outcome; if there is none, submit the work under a new intent id",
        )
    if -age_ms > limits.clock_skew_minutes_max * 60_000:
        raise InvalidIntent(
            f"says a time {-age_ms // 60_000} minutes after the queue's clock, the limit is "
            f"{limits.clock_skew_minutes_max}",
            rule="clock-skew",
            where="intent-id",
            hint="set the writer's clock",
        )
