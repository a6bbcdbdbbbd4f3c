"""What a lane knows of its table at one version of the pointer."""

from __future__ import annotations

from typing import Final

from firn.coordinator.journal.decisions import Decisions
from firn.coordinator.replay.head import Head
from firn.coordinator.replay.live_files import FILE_BYTES
from firn.coordinator.replay.working import Working
from firn.coordinator.tables.journal_heads import journal_head_of
from firn.coordinator.tables.table_reader import TableReader
from firn.model.errors import NotFound
from firn.model.limits import Limits
from firn.model.metadata import TableMetadata
from firn.model.metadata_counters import not_below, with_shown_counters
from firn.model.snapshot import MAIN_BRANCH
from firn.model.view import ViewMetadata
from firn.storage.journal import JournalFiles
from firn.storage.metadata_files import forget_texts
from firn.storage.pointers import Pointer, Versioned

METADATA_BYTES: Final = 50_000
"""What a table of twenty columns takes without its snapshots."""

SNAPSHOT_BYTES: Final = 4_000
"""What a snapshot takes with its summary, its place in the log and its JSON text, which leaves holes as it grows."""

MANIFEST_BYTES: Final = 2_000
"""What a manifest of a head takes, beside its entries."""

LIVE_BYTES_FORGOTTEN_MAX: Final = 50_000 * FILE_BYTES
"""Live files up to which a table is forgotten: so many are found again in half a second, by reading all manifests."""


class TableState:
    """What one name stands for: pointer and decisions, and a table's metadata and heads or a view's metadata.

    `version` is the pointer's znode version, None while there is no pointer. Changed only by `load` (what the pointer
    says now) and `advance` (a swap that was won).
    """

    def __init__(self, table: str, *, reader: TableReader, journal: JournalFiles, limits: Limits) -> None:
        self.table = table
        self.version: int | None = None
        self.pointer: Pointer | None = None
        self.metadata: TableMetadata | None = None
        self.view: ViewMetadata | None = None
        self.heads: dict[int | None, Head] = {}
        self._last: dict[str, int | None] = {}
        """The snapshot of the last head that was known of each branch."""
        self.decisions = Decisions(journal, limits=limits)
        self.knows_decisions = False
        """Whether they are all that the pointer's journal has, also where `load` failed for something else."""
        self._reader = reader
        self._journal = journal
        self._limits = limits

    def load(self, versioned: Versioned | None) -> None:
        """Follow the pointer to where it is now; reads what is new. Blocking: call it in a worker thread.

        Raises CorruptFile, InvalidMetadata, Unsupported, NotFound (a file of the table is gone), Unavailable.
        """
        self.knows_decisions = False
        if versioned is None:
            self.version, self.pointer = None, None
            self._forget()
            self.decisions = Decisions(self._journal, limits=self._limits)
            self.knows_decisions = True
            return
        pointer = versioned.pointer
        if self.pointer is not None and self.pointer.uuid != pointer.uuid and pointer.journal_head is None:
            self.decisions = Decisions(self._journal, limits=self._limits)
        if pointer.catalog == "metastore":  # first: what is decided is known though the metadata may be damaged
            self.decisions.catch_up(pointer.journal_head)
            self.knows_decisions = True
        if pointer.dropped:
            self._forget()
        elif self.current is None or self.pointer is None or _metadata_of(self.pointer) != _metadata_of(pointer):
            self._read(pointer)
        self.decisions.catch_up(journal_head_of(pointer, self.metadata))
        self.knows_decisions = True
        self.version, self.pointer = versioned.version, pointer

    def _read(self, pointer: Pointer) -> None:
        """The metadata that the pointer names, of whichever kind."""
        location, digest = pointer.metadata_location, pointer.digest
        if pointer.kind == "view":
            view = self._reader.view(location, digest=digest)
            self._require_uuid(pointer, view)
            self._forget()
            self.view = view
            return
        metadata = self._reader.metadata(location, digest=digest)
        self._require_uuid(pointer, metadata)
        metadata = with_shown_counters(metadata)
        known = self.metadata
        if known is not None and known.table_uuid == metadata.table_uuid:
            metadata = not_below(metadata, known)  # another writer may have put them back
        self._move_to(metadata)

    def _require_uuid(self, pointer: Pointer, found: TableMetadata | ViewMetadata) -> None:
        if uuid_of(found) != pointer.uuid:
            raise NotFound(
                f"{pointer.metadata_location} is of {pointer.kind} {uuid_of(found)}, the pointer of {self.table!r} "
                f"says {pointer.uuid}"
            )

    def _forget(self) -> None:
        self.metadata, self.view, self.heads, self._last = None, None, {}, {}

    @property
    def memory(self) -> int:
        """Bytes that this takes, about; of a table that is too large to be forgotten only what it can forget."""
        return self.decisions.memory if self._is_large else self.whole_memory

    @property
    def whole_memory(self) -> int:
        """Bytes that this takes, about."""
        if self.current is None:
            return self.decisions.memory
        snapshots = 0 if self.metadata is None else len(self.metadata.snapshots)
        heads = sum(len(head.manifests) * MANIFEST_BYTES + head.live.memory for head in self.heads.values())
        return METADATA_BYTES + snapshots * SNAPSHOT_BYTES + heads + self.decisions.memory

    def make_small(self) -> None:
        """Forget what `load` soon has read again; what was decided stays known, but for ids that checkpoints list."""
        self.decisions.make_small()
        if self._is_large:
            return
        if self.metadata is not None:
            forget_texts(self.metadata)
        self._forget()

    @property
    def _is_large(self) -> bool:
        """Whether it takes long to find the table's live files again."""
        return any(head.live.memory > LIVE_BYTES_FORGOTTEN_MAX for head in self.heads.values())

    @property
    def current(self) -> TableMetadata | ViewMetadata | None:
        """The metadata of whatever the name stands for."""
        return self.view if self.metadata is None else self.metadata

    def advance(self, pointer: Pointer, version: int | None, working: Working) -> None:
        """Take over the state of a won swap without reading anything."""
        self.version, self.pointer = version, pointer
        if working.metadata is None:
            self._forget()
            self.view = working.view
            return
        self._adopt(list(working.heads.values()), working.metadata)
        self._move_to(working.metadata)

    def _adopt(self, heads: list[Head], metadata: TableMetadata) -> None:
        """Make the heads of a won replay the known ones; those that still share a base part from it by a copy."""
        bases = [head.base_snapshot_id for head in heads]
        unmoved = {None, *_branches(metadata).values()} - {head.snapshot_id for head in heads}
        for head in heads:
            if head.snapshot_id == head.base_snapshot_id:
                self.heads.setdefault(head.snapshot_id, head)  # looked at, not changed
                continue
            shared = head.base_snapshot_id in unmoved or bases.count(head.base_snapshot_id) > 1
            head.live.adopt(shared=shared)
            if head.deletes is not None:
                head.deletes.adopt(shared=shared)
            if not shared:
                self.heads.pop(head.base_snapshot_id, None)  # it has the files of the new one now
            head.base_snapshot_id = head.snapshot_id
            self.heads[head.snapshot_id] = head

    def _move_to(self, metadata: TableMetadata) -> None:
        """Take over other metadata. Of each branch one head stays known: its own, or where that has not been asked for
        the last one that was, since what both have need not be read again.
        """
        last: dict[str, int | None] = {}
        if self.metadata is not None and self.metadata.table_uuid == metadata.table_uuid:
            before = _branches(self.metadata)
            last = self._last | {branch: head for branch, head in before.items() if head in self.heads}
        self.metadata, self.view = metadata, None
        self._last = {
            branch: head if head is None or head in self.heads else last.get(branch)
            for branch, head in _branches(metadata).items()
        }
        kept = {None, *self._last.values()}
        self.heads = {snapshot_id: head for snapshot_id, head in self.heads.items() if snapshot_id in kept}


def _metadata_of(pointer: Pointer) -> tuple[str, str]:
    """What tells one metadata file from another: ``v3.metadata.json`` may be another table's when it was made anew."""
    return pointer.metadata_location, pointer.uuid


def _branches(metadata: TableMetadata) -> dict[str, int | None]:
    """The head of each branch; main has one always, which may be empty."""
    heads = {name: ref.snapshot_id for name, ref in metadata.refs.items() if ref.type == "branch"}
    return {MAIN_BRANCH: None, **heads}


def uuid_of(metadata: TableMetadata | ViewMetadata) -> str:
    """What tells a table or view from another that had the same name."""
    return metadata.view_uuid if isinstance(metadata, ViewMetadata) else metadata.table_uuid
