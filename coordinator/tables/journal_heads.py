"""Where the journal of a table begins, for both kinds of tables."""

from __future__ import annotations

from firn.model.metadata import TableMetadata
from firn.model.pointer import Pointer
from firn.model.table_properties import JOURNAL_HEAD
from firn.storage.journal import sequence_of


def journal_head_of(pointer: Pointer, metadata: TableMetadata | None) -> str | None:
    """The newest journal segment: of a file-system table the one that its metadata names, unless the znode is ahead.

    It is ahead after a drop, and where a foreign writer went back to an older version of the properties.
    """
    named = None if metadata is None or pointer.catalog == "metastore" else metadata.properties.get(JOURNAL_HEAD)
    heads = [head for head in (pointer.journal_head, named) if head is not None]  # of two equals the znode's
    return max(heads, key=sequence_of, default=None)
