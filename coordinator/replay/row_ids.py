"""Ids of rows that an intent writes anew: they keep those that they have, if its writer can have known them.

The rows of a table that comes to format v3 get their ids with the first snapshot of each branch after that. Whoever has
read them before that has none to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firn.coordinator.replay import rules
from firn.coordinator.replay.working import Working
from firn.model.manifest import ManifestEntry
from firn.model.snapshot import Snapshot


def require_known_row_ids(
    working: Working, since: Sequence[Snapshot], rewritten: Iterable[ManifestEntry], *, base: int | None
) -> None:
    """Refuse to write rows anew that were given ids after the base.

    Ids are given in order, so such are not below the first that a snapshot of the window gave. Prevents: a row that
    nobody has changed becoming another one.
    """
    given = [snapshot for snapshot in since if snapshot.first_row_id is not None]
    if not given:
        return
    first = given[-1]
    for entry in rewritten:
        file = entry.data_file
        if file.first_row_id is None or file.first_row_id < (first.first_row_id or 0):
            continue
        if entry.snapshot_id not in working.own:  # whose files an earlier member of the transaction has added
            rules.LOST_ROW_IDS.refuse(
                f"snapshot {first.snapshot_id} gave ids to rows of {file.file_path} after the intent was planned: "
                f"written anew without them, they would be other rows",
                files=(file.file_path,),
                winner=first,
                base=base,
            )
