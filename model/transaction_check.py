"""What a transaction must be before any table is looked at; what is wrong is refused at the door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from firn.model.amounts import plural
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.identifiers import check_table_name
from firn.model.limits import Limits
from firn.model.operations.rest import RestCommit
from firn.model.operations.tables import CreateTable
from firn.model.operations.transaction import MEMBER_OPERATIONS, Member, Transaction
from firn.model.spelling import did_you_mean

OF_THE_ENTRY: Final = ("writer", "writer_sequence", "epoch_label", "reply_to", "traceparent", "deadline_ms", "digest")
"""What the stream entry has once, and none of its members."""


def with_member_ids(obj: Any) -> Any:
    """The JSON of an intent, where members of a transaction that have no intent id get the transaction's.

    Refuses operations that exist and cannot be members. Whatever else is wrong with it is left as it is.
    """
    if not isinstance(obj, dict) or obj.get("operation") != "transaction" or not isinstance(obj.get("members"), list):
        return obj
    return {**obj, "members": [_with_id(m, obj, at) for at, m in enumerate(obj["members"])]}


def _with_id(member: Any, transaction: Mapping[str, Any], at: int) -> Any:
    if not isinstance(member, dict):
        return member
    operation = member.get("operation")
    if isinstance(operation, str) and operation not in MEMBER_OPERATIONS:
        raise InvalidIntent(
            f"{operation[:80]!r} cannot be part of a transaction",
            rule="invalid-transaction",
            where=f"members[{at}].operation",
            hint=did_you_mean(operation, MEMBER_OPERATIONS) or "submit it as an intent of its own",
        )
    if "intent-id" in member or "intent-id" not in transaction:
        return member
    return {"intent-id": transaction["intent-id"], **member}


def check_transaction(transaction: Transaction, *, limits: Limits) -> None:
    """Raises InvalidIntent for a transaction that no state of its tables would make right.

    What each member holds (sizes, files) is checked as it is for an intent of its own, not here.
    """
    if len(transaction.members) > limits.transaction_members_max:
        raise _too_large(f"{len(transaction.members)} members, the limit is {limits.transaction_members_max}")
    if len(transaction.tables) > limits.transaction_tables_max:
        raise _too_large(f"{plural(len(transaction.tables), 'table')}, the limit is {limits.transaction_tables_max}")
    for at, member in enumerate(transaction.members):
        _check_member(member, transaction, where=f"members[{at}]")
    changed = {member.table for member in transaction.members}
    if transaction.table not in changed:
        raise InvalidIntent("must be the table of one of the members", rule="invalid-transaction", where="table")
    seen: set[str] = set()
    for at, one in enumerate(transaction.unchanged):
        where = f"unchanged[{at}]"
        _check_name(one.table, where=where)
        if one.table in changed or one.table in seen:
            what = "changed by a member" if one.table in changed else "named twice"
            raise InvalidIntent(f"{one.table!r} is {what}", rule="invalid-transaction", where=f"{where}.table")
        seen.add(one.table)
        if one.metadata_location is None and isinstance(one.snapshot_id, msgspec.UnsetType):
            raise InvalidIntent("needs metadata-location or snapshot-id", rule="missing-field", where=where)


def _check_member(member: Member, transaction: Transaction, *, where: str) -> None:
    _check_name(member.table, where=where)
    if member.intent_id != transaction.intent_id:
        raise InvalidIntent(
            "has an id of its own; a member has the transaction's, or none",
            rule="invalid-transaction",
            where=f"{where}.intent-id",
        )
    for name in OF_THE_ENTRY:
        if getattr(member, name) is not None:
            raise InvalidIntent(
                "belongs to the transaction, not to its members",
                rule="invalid-transaction",
                where=f"{where}.{name.replace('_', '-')}",
            )
    if isinstance(member, CreateTable) and member.catalog != "metastore":
        raise InvalidIntent(
            "a file-system table is created by the put of its first version, which no transaction can hold",
            rule="invalid-transaction",
            where=f"{where}.catalog",
        )
    if isinstance(member, RestCommit) and any(member.updates_of("remove-snapshots")):
        raise InvalidIntent(
            "snapshots are removed by an intent of its own, which looks at what waits for them",
            rule="invalid-transaction",
            where=f"{where}.updates",
        )


def _check_name(table: str, *, where: str) -> None:
    try:
        check_table_name(table)
    except InvalidInput as error:
        raise InvalidIntent(
            error.message, rule="invalid-table-name", where=f"{where}.table", hint=error.hint
        ) from error


def _too_large(message: str) -> InvalidIntent:
    return InvalidIntent(message, rule="transaction-too-large", where="members", hint="split what need not be together")
