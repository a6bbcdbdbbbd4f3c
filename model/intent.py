"""Intents: what a writer asks for. One stream entry carries one intent as JSON in its field ``intent``.

An intent is the operation, its files and the assumptions it was planned under; never a snapshot. The operations are in
`firn.model.operations`; the field names are the Iceberg REST specification's where it has one
(``docs/wire-format.md``).
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Final, get_args

import msgspec

from firn.model.operations.common import ContentFile, CountMap, Operation, ValueMap
from firn.model.operations.files import (
    Append,
    DeleteFileRef,
    DeleteFiles,
    DeleteWhere,
    FileIntent,
    FileOperation,
    Overwrite,
    Replace,
    ReplacePartitions,
    RewriteManifests,
    RowDelta,
    WrittenManifest,
)
from firn.model.operations.layout import LayoutOperation
from firn.model.operations.refs import RefOperation
from firn.model.operations.rest import RestOperation
from firn.model.operations.tables import CreateOrReplaceTable, CreateTable, DropTable, RegisterTable, RenameTable
from firn.model.operations.transaction import Transaction
from firn.model.operations.upkeep import UpkeepOperation
from firn.model.operations.views import ViewOperation

__all__ = [
    "INTENT_FIELD",
    "OPERATIONS",
    "REPLY_STREAM_PREFIX",
    "Append",
    "ContentFile",
    "CountMap",
    "CreateOrReplaceTable",
    "CreateTable",
    "DeleteFileRef",
    "DeleteFiles",
    "DeleteWhere",
    "DropTable",
    "FileOperation",
    "Intent",
    "Overwrite",
    "RegisterTable",
    "RenameTable",
    "Replace",
    "ReplacePartitions",
    "RewriteManifests",
    "RowDelta",
    "Transaction",
    "ValueMap",
    "WrittenManifest",
    "added_files",
    "digest_as_spelled",
    "digest_in",
    "digest_of",
    "encode_intent",
    "removed_delete_files",
    "removed_files",
    "spells_out_defaults",
    "with_defaults_left_out",
    "without_address",
]

INTENT_FIELD: Final = b"intent"
"""The one field of a stream entry."""

REPLY_STREAM_PREFIX: Final = "firn:replies:"
"""Where outcomes may be sent to: a writer must not make the daemon write to any other key."""

Intent = (
    FileIntent
    | CreateTable
    | CreateOrReplaceTable
    | RegisterTable
    | RenameTable
    | DropTable
    | RefOperation
    | UpkeepOperation
    | LayoutOperation
    | ViewOperation
    | RestOperation
    | Transaction
)

OPERATIONS: Final[dict[type, str]] = {operation: str(operation.__struct_config__.tag) for operation in get_args(Intent)}
"""Operation name by struct, as on the wire."""

_CANONICAL: Final = msgspec.json.Encoder(order="sorted")


def encode_intent(intent: Intent) -> bytes:
    """The JSON that goes into the stream entry."""
    return msgspec.json.encode(intent)


def digest_of(intent: Intent) -> str:
    """Identity of the content: 128 bits in hexadecimal over everything but `reply_to`, `traceparent` and `digest`.

    The first two are left out because a writer that restarts may resubmit the same intent from another process.
    """
    return digest_as_spelled(with_defaults_left_out(intent))


def digest_as_spelled(intent: Intent) -> str:
    """As `digest_of`, but a member that is spelled out at its default counts: so did it with older firns."""
    return digest_in(without_address(intent))


def without_address(intent: Intent) -> bytes:
    """What `digest_as_spelled` is the digest of: JSON with its members sorted, but for those that do not count."""
    return _CANONICAL.encode(msgspec.structs.replace(intent, reply_to=None, traceparent=None, digest=None))


def digest_in(canonical: bytes) -> str:
    """The digest of an intent from its JSON `without_address`."""
    return hashlib.blake2b(canonical, digest_size=16).hexdigest()


def spells_out_defaults(intent: Append) -> bool:
    """Whether a member is there that is at its default: then the digest is of other bytes than those it came as."""
    return bool(_spelled_out(intent))


def with_defaults_left_out(intent: Intent) -> Intent:
    """The same intent, encoded without the members that are at their defaults.

    msgspec leaves a member out that *is* its default; text that was read from JSON only equals it.
    """
    changed: dict[str, Any] = _spelled_out(intent)
    if isinstance(intent, Transaction):
        members = [with_defaults_left_out(member) for member in intent.members]
        if any(new is not old for new, old in zip(members, intent.members, strict=True)):
            changed["members"] = tuple(members)
        unchanged = [(one, _spelled_out(one)) for one in intent.unchanged]
        if any(spelled for _, spelled in unchanged):
            changed["unchanged"] = tuple(msgspec.structs.replace(one, **spelled) for one, spelled in unchanged)
    return msgspec.structs.replace(intent, **changed) if changed else intent


def _spelled_out(struct: msgspec.Struct) -> dict[str, Any]:
    """Members that equal their default without being it, each with its default."""
    found = {}
    for name, default in _text_defaults(type(struct)):
        value = getattr(struct, name)
        if value is not default and value == default:
            found[name] = default
    return found


@functools.cache
def _text_defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The members of a struct that are text by default."""
    fields = msgspec.structs.fields(kind)
    return tuple((field.name, field.default) for field in fields if isinstance(field.default, str))


def added_files(intent: Operation) -> tuple[ContentFile, ...]:
    """Data and delete files that the intent would add; those inside manifests are not among them."""
    if isinstance(intent, Append):  # nearly always, and asked of each
        return intent.data_files
    if not isinstance(intent, FileOperation | CreateOrReplaceTable):
        return ()
    return (*getattr(intent, "data_files", ()), *getattr(intent, "delete_files", ()))


def removed_files(intent: Operation) -> tuple[str, ...]:
    """Locations of data files that the intent would remove by name."""
    return () if isinstance(intent, Append) else getattr(intent, "removed_data_files", ())


def removed_delete_files(intent: Operation) -> tuple[DeleteFileRef, ...]:
    """Delete files that the intent would remove by name."""
    return () if isinstance(intent, Append) else getattr(intent, "removed_delete_files", ())
