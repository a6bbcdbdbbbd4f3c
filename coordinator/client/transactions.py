"""Transactions as a method: several intents that are committed together or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, cast

import msgspec

from firn.coordinator.client.intents import members_of
from firn.coordinator.client.options import IntentOptions
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.coordinator.client.table_view import TableView
from firn.model.errors import InvalidIntent
from firn.model.intent import OPERATIONS, Intent
from firn.model.operations.transaction import MEMBER_OPERATIONS, Member, Transaction, Unchanged


class Transactions(Submitting[Submitted_co]):
    """Operations on one table or several, all or none of which are committed."""

    def transaction(
        self,
        members: Iterable[Intent],
        *,
        unchanged: Iterable[TableView | Unchanged] = (),
        table: str | None = None,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Commit `members` (made by `Intents`) in this order, or none of them.

        Each is applied to what those before it left of its table; bases are as they were before the transaction.
        `unchanged` are tables that were read: a `TableView` stands for its main branch, which must still be at the
        snapshot that the view shows. `table` is the one whose queue it waits in: that of the first member, unless it is
        given. Raises InvalidIntent for what cannot be part of a transaction.
        """
        intents = list(members)
        if not intents:
            raise InvalidIntent("has no members", rule="invalid-transaction", where="members")
        own = members_of(options)
        return self.submit(
            Transaction(
                table=table or intents[0].table,
                members=tuple(_member(one, own["intent_id"], at) for at, one in enumerate(intents)),
                unchanged=tuple(one if isinstance(one, Unchanged) else _as_shown(one) for one in unchanged),
                **own,
            )
        )


def _member(intent: Intent, intent_id: str, at: int) -> Member:
    operation = OPERATIONS.get(type(intent))
    if operation not in MEMBER_OPERATIONS:
        raise InvalidIntent(
            f"{operation} cannot be part of a transaction", rule="invalid-transaction", where=f"members[{at}]"
        )
    # The trace is the transaction's, as the id is: a member made within a span has it of itself.
    return cast("Member", msgspec.structs.replace(cast("Any", intent), intent_id=intent_id, traceparent=None))


def _as_shown(view: TableView) -> Unchanged:
    return Unchanged(table=view.name, table_uuid=view.uuid, snapshot_id=view.snapshot_id)
