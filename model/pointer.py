"""The table pointer as a value: which metadata file a table or view is, and where it has files."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from firn.model.pause import Pause


class Pointer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Where a table or view is now.

    `catalog` says who owns the truth: ``metastore`` is this pointer itself, ``file-system`` the newest
    ``v<N>.metadata.json`` (then the pointer follows it). `digest` is of the metadata file's bytes.
    `journal_head` is the newest journal segment. `watermarks` maps ``<stream epoch>/<shard>`` to the last stream entry
    that is decided. A `dropped` table's pointer stays, so that its journal does: what was committed to it is still
    answered; `renamed_to` is the name under which it goes on, if it does. `also_at` are places beside `location` in
    which the table has files: where it was before, where its properties put files. While it is `paused`, nothing is
    decided on it (`firn.storage.pauses`). Members that this version does not know are kept in `extra`.
    """

    table: str
    kind: Literal["table", "view"] = "table"
    catalog: Literal["metastore", "file-system"] = "metastore"
    uuid: str
    location: str
    metadata_location: str
    metadata_digest: str | None = None
    metadata_digest_of_parts: str | None = None
    """In the place of `metadata_digest`, which stands before it: an older firn knows that one only."""
    journal_head: str | None = None
    watermarks: dict[str, str] = {}
    dropped: bool = False
    dropped_ms: int | None = None
    """When it was dropped or renamed, Unix milliseconds; None for a table that is there, and where nobody knows."""
    purge: bool = False
    """Whether maintenance is to remove the files of the dropped table."""
    also_at: tuple[str, ...] = ()
    renamed_to: str | None = None
    paused: Pause | None = None
    extra: dict[str, Any] = {}

    @property
    def digest(self) -> str | None:
        """The digest of the metadata file, of whichever kind (`firn.storage.content_digests`); None: not known."""
        return self.metadata_digest_of_parts if self.metadata_digest is None else self.metadata_digest
