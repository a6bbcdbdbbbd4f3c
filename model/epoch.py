"""What a streaming writer's epoch contains, in terms that do not change when the epoch is planned anew.

An epoch that is run again after a crash has new files, of other sizes and in another number, and a new intent id. The
rows that it adds are the same, so their number is. See docs/decisions/0021-streaming-epochs.md.
"""

from __future__ import annotations

import hashlib
from typing import Final

from firn.model.amounts import plural
from firn.model.operations.common import Operation
from firn.model.operations.transaction import Transaction
from firn.model.planned_on import ref_of

CONTENT_CHARS_MAX: Final = 500
"""Length of a content that is written out. Only transactions have more: theirs is a digest."""


def epoch_content(intent: Operation) -> str:
    """Return the content of an epoch: each operation with its branch and the number of rows that it adds.

    The table is named for members of a transaction only, so that a renamed table keeps its writers' epochs.
    """
    if not isinstance(intent, Transaction):
        return _content(intent)
    content = "; ".join(f"{_content(member)} in {member.table!r}" for member in intent.members)
    if len(content) <= CONTENT_CHARS_MAX:
        return content
    return f"{len(intent.members)} operations, digest {hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"


def labelled(content: str, label: str | None) -> str:
    """Return the content of an epoch with its writer's label, for people."""
    return content if label is None else f"{content}, labelled {label!r}"


def _content(operation: Operation) -> str:
    rows = sum(file.record_count for file in getattr(operation, "data_files", ()))
    rows += sum(manifest.rows_count for manifest in getattr(operation, "manifests", ()))
    ref = ref_of(operation)
    branch = "" if ref is None else f" on {ref!r}"
    staged = ", staged" if getattr(operation, "stage", False) else ""
    return f"{operation.__struct_config__.tag} of {plural(rows, 'row')}{branch}{staged}"
