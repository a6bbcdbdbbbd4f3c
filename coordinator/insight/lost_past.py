"""Whether an intent was committed, as far as the table itself tells: for when its journal cannot say it any more.

Synchronous; reads metadata and the manifests of one snapshot.
"""

from __future__ import annotations

from typing import Final

import msgspec

from firn.coordinator.insight.landed import Landed, landed
from firn.coordinator.tables.table_reader import TableReader
from firn.model.intent import Intent, added_files
from firn.model.metadata import TableMetadata
from firn.model.snapshot import MAIN_BRANCH
from firn.storage.locations import canonical

FILES_SHOWN: Final = 3


class Evidence(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What the table says of an intent.

    `snapshot` is the one whose summary names it. Of the `files` that it would add so many are
    `live` on its branch, the first few of which are `examples`; `adders` are the snapshots that added them.
    `oldest_ms` is since when snapshots are kept: what was made and expired before it left no trace.
    """

    snapshot: Landed | None = None
    files: int = 0
    live: int = 0
    examples: tuple[str, ...] = ()
    adders: tuple[Landed, ...] = ()
    oldest_ms: int | None = None

    @property
    def is_committed(self) -> bool:
        """Whether anything says that the intent was committed."""
        return self.snapshot is not None or self.live > 0


def evidence_of(intent: Intent, *, metadata: TableMetadata, reader: TableReader) -> Evidence:
    """Look for traces of an intent. Raises what reading the table raises."""
    made = next((one for one in map(landed, metadata.snapshots) if one.intent_id == intent.intent_id), None)
    wanted = {canonical(file.file_path) for file in added_files(intent)}
    live: dict[str, int | None] = {}
    ref = metadata.refs.get(getattr(intent, "branch", None) or MAIN_BRANCH)
    head = None if ref is None else metadata.snapshot_by_id(ref.snapshot_id)
    if wanted and head is not None:
        for manifest in reader.manifests(metadata, head):
            for entry in reader.entries(metadata, manifest):
                if entry.is_live and (name := canonical(entry.data_file.file_path)) in wanted:
                    live[name] = entry.snapshot_id
    added_by = (metadata.snapshot_by_id(one) for one in dict.fromkeys(live.values()) if one is not None)
    return Evidence(
        snapshot=made,
        files=len(wanted),
        live=len(live),
        examples=tuple(sorted(live)[:FILES_SHOWN]),
        adders=tuple(landed(one) for one in added_by if one is not None),
        oldest_ms=min((one.timestamp_ms for one in metadata.snapshots), default=None),
    )
